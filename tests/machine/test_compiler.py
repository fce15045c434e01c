"""The options of programs on a CPU: the user's count first, and unknown ones are left out."""

from collections.abc import Iterator
from importlib import metadata

import jax
import pytest

from snm.machine import compiler
from snm.machine.platform import compiling_for

LEVEL, FUSION = "xla_backend_optimization_level", "xla_cpu_use_fusion_emitters"
# jaxlib 0.11 no longer has the second.
NO_FUSION = {FUSION: False} if metadata.version("jaxlib").startswith("0.10.") else {}


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    compiler._supported.cache_clear()
    yield
    compiler._supported.cache_clear()


def test_steps_keep_the_emitters_of_fused_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    assert compiler.step_options() == {LEVEL: 1}
    assert compiler.answer_options() == {LEVEL: 1} | NO_FUSION
    for options in (compiler.step_options(), compiler.answer_options()):
        assert jax.jit(lambda x: 2 * x, compiler_options=options)(21) == 42


def test_what_the_user_sets_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_hlo_as_text=false --{LEVEL}=3")
    assert compiler.step_options() == {}
    assert compiler.answer_options() == NO_FUSION


def test_an_option_that_the_compiler_does_not_know_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(compiler, "_FUSION", {"xla_cpu_of_another_version": False})
    assert compiler.answer_options() == {LEVEL: 1}


def test_accelerators_have_none_for_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with compiling_for("tpu", 80 << 30):
        assert compiler.step_options([64 << 20]) is None
        assert compiler.answer_options() is None
    with compiling_for("gpu", 80 << 30):
        products = {"xla_gpu_enable_triton_gemm": False}
        assert compiler.step_options([64 << 20]) == compiler.answer_options() == products
        monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_enable_triton_gemm=true")
        assert compiler.step_options() == compiler.answer_options() == {}


MIB = 1 << 20
KERNELS = "xla_tpu_scoped_vmem_limit_kib"


@pytest.mark.parametrize(
    ("tables", "left"),
    [((1600 * MIB, 64 * MIB), 32), ((128 * MIB,), 32), ((32 * MIB, 129 * MIB), None), ((), None)],
)
def test_a_tpu_leaves_less_memory_of_the_chip_where_a_table_would_fit(
    tables: tuple[int, ...], left: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 128 MiB, 32 are left for arrays, and 96 for kernels; small tables may be copied."""
    monkeypatch.delenv("LIBTPU_INIT_ARGS", raising=False)
    with compiling_for("tpu", 16 << 30, 128 * MIB):
        expected = None if left is None else {KERNELS: (128 - left) * 1024}
        assert compiler.step_options(tables) == compiler.answer_options(tables) == expected


def test_what_the_user_sets_for_a_tpu_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIBTPU_INIT_ARGS", f"--{KERNELS}=65536")
    with compiling_for("tpu", 16 << 30, 128 * MIB):
        assert compiler.step_options([64 * MIB]) is None
