"""How the rows of an import become features: as they are, or by a vectoriser of texts."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from snm.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from snm.cli.data_verbs.import_files import Import
    from snm.data.conversion.passes import OnProgress
    from snm.data.formats.foreign import Row
    from snm.data.vectorizer import Kind, Vectorizer

__all__ = [
    "Features", "Ids", "entry_features", "ids_of", "item_features", "marks_of_items",
    "text_features", "vectorizer_of",
]  # fmt: skip

_MOST_WORDS, _PLACES = 200_000, 1 << 18
_MARKS = ", ;|"  # usual ones between the items of a text


class Features(NamedTuple):
    """How rows become features.

    Attributes:
      of: rows -> float32 CSR [rows, width].
      width: the number of features.
      vectorizer: of texts; None where rows have features already.
      items: names of the features, by id, where labels are the same items.
    """

    of: Callable[[list[Row]], csr_matrix]
    width: int
    vectorizer: Vectorizer | None = None
    items: tuple[str, ...] = ()


def entry_features(rows: Iterable[Row], on_progress: OnProgress) -> Features:
    """Features by id, the lowest of which is 0 or 1; `rows` are all that there are."""
    from snm.data.conversion.passes import entries_of, index_base

    base, width = index_base(rows, on_progress)
    return Features(lambda chunk: entries_of(chunk, base, width), width)


def item_features(command: Import, rows: Iterable[Row], on_progress: OnProgress) -> Features:
    """Features that are the items that labels are too.

    Args:
      command: with `--same-items`.
      rows: all that there are, as `as_items` makes them.
      on_progress: called with the number of rows that are done.

    Raises:
      InputError: rows whose features and labels cannot be the same items.
    """
    from snm.data.conversion.items import items_as_text, listed_items, numbered_items
    from snm.data.conversion.passes import entries_of

    first = next(iterator := iter(rows))
    rows = itertools.chain([first], iterator)
    if first.entries is not None:
        base, items = numbered_items(rows, on_progress)
        return Features(lambda chunk: entries_of(chunk, base, len(items)), len(items), items=items)
    items = listed_items(rows, command.item_separator, on_progress, str(command.source))
    return text_features(items_as_text(items, command.item_separator, ()))._replace(items=items)


def marks_of_items(entries: bool) -> Sequence[str | None]:
    """What may separate items that labels are too: of numbers (`entries`) nothing, or of texts."""
    return [None] if entries else _MARKS


def text_features(vectorizer: Vectorizer) -> Features:
    """Features of texts, by a vectoriser."""

    def of(chunk: list[Row]) -> csr_matrix:
        return vectorizer.transform([row.text or "" for row in chunk])

    return Features(of, vectorizer.num_features, vectorizer)


class Ids(NamedTuple):
    """The vectoriser and the label names of a run or a data set."""

    vectorizer: Vectorizer
    names: tuple[str, ...]


def ids_of(like: str) -> Ids:
    """What the ids of a run folder, a data folder or a fetched set stand for.

    Raises:
      InputError: it is none of these, or was not trained on or made of texts.
    """
    from snm.data.formats.dispatch import read_lines
    from snm.data.formats.layouts import find_names
    from snm.data.load import fetched
    from snm.data.vectorizer import Vectorizer
    from snm.stores.copies import local

    folder = fetched(like) or local(like)
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
    return Ids(Vectorizer.read(vectorizer), known)


def vectorizer_of(command: Import, rows: Iterable[Row], on_progress: OnProgress) -> Vectorizer:
    """The vectoriser that the options ask for, fitted to rows.

    Raises:
      InputError: stop words that cannot be read, or no word is left.
    """
    from snm.data.conversion.passes import fit_vectorizer
    from snm.data.vectorizer import CLASSES, Vectorizer

    kind = CLASSES.get(command.vectorizer, cast("Kind", command.vectorizer))
    most = command.features or (_PLACES if kind == "hashing" else _MOST_WORDS)
    like = Vectorizer(
        "hashing",
        most,
        ngrams=command.ngrams,
        strip_accents=command.strip_accents,
        analyzer=command.analyzer,
        token_pattern=command.token_pattern,
        lowercase=command.lowercase,
        binary=command.binary,
    )
    like = dataclasses.replace(like, stop_words=_stop_words(command.stop_words, like))
    return fit_vectorizer(
        rows,
        kind,
        like,
        most=most,
        min_points=command.min_points,
        max_share=command.max_share,
        on_progress=on_progress,
        source=str(command.source),
    )


def _stop_words(asked: str | None, like: Vectorizer) -> tuple[str, ...]:
    """The words to leave out, as the vectorizer cuts them.

    Raises:
      InputError: a file that cannot be read, or without a word.
    """
    from snm.data.formats.dispatch import read_lines
    from snm.data.vectorizer import english_stop_words, words_of

    if asked is None:
        return ()
    lines = english_stop_words() if asked == "english" else read_lines(Path(asked))
    words = words_of(lines, like)
    if not words:
        raise InputError(f"--stop-words {asked}", "no word", "`english`, or a word a line")
    return words
