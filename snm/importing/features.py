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

    from snm.data.conversion.passes import OnProgress
    from snm.data.formats.foreign import Row
    from snm.data.vectorizer import Kind, Vectorizer
    from snm.importing.build import Import
    from snm.importing.rows import Reading, Rows
    from snm.system.terminal import Counter

__all__ = ["Features", "Ids", "features_of", "ids_of"]

_MOST_WORDS, _PLACES = 200_000, 1 << 18
_MARKS = (",", " ", ";", "|")  # usual ones between the items of a text


class Features(NamedTuple):
    """How rows become features, and what this says of labels.

    Attributes:
      of: rows -> float32 CSR [rows, width].
      width: the number of features.
      vectorizer: of texts; None where rows have features already.
      labels: names of labels by id, where ids are given: those of `--like`, or of the features,
        which are the same items.
      item_marks: what may separate items that labels are too, None for features that are numbers;
        empty where it is known whether labels are such items.
    """

    of: Callable[[list[Row]], csr_matrix]
    width: int
    vectorizer: Vectorizer | None = None
    labels: tuple[str, ...] | None = None
    item_marks: Sequence[str | None] = ()


def features_of(command: Import, reading: Reading, rows: Rows, passing: Counter) -> Features:
    """How the rows of an import become features; reads them all where that depends on them.

    Args:
      command: the options.
      reading: how the files are read.
      rows: of the files.
      passing: shows progress.

    Raises:
      InputError: a row that cannot be read, rows whose features and labels cannot be the same
        items, stop words that cannot be read, or texts without a word.
    """
    if reading.like is not None:
        texts, labels = reading.like
        return _of_texts(texts)._replace(labels=labels)
    if command.same_items:
        return _of_items(command, reading, rows.every(), passing("reading items"))
    if reading.reader.entries:
        return _of_entries(rows.every(), passing("reading ids"))
    texts = reading.remembered_by(_fitted(command, rows.training(), passing("reading words")))
    return _of_texts(texts)._replace(item_marks=_MARKS)


def _of_entries(rows: Iterable[Row], on_progress: OnProgress) -> Features:
    """Features by id, the lowest of which is 0 or 1; `rows` are all that there are."""
    from snm.data.conversion.passes import feature_matrix, index_base

    base, width = index_base(rows, on_progress)
    return Features(lambda chunk: feature_matrix(chunk, base, width), width, item_marks=[None])


def _of_items(
    command: Import, reading: Reading, rows: Iterable[Row], on_progress: OnProgress
) -> Features:
    """Features that are the items that labels are too; `rows` are all that there are."""
    from snm.data.conversion.items import collect_items, items_as_text, number_items
    from snm.data.conversion.passes import feature_matrix

    first = next(iterator := iter(rows))
    rows = itertools.chain([first], iterator)
    if first.entries is not None:
        base, items = number_items(rows, on_progress)
        return Features(
            lambda chunk: feature_matrix(chunk, base, len(items)), len(items), labels=items
        )
    items = collect_items(rows, command.item_separator, on_progress, str(command.source))
    texts = reading.remembered_by(items_as_text(items, command.item_separator, ()))
    return _of_texts(texts)._replace(labels=items)


def _of_texts(vectorizer: Vectorizer) -> Features:
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


def _fitted(command: Import, rows: Iterable[Row], on_progress: OnProgress) -> Vectorizer:
    """The vectoriser that the options ask for, fitted to rows of texts.

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
        max_features=most,
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
    from snm.data.vectorizer import collect_words, english_stop_words

    if asked is None:
        return ()
    lines = english_stop_words() if asked == "english" else read_lines(Path(asked))
    words = collect_words(lines, like)
    if not words:
        raise InputError(f"--stop-words {asked}", "no word", "`english`, or a word a line")
    return words
