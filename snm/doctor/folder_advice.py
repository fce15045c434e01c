"""Advice for a folder without a known layout: files that may be the data under other names."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path

from snm.data.formats.detection import recognize
from snm.data.formats.foreign import READERS
from snm.data.formats.records import json_objects, numbered_lines
from snm.data.formats.split_files import HEADER, SplitFiles, is_split
from snm.doctor.text_scan import first_line
from snm.errors import InputError

__all__ = ["advice_on_files"]

_FILES_LISTED = 6
_FILTER = "filter_labels"


def advice_on_files(folder: Path) -> str:
    """Advice on the files of a folder that is not a data set.

    Args:
      folder: the folder, which is searched recursively.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())[:1000]
    if advice := _advice_on_raw_text(files):
        return advice
    if (split := SplitFiles.among(files)) is not None:
        found = f"{split.train.name} and {split.test.name} have rows of {split.points.name}"
        return f"{found}: make a data set of them with `{split.command}`"
    firsts = [
        (path, first_line(path))
        for path in sorted(files, key=_order)
        if not path.name.startswith(_FILTER) and not is_split(path)
    ]
    # A header is stronger evidence than a suffix or the look of a line.
    headed = [path for path, first in firsts if HEADER.fullmatch(first)]
    for path, part in itertools.product(headed, ("train", "test")):
        if _is_in_part(part, path):
            shown, title = path.relative_to(folder), "the repository's text with a header"
            where = "" if path.parent == folder else f" and give {path.parent} as DATA"
            return f"{shown} looks like {title}: name it {part}.txt{where}"
    for path, first in firsts:
        if (form := recognize(path, first)) is not None:
            shown, title = path.relative_to(folder), READERS[form].title or form
            return f"{shown} looks like {title}: bring it in with `snm data import`"
    names = ", ".join(str(path.relative_to(folder)) for path in files[:_FILES_LISTED])
    return f"the folder holds {names or 'nothing'}; docs/formats.md lists the files of a data set"


def _is_in_part(part: str, path: Path) -> bool:
    """Whether a file belongs to the part `train` or `test`, by its name."""
    return part in path.name.lower() or {"train": "trn", "test": "tst"}[part] in path.name


def _order(path: Path) -> int:
    """Sort key: training files first, then others, test files, and label files last."""
    if _is_in_part("train", path):
        return 0
    if _is_in_part("test", path):
        return 2
    return 3 if path.name.lower().startswith(("lbl", "label")) else 1


def _advice_on_raw_text(files: list[Path]) -> str:
    """The command to import the raw text of the repository's LF sets; empty if it is not there."""
    by_name = {path.parent / path.name.removesuffix(".gz"): path for path in reversed(files)}
    for name, labels in sorted(by_name.items()):
        train = by_name.get(name.with_name("trn.json"))
        if name.name != "lbl.json" or train is None:
            continue
        if not {"title", "target_ind"} <= _fields(train):
            continue
        test = by_name.get(name.with_name("tst.json"))
        arguments = ["snm", "data", "import", str(train)]
        arguments += [] if test is None else ["--test", str(test)]
        arguments += ["--text", "title", "--labels", "target_ind", "--label-names", str(labels)]
        command = shlex.join([*arguments, "--out", "DATA"])
        found = f"{train.name} has texts, and {labels.name} the names of their labels"
        return f"{found}: bring them in with `{command}`"
    return ""


def _fields(path: Path) -> set[str]:
    """The fields of the first line of a JSON lines file."""
    try:
        _, first = next(json_objects(path, numbered_lines(path)), (path, {}))
    except InputError:
        return set()
    return set(first)
