"""Checks that the processes of a run have the same settings, data and folders.

Otherwise they would train a wrong model together, or wait for each other for ever.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from snm.distributed.processes import (
    barrier,
    gather_texts,
    has_several_processes,
    is_first_process,
    min_over_processes,
)
from snm.errors import InputError
from snm.system.files import disk
from snm.text import counted

__all__ = ["check_equal", "check_same_folder", "find_difference", "have_same_folder", "is_marker"]

_MAX_NAMED = 3  # facts, and processes, that an error line names
_MARKER_TIMEOUT = 15.0  # seconds: a network disk may show a new file late
_SHORT_TIMEOUT = 1.0  # seconds, where the wrong answer only costs time
_MARKER = ".snm-same-disk-"
Facts = Mapping[str, str]


def check_equal(facts: Facts, remedy: str) -> None:
    """Checks that the facts are equal in all processes. A collective: all must call it.

    Args:
      facts: name -> value as text.
      remedy: the end of the error line: what to do if they differ.

    Raises:
      InputError: they differ. All processes raise the same line, which names the facts.
    """
    if not has_several_processes():
        return
    gathered = gather_texts(json.dumps(dict(facts)))
    error = find_difference([json.loads(text) for text in gathered], remedy)
    if error is not None:
        raise error


def find_difference(gathered: list[Facts], remedy: str) -> InputError | None:
    """Finds the first process whose facts differ from those of process 0.

    Args:
      gathered: the facts of each process.
      remedy: as in `check_equal`.

    Returns:
      The error to raise. It also names the further processes with the same values. None if all
      facts are equal.

    Example:
      >>> error = find_difference([{"seed": "0"}, {"seed": "7"}], "start both alike")
      >>> str(error)
      'process 1: found seed = 7, expected seed = 0 as in process 0: start both alike'
    """
    first = gathered[0]
    differing = [_differing_names(first, facts) for facts in gathered]
    names = next((names for names in differing if names), None)
    if names is None:
        return None
    found = _format_facts(gathered[differing.index(names)], names)
    processes = [
        number
        for number, facts in enumerate(gathered)
        if differing[number] == names and _format_facts(facts, names) == found
    ]
    expected = f"{_format_facts(first, names)} as in process 0: {remedy}"
    return InputError(_format_processes(processes), found, expected)


def _differing_names(first: Facts, facts: Facts) -> list[str]:
    """The names of the facts that differ from those of process 0."""
    return [name for name in {**first, **facts} if facts.get(name) != first.get(name)]


def _format_facts(facts: Facts, names: list[str]) -> str:
    """The named facts as text: `seed = 7, dim = 64`."""
    text = ", ".join(f"{name} = {facts.get(name, 'nothing')}" for name in names[:_MAX_NAMED])
    more = len(names) - _MAX_NAMED
    return f"{text} and {more} more" if more > 0 else text


def _format_processes(numbers: list[int]) -> str:
    """The processes as text: `process 1`, `processes 1, 2`."""
    text = ", ".join(str(number) for number in numbers[:_MAX_NAMED])
    more = len(numbers) - _MAX_NAMED
    noun = "process" if len(numbers) == 1 else "processes"
    return f"{noun} {text}" + (f" and {counted(more, 'other')}" if more > 0 else "")


def check_same_folder(folder: Path, where: str) -> None:
    """Checks that a path is the same folder for all processes. A collective: all must call it.

    Process 0 writes a marker file into the folder, or into its nearest parent that exists. The
    others look for it; then it is removed.

    Args:
      folder: it need not exist.
      where: what an error names, such as `--run-dir runs/a`.

    Raises:
      InputError: a process does not see the marker; raised in all.
    """
    if not has_several_processes():
        return
    with _marker_file(folder) if is_first_process() else contextlib.nullcontext("") as own_path:
        path = gather_texts(own_path)[0]
        is_seen = not path or _wait_for_file(Path(path), _MARKER_TIMEOUT)
        seen = gather_texts("yes" if is_seen else "")
    barrier("the marker is removed")  # before a process looks at what is in the folder
    without = [number for number, answer in enumerate(seen) if not answer]
    if without:
        found = f"another folder in {_format_processes(without)} than in process 0"
        raise InputError(where, found, "a folder on a disk of all, or an address in a store")


def have_same_folder(folder: Path | None) -> bool:
    """Whether the processes' folders are one, whatever their paths. A collective: all must call it.

    As in `check_same_folder`, process 0 writes a marker file. The answer is no if it cannot, or if
    a process has no folder or sees the marker late.
    """
    if not has_several_processes():
        return True
    marked = folder if is_first_process() else None
    with _marker_file(marked) if marked else contextlib.nullcontext("") as path:
        name = Path(gather_texts(path)[0]).name
        is_seen = folder and name and _wait_for_file(folder / name, _SHORT_TIMEOUT)
        return min_over_processes(1 if is_seen else 0) == 1


@contextlib.contextmanager
def _marker_file(folder: Path) -> Iterator[str]:
    """The path of a new file in the folder; empty if none can be written: a later write fails."""
    folder = folder.absolute()
    marker = None
    with contextlib.suppress(OSError):
        nearest = next(path for path in (folder, *folder.parents) if path.is_dir())
        marker = nearest / f"{_MARKER}{secrets.token_hex(8)}"
        marker.touch(exist_ok=False)
    try:
        yield str(marker) if marker is not None and marker.exists() else ""
    finally:
        if marker is not None:
            with contextlib.suppress(OSError):
                disk.remove(marker)


def is_marker(path: Path) -> bool:
    """Whether a file is a marker of this module, which a killed process 0 left behind."""
    return path.name.startswith(_MARKER)


def _wait_for_file(path: Path, timeout: float) -> bool:
    """Waits until a file exists that another process has just written; False after a timeout.

    Args:
      path: the file.
      timeout: in seconds.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if path.exists():
                return True
        time.sleep(0.1)
    return False
