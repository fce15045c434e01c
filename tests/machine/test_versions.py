"""The versions that a run records."""

from importlib import metadata

from snm.machine.versions import versions


def test_versions_are_those_of_the_packages():
    found = versions()
    assert found["jax"] == metadata.version("jax")
    assert found["snm"] == metadata.version("snm")


def test_a_clone_that_was_not_installed_runs(monkeypatch):
    version = metadata.version

    def of_a_clone(package):
        if package == "snm":
            raise metadata.PackageNotFoundError(package)
        return version(package)

    monkeypatch.setattr(metadata, "version", of_a_clone)
    assert versions()["snm"] == "not installed"
    assert versions()["numpy"] == version("numpy")
