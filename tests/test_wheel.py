"""The wheel: built from what git tracks, installed into a bare environment, used from there."""

import io
import os
import subprocess
import sys
import tarfile
import venv
import zipfile

import pages
import pytest
import tiny


def run(*argv, **options):
    return subprocess.run(
        [str(arg) for arg in argv], capture_output=True, text=True, timeout=600, **options
    )


GIT = ["git", "-C", str(pages.ROOT)]


def sources(folder):
    """What git tracks, as a clone has it."""
    packed = subprocess.run([*GIT, "archive", "HEAD"], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def clean():
    """An environment in which nothing says where `snm` is."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def install(bare, *words, env):
    """Installs into a new environment: by the pip of this one, and without compiling modules."""
    venv.create(bare)
    pip = (sys.executable, "-m", "pip", "--python", bare / "bin/python")
    return run(*pip, "install", "-q", "--no-compile", *words, env=env)


@pytest.mark.slow
def test_an_editable_install_is_found_beside_its_clone(tmp_path, clean):
    """There, a folder without `__init__.py` has the name of the package."""
    clone, bare = sources(tmp_path / "snm"), tmp_path / "bare"
    put = install(bare, "--no-deps", "-e", clone, env=clean)
    if put.returncode and "No matching distribution" in put.stderr:
        pytest.skip("no setuptools to be had")
    assert put.returncode == 0, put.stderr[-2000:]
    code = "from importlib.util import find_spec; print(find_spec('snm').origin)"
    told = run(bare / "bin/python", "-c", code, cwd=tmp_path, env=clean)
    assert told.stdout.strip() == str(clone / "snm" / "__init__.py"), told


@pytest.mark.slow
def test_a_wheel_is_whole_and_works_in_a_bare_environment(tmp_path, clean):
    sources(tmp_path / "source")
    python = sys.executable
    build = (python, "-m", "build", "--outdir", tmp_path / "dist", tmp_path / "source")
    made = run(*build, env=clean)
    if made.returncode and "No matching distribution" in made.stdout + made.stderr:
        pytest.skip("no setuptools to be had")
    assert made.returncode == 0, made.stderr[-2000:]
    (wheel,), (source,) = ((tmp_path / "dist").glob(kind) for kind in ("*.whl", "*.tar.gz"))
    checked = run(python, "-m", "twine", "check", "--strict", wheel, source)
    assert checked.returncode == 0, checked.stdout[-2000:]
    tracked = run(*GIT, "ls-tree", "-r", "--name-only", "HEAD", "snm").stdout.split()
    assert set(tracked) <= set(zipfile.ZipFile(wheel).namelist())

    bare = tmp_path / "bare"
    put = install(bare, wheel, env=clean)
    if put.returncode and "No matching distribution" in put.stderr:
        pytest.skip("no packages to be had")
    assert put.returncode == 0, put.stderr[-2000:]
    told = run(bare / "bin/snm", "--version", env=clean, cwd=tmp_path)
    assert told.returncode == 0 and told.stdout.startswith("snm 0."), told.stderr
    data = tiny.write(tmp_path / "data")
    train = ("train", data, "--run-dir", tmp_path / "run", *tiny.FLAGS)
    trained = run(bare / "bin/snm", *train, env=clean, cwd=tmp_path)
    assert trained.returncode == 0 and "P" in trained.stdout, trained.stderr
    assert (tmp_path / "run/result.json").exists() and str(sys.prefix) not in trained.stderr
