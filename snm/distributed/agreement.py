"""What the processes of a run must have in common, compared before it can do harm.

With other settings or other data in one of them, processes train a wrong model together, or wait
for each other without end; so they do with a folder that is not the same one for all.
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
)
from snm.errors import InputError, counted
from snm.system import disk

__all__ = ["agree", "agree_on_folder", "difference", "is_mark"]

_MOST_TOLD = 3  # differences, and processes, that an error line names
_SEEN_WITHIN = 15.0  # seconds: a network disk may show a new file late
_MARK = ".snm-same-disk-"
Facts = Mapping[str, str]


def agree(facts: Facts, remedy: str) -> None:
    """Compares facts of all processes, which must call it at the same point.

    Args:
      facts: name -> value in words.
      remedy: what to do where they differ, the end of the error line.

    Raises:
      InputError: they differ; the same line in all processes, which names the facts.
    """
    if not has_several_processes():
        return
    gathered = gather_texts(json.dumps(dict(facts)))
    error = difference([json.loads(text) for text in gathered], remedy)
    if error is not None:
        raise error


def difference(gathered: list[Facts], remedy: str) -> InputError | None:
    """What to raise where the facts of some process are not those of process 0.

    Args:
      gathered: of each process.
      remedy: as in `agree`.

    Example:
      >>> told = difference([{"seed": "0"}, {"seed": "7"}], "start both alike")
      >>> str(told)
      'process 1: found seed = 7, expected seed = 0 as in process 0: start both alike'
    """
    first = gathered[0]
    others = [_other_than(first, facts) for facts in gathered]
    odd = next((names for names in others if names), None)
    if odd is None:
        return None
    found = _in_words(gathered[others.index(odd)], odd)
    same = [
        number
        for number, names in enumerate(others)
        if names == odd and _in_words(gathered[number], odd) == found
    ]
    return InputError(_named(same), found, f"{_in_words(first, odd)} as in process 0: {remedy}")


def _other_than(first: Facts, facts: Facts) -> list[str]:
    """The names of facts that are not those of process 0."""
    return [name for name in {**first, **facts} if facts.get(name) != first.get(name)]


def _in_words(facts: Facts, names: list[str]) -> str:
    told = ", ".join(f"{name} = {facts.get(name, 'nothing')}" for name in names[:_MOST_TOLD])
    more = len(names) - _MOST_TOLD
    return f"{told} and {more} more" if more > 0 else told


def _named(numbers: list[int]) -> str:
    """Some processes in words: `process 1`, `processes 1, 2`."""
    told = ", ".join(str(number) for number in numbers[:_MOST_TOLD])
    more = len(numbers) - _MOST_TOLD
    noun = "process" if len(numbers) == 1 else "processes"
    return f"{noun} {told}" + (f" and {counted(more, 'other')}" if more > 0 else "")


def agree_on_folder(folder: Path, where: str) -> None:
    """Checks that a path is the same folder for all processes, which must call it together.

    Process 0 writes a mark into the folder, or into the nearest one above it that exists, and the
    others look for it; then it is removed.

    Args:
      folder: it need not exist.
      where: what an error names, such as `--run-dir runs/a`.

    Raises:
      InputError: a process does not see the mark; raised in all.
    """
    if not has_several_processes():
        return
    with _marked(folder) if is_first_process() else contextlib.nullcontext("") as mine:
        mark = gather_texts(mine)[0]
        seen = gather_texts("yes" if not mark or _is_seen(Path(mark)) else "")
    barrier("the mark is removed")  # before a process looks at what is in the folder
    blind = [number for number, answer in enumerate(seen) if not answer]
    if blind:
        found = f"another folder in {_named(blind)} than in process 0"
        raise InputError(where, found, "a folder on a disk of all, or an address in a store")


@contextlib.contextmanager
def _marked(folder: Path) -> Iterator[str]:
    """The path of a new file there; empty where none can be written, which others find out."""
    place = folder.absolute()
    mark = None
    with contextlib.suppress(OSError):
        nearest = next(path for path in (place, *place.parents) if path.is_dir())
        mark = nearest / f"{_MARK}{secrets.token_hex(8)}"
        mark.touch(exist_ok=False)
    try:
        yield str(mark) if mark is not None and mark.exists() else ""
    finally:
        if mark is not None:
            with contextlib.suppress(OSError):
                disk.remove(mark)


def is_mark(path: Path) -> bool:
    """Whether a file is a mark of `agree_on_folder`, left where process 0 was killed beside it."""
    return path.name.startswith(_MARK)


def _is_seen(mark: Path) -> bool:
    """Whether a file that another process has just written is there, at once or soon."""
    last = time.monotonic() + _SEEN_WITHIN
    while time.monotonic() < last:
        with contextlib.suppress(OSError):
            if mark.exists():
                return True
        time.sleep(0.1)
    return False
