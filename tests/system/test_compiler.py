"""The options of programs on a CPU: the user's count first, and unknown ones are left out."""

from collections.abc import Iterator

import jax
import pytest

from snm.system import compiler
from snm.system.platform import compiling_for

LEVEL, FUSION = "xla_backend_optimization_level", "xla_cpu_use_fusion_emitters"


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    compiler._is_free.cache_clear()
    yield
    compiler._is_free.cache_clear()


def test_steps_keep_the_emitters_of_fused_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    assert compiler.step_options() == {LEVEL: 1}
    assert compiler.answer_options() == {LEVEL: 1, FUSION: False}
    for options in (compiler.step_options(), compiler.answer_options()):
        assert jax.jit(lambda x: 2 * x, compiler_options=options)(21) == 42


def test_what_the_user_sets_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_hlo_as_text=false --{LEVEL}=3")
    assert compiler.step_options() == {}
    assert compiler.answer_options() == {FUSION: False}


def test_an_option_that_the_compiler_does_not_know_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(compiler, "_FUSION", {"xla_cpu_of_another_version": False})
    assert compiler.answer_options() == {LEVEL: 1}


def test_accelerators_have_none() -> None:
    with compiling_for("gpu", 80 << 30):
        assert compiler.step_options() is None
        assert compiler.answer_options() is None
