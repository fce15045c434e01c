"""The flag that makes one kernel of a loop over rows: set once, unless the user set his own."""

import os
import subprocess
import sys

import pytest

from snm.machine.cores import xla_threads
from snm.machine.xla_flags import set_flags

OURS = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=262144"
LOOP = """
import jax, jax.numpy as jnp, snm
def summed(rows):
    return jax.lax.fori_loop(0, 900, lambda i, rows: rows.at[i + 1].add(rows[i]), rows)
compiled = jax.jit(summed).lower(jax.ShapeDtypeStruct((1000, 512), jnp.float32)).compile()
print(compiled.as_text().count("xla_cpu_small_call"))
"""


@pytest.mark.parametrize(
    ("given", "then"),
    [
        (None, OURS),
        ("", OURS),
        ("--xla_dump_hlo_as_text=false ", f"--xla_dump_hlo_as_text=false {OURS}"),
        ("--xla_backend_extra_options=a=1", "--xla_backend_extra_options=a=1"),
        ("flags.txt", "flags.txt"),  # a file, to which nothing can be added
        (OURS, OURS),
    ],
)
def test_what_the_user_gave_stays(given, then, monkeypatch):
    if given is None:
        monkeypatch.delenv("XLA_FLAGS", raising=False)
    else:
        monkeypatch.setenv("XLA_FLAGS", given)
    set_flags()
    assert os.environ["XLA_FLAGS"] == then


@pytest.mark.parametrize(
    ("flags", "kernels"),
    [("", True), pytest.param(f"{OURS[:-6]}1", False, marks=pytest.mark.slow)],
)
def test_a_loop_over_rows_becomes_one_kernel(flags, kernels):
    """The compiler takes the flag from `import snm`, and counts such a loop as small."""
    out = subprocess.run(
        [sys.executable, "-c", LOOP],
        env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (int(out.stdout) > 0) == kernels


@pytest.mark.parametrize(
    ("given", "cores", "then"),
    [(None, 2, "2"), ("3", 2, "3"), ("0", 64, "0"), (None, 64, None), ("none", 64, "none")],
)
def test_xla_has_as_many_threads_as_there_is_time_for(given, cores, then, monkeypatch):
    monkeypatch.setattr("snm.machine.cores._affinity", lambda: 64)
    monkeypatch.setattr("snm.machine.cores._quota", lambda: float(cores))
    monkeypatch.setenv("NPROC", given or "")  # what is set below is undone
    if given is None:
        monkeypatch.delenv("NPROC")
    set_flags()
    assert os.environ.get("NPROC") == then
    assert xla_threads() == {"2": 2, "3": 3, "0": 1}.get(then, 64)
