"""Files and folders appear whole; what killed processes left is removed, what living ones hold is
not."""

import ast
import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import snm
from benchmarks.trust.crash_model import Recorder
from snm.errors import InputError
from snm.system.files import disk
from snm.system.files.atomic import atomic_file, atomic_folder, make_folder, write_atomic
from snm.system.files.checks import check_reachable

HOLDS = """
import sys, time
from pathlib import Path
from snm.system.files.atomic import atomic_folder, atomic_file
out = Path(sys.argv[1])
with atomic_folder("--out", out / "folder") as folder, atomic_file(out / "file") as file:
    (folder / "half").write_text("half")
    print("held", flush=True)
    time.sleep(60)
"""


def make(place):
    with atomic_folder("--out", place / "folder") as folder, atomic_file(place / "file") as file:
        (folder / "part").write_text("whole")
        file.write_text("whole")


def test_what_a_killed_process_left_is_removed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"held\n"
        left = {path.name for path in tmp_path.iterdir()}
        assert {re.sub(r"[0-9a-f]{8}", "RANDOM", name) for name in left} == {
            f".{process.pid}.RANDOM.folder",
            f".{process.pid}.RANDOM.file",
        }
        make(tmp_path)  # while it lives, its own stay
        assert {path.name for path in tmp_path.iterdir()} == left | {"folder", "file"}
        (tmp_path / "folder" / "part").unlink()
        (tmp_path / "folder").rmdir()
        process.send_signal(signal.SIGKILL)
        process.wait()
    # Neither by name nor by number are these such files.
    others = {"..folder", ".12.folder.txt", ".x.folder", "folder.12", ".12.0123456.folder"}
    for name in others:
        (tmp_path / name).mkdir()
    make(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == others | {"folder", "file"}


def test_an_error_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), atomic_folder("--out", tmp_path / "a") as folder:
        (folder / "part").write_text("half")
        raise RuntimeError
    with pytest.raises(RuntimeError), atomic_file(tmp_path / "b") as file:
        file.write_text("half")
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "other").touch()
    expected = pytest.raises(InputError, match=r"out .*c: found directory not empty")
    with expected, atomic_folder("--out", tmp_path / "c"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_writers_of_one_process_do_not_share_a_temporary_name(tmp_path):
    """Threads have the process id in common, and so have the first processes of two containers."""
    with atomic_file(tmp_path / "file") as first:
        first.write_text("first")
        with atomic_file(tmp_path / "file") as second:
            second.write_text("second")
        with pytest.raises(RuntimeError), atomic_folder("--out", tmp_path / "folder") as one:
            with atomic_folder("--out", tmp_path / "folder") as other:
                (other / "part").touch()
            assert one.is_dir()
            raise RuntimeError
    assert (tmp_path / "file").read_text() == "first"
    assert {path.name for path in tmp_path.iterdir()} == {"file", "folder"}


def test_names_of_new_folders_are_on_the_disk(tmp_path):
    """A power cut does not take a folder away whose files were synced."""
    with Recorder(tmp_path).recording() as record:
        make_folder(tmp_path / "a" / "b")
        write_atomic(tmp_path / "a" / "b" / "c", b"1")
    for cut, state in record.states(100):
        assert cut < len(record.calls) or state["a/b/c"] == b"1"
    make_folder(tmp_path / "a" / "b")  # which is there


def test_write_atomic_keeps_line_ends(tmp_path):
    write_atomic(tmp_path / "a.txt", "a\r\nb\u2028\n")
    assert (tmp_path / "a.txt").read_bytes() == "a\r\nb\u2028\n".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_write_atomic_leaves_nothing_after_an_error(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("old")

    def full(path):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(disk, "sync", full)
    with pytest.raises(OSError, match="no space"):
        write_atomic(tmp_path / "a.txt", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_a_path_that_cannot_be_reached(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for name in ("file", "file/below", "nothing", "nothing/below", "null \0"):
        check_reachable(tmp_path / name)
    (tmp_path / "circle").symlink_to("circle")
    for name, found in (("x" * 300, "file name too long"), ("circle", "too many levels of")):
        with pytest.raises(InputError, match=f"{name}: found {found}"):
            check_reachable(tmp_path / name)

    def denied(path, **more):
        """As to users other than root: the folder may be seen, but not searched."""
        if Path(path) != tmp_path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", denied)
        with pytest.raises(InputError) as error:
            check_reachable(tmp_path)
    said = f"{tmp_path}: found permission denied, expected a path that can be reached"
    assert error.value.as_flags == said


# What writes elsewhere: archives and their parts while they are fetched, scratch of comparisons and
# measurements.
ELSEWHERE = ("compare", "bench", "data/repository", "system/files/disk.py", "machine/ram.py")


def test_writing_goes_through_few_functions():
    """Whatever renames, removes or syncs calls `snm.system.files.disk`, which a test can watch."""
    root = Path(snm.__file__).parent
    for path in root.rglob("*.py"):
        if str(path.relative_to(root)).startswith(ELSEWHERE):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called, of = node.func.attr, getattr(node.func.value, "id", "")
                direct = called in ("rmtree", "fsync", "unlink", "write_text", "write_bytes")
                direct |= called == "rename" and of != "disk"
                assert not direct, f"{path}:{node.lineno}: {of}.{called}"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_an_error_of_a_write_names_the_file():
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        disk.write(Path("/dev/full"), b"content")


@pytest.mark.parametrize(
    "error", [(28, "No space left on device"), ("640 requested and 0 written",)]
)
def test_a_full_disk_names_the_file_that_appears_whole(tmp_path, error):
    """Writes to an open file, and NumPy's, tell no name."""
    path = tmp_path / "memory.npz"
    with pytest.raises(OSError, match=r"no space left.*memory\.npz'") as raised, atomic_file(path):
        raise OSError(*error)
    assert (raised.value.errno, raised.value.filename) == (28, str(path))
    with pytest.raises(OSError, match="something else") as raised, atomic_file(path):
        raise OSError("something else")
    assert raised.value.filename is None
