"""Programs are kept for the number of cores, and what cannot be kept is told once."""

import warnings

import jax
import pytest

from snm.system.compilation_cache import compiled_programs_path, enable_compilation_cache


def test_programs_of_more_cores_are_others(tmp_path, monkeypatch):
    monkeypatch.delenv("NPROC", raising=False)
    for count in (1, 2):
        monkeypatch.setattr("snm.machine.cores._affinity", lambda count=count: count)
        assert compiled_programs_path(tmp_path) == f"{tmp_path}/compiled/{count}"
    monkeypatch.setenv("NPROC", "7")
    assert compiled_programs_path(tmp_path) == f"{tmp_path}/compiled/7"


def test_a_full_disk_is_told_once(tmp_path, monkeypatch, capsys):
    """JAX warns of each program, in two lines with a path of its own; other warnings stay."""
    monkeypatch.setenv("SNM_CACHE", str(tmp_path / "cache"))
    reason = "OSError: [Errno 28] No space left on device"
    monkeypatch.setattr(jax.config, "update", lambda *_: None)  # not for the tests that follow
    with warnings.catch_warnings(record=True) as others:
        warnings.simplefilter("always")
        enable_compilation_cache()
        for name in ("jit_steps", "jit_best"):
            said = f"Error writing persistent compilation cache entry for '{name}': {reason}"
            warnings.warn(said, stacklevel=1)
        warnings.warn("another", stacklevel=1)
    assert [str(other.message) for other in others] == ["another"]
    assert capsys.readouterr().err == (
        f"snm: compiled programs are not kept in {tmp_path / 'cache'}: {reason}\n"
    )


@pytest.mark.parametrize("place", ["gs://bucket/programs/", "folder"])
def test_the_variable_of_jax_names_another_place(place, tmp_path, monkeypatch):
    """The cache folder is not looked at: programs may be kept in a store, data may not."""
    monkeypatch.setenv("SNM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", place)
    set_values = {}
    monkeypatch.setattr(jax.config, "update", set_values.__setitem__)
    with warnings.catch_warnings():
        enable_compilation_cache()
    expected = compiled_programs_path(place.rstrip("/"))
    assert set_values["jax_compilation_cache_dir"] == expected
    assert not (tmp_path / "cache").exists()
