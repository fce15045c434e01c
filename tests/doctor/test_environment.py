"""Packages, devices and the cache as `snm doctor` finds them."""

import os

import pytest
import tiny
from doctor.test_data_checks import found

import snm
from snm.doctor import environment


def test_a_jax_that_cannot_start(tmp_path, monkeypatch):
    def broken():
        raise AssertionError  # some say nothing

    monkeypatch.setattr("jax.devices", broken)
    assert "peak memory" not in found(tiny.write(tmp_path / "data"), memory=True)
    (said,) = environment._devices()
    assert said.level == "error" and said.found == "jax cannot start: AssertionError"


def test_a_lack_of_memory_is_no_jax_that_cannot_start(monkeypatch):
    def broken():
        raise MemoryError

    monkeypatch.setattr("jax.devices", broken)
    with pytest.raises(MemoryError):
        list(environment._devices())


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("echo NVIDIA H100; echo", ["NVIDIA H100"]),
        ("echo NVIDIA-SMI has failed; exit 9", []),
        ("echo No devices were found", []),
    ],
)
def test_the_names_of_gpus(script, names, tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert environment.gpus() == names


def test_a_cache_that_cannot_be_used(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for place, said in (("file", "cannot be written to"), ("x" * 300, "cannot be reached: file")):
        monkeypatch.setenv("SNM_CACHE", str(tmp_path / place))
        (finding,) = environment._cache()
        assert finding.level == "warning" and said in finding.found


def test_a_clone_that_was_not_installed(monkeypatch):
    real = environment.metadata.requires

    def requires(name):
        if name == "snm":
            raise environment.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(environment.metadata, "requires", requires)
    (said,) = environment._packages()
    assert said.level == "ok" and f"snm {snm.__version__}" in said.found


def test_a_gpu_that_jax_does_not_see(monkeypatch):
    monkeypatch.setattr(environment, "gpus", lambda: ["NVIDIA H100"])
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    (said,) = environment._devices()
    assert said.level == "warning" and "NVIDIA H100" in said.found
    assert said.advice == "JAX_PLATFORMS is 'cpu': unset it"
    monkeypatch.delenv("JAX_PLATFORMS")
    (said,) = environment._devices()
    assert "cuda13" in said.advice


def test_versions_that_the_package_does_not_allow(monkeypatch):
    real = environment.metadata.version
    monkeypatch.setattr(
        environment.metadata, "version", lambda name: "0.9" if name == "jax" else real(name)
    )
    (said,) = environment._packages()
    assert said.level == "error" and "jax 0.9 is not >=0.10" in said.found


def test_only_requirements_of_this_python_and_without_extras_count(monkeypatch):
    needed = ["numpy>=2; python_version >= '3'", "no-such-a>=1; python_version < '3'",
              "no-such-b; extra == 'hub'", "no-such-c"]  # fmt: skip
    monkeypatch.setattr(environment.metadata, "requires", lambda name: needed)
    (said,) = environment._packages()
    assert said.level == "error" and said.found == "no-such-c is not installed"


def test_huge_pages_that_are_not_requested(monkeypatch, tmp_path):
    setting = tmp_path / "enabled"
    monkeypatch.setattr(environment, "_HUGE_PAGES", setting)
    monkeypatch.setattr(environment.platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    assert not list(environment._pages())  # not Linux: no such file
    setting.write_text("[always] madvise never\n")
    assert not list(environment._pages())
    setting.write_text("always [madvise] never\n")
    (said,) = environment._pages()
    assert said.level == "note" and said.advice == "set GLIBC_TUNABLES=glibc.malloc.hugetlb=1"
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=0:glibc.malloc.hugetlb=1")
    assert not list(environment._pages())
    monkeypatch.delenv("GLIBC_TUNABLES")
    monkeypatch.setattr(environment.platform, "libc_ver", lambda: ("glibc", "2.31"))
    assert not list(environment._pages())
