"""What `--like` names: a run or data whose ids of features and labels later data take."""

from __future__ import annotations

from typing import NamedTuple

from snm.data.formats.layouts import find_names
from snm.data.formats.line_files import read_lines
from snm.data.load import fetched
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError
from snm.system.files.checks import local_folder

__all__ = ["LikeIds", "read_like"]


class LikeIds(NamedTuple):
    """The vectorizer and the label names of a run or a data set."""

    vectorizer: Vectorizer
    names: tuple[str, ...]


def read_like(like: str) -> LikeIds:
    """What the ids of a run folder, a data folder or a fetched set stand for.

    Raises:
      InputError: it is none of these, or was not trained on or made of texts.
    """
    local = local_folder("--like", like)
    folder = fetched(like) or local
    vectorizer, names = folder / "vectorizer.json", find_names(folder)
    if not vectorizer.is_file() or names is None:
        found = "no such folder"
        if folder.is_dir():
            found = "no label names" if vectorizer.is_file() else "no vectorizer.json"
        expected = "a run or data of texts (`snm data import`)"
        raise InputError(f"--like {like}", found, expected)
    known = tuple(read_lines(names))
    if len(set(known)) < len(known):
        raise InputError(str(names), "a label name twice", "different names")
    return LikeIds(Vectorizer.read(vectorizer), known)
