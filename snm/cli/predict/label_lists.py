"""Files that list labels by name or id, one per line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from snm.errors import InputError
from snm.text import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from snm.prediction.predictor import Predictor

__all__ = ["read_labels"]


def read_labels(
    path: Path, predictor: Predictor, *, may_be_none: bool = False
) -> NDArray[np.int32]:
    """The ids of the labels that a file lists, int32 [S]; prints a note on unknown names.

    Args:
      path: the file. A number is an id, unless the names of some labels are numbers.
      predictor: has the names of the labels.
      may_be_none: whether the file may be without a known label.

    Raises:
      InputError: a file that cannot be read, or an id out of range; and unless `may_be_none`, no
        label, or no known one.
    """
    import numpy as np

    from snm.data.formats.line_files import read_lines
    from snm.prediction.candidates.parse import unknown_labels_error
    from snm.system.streams import print_note

    lines, names = read_lines(path), set(predictor.label_names or ())
    if not may_be_none and not any(map(str.strip, lines)):
        raise InputError(str(path), "no label", "names or ids of labels, one a line")
    names_are_numbers = any(name.isdecimal() for name in names)
    ids: list[int] = []
    unknown: list[tuple[int, str]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        label: int | str = line
        if line not in names and re.fullmatch(" *[0-9]{1,16} *", line) and not names_are_numbers:
            label = int(line)
        try:
            known = predictor.ids_of([label], skip_unknown=True)
        except InputError as error:
            raise InputError(f"{path}:{number}", error.found, error.expected) from error
        ids.extend(known)
        if not len(known):
            unknown.append((number, line.strip()))
    if unknown:
        number, name = unknown[0]
        if not ids and not may_be_none:
            raise unknown_labels_error(f"{path}:{number}", name, len(unknown))
        some = f"{len(unknown):,} of {counted(len(ids) + len(unknown), 'label')} in {path}"
        print_note(f"{some} are unknown to the run, such as {name!r}: left out")
    return np.asarray(ids, np.int32)
