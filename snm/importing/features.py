"""How the rows of an import become features: as they are, or by a vectorizer of texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from scipy.sparse import csr_matrix

from snm.data.formats.foreign import Row
from snm.data.formats.line_files import read_lines
from snm.data.vectorizer import CLASSES, Kind, Vectorizer, collect_words, english_stop_words
from snm.errors import InputError
from snm.importing.items import collect_items, items_as_text, number_items
from snm.importing.options import ImportOptions, display_names
from snm.importing.passes import OnProgress, feature_matrix, fit_vectorizer, index_base
from snm.importing.rows import Reading, Rows
from snm.system.terminal import Counter

__all__ = ["Features", "make_features"]

_MAX_WORDS, _HASH_BUCKETS = 200_000, 1 << 18  # the defaults of --features
_MARKS = (",", " ", ";", "|")  # usual ones between the items of a text


class Features(NamedTuple):
    """How rows become features, and what this says of labels.

    Attributes:
      transform: rows -> float32 CSR [rows, width].
      width: the number of features.
      vectorizer: of texts; None where rows have features already.
      labels: names of labels by id, where ids are given: those of `--like`, or of the features,
        which are the same items.
      item_marks: what may separate items that labels are too, None for features that are numbers;
        empty where it is known whether labels are such items.
    """

    transform: Callable[[list[Row]], csr_matrix]
    width: int
    vectorizer: Vectorizer | None = None
    labels: tuple[str, ...] | None = None
    item_marks: Sequence[str | None] = ()


def make_features(
    options: ImportOptions, reading: Reading, rows: Rows, start_counter: Counter
) -> Features:
    """How the rows of an import become features; reads them all where that depends on them.

    Args:
      options: of the import.
      reading: how the files are read.
      rows: of the files.
      start_counter: starts the progress line of a pass.

    Raises:
      InputError: a row that cannot be read, rows whose features and labels cannot be the same
        items, stop words that cannot be read, or texts without a word.
    """
    if reading.like is not None:
        texts, labels = reading.like
        return _text_features(texts)._replace(labels=labels)
    if options.same_items:
        return _item_features(options, reading, rows.every(), start_counter("reading items"))
    if reading.reader.entries:
        return _numeric_features(rows.every(), start_counter("reading ids"))
    texts = reading.record_in(_fit(options, rows.training(), start_counter("reading words")))
    return _text_features(texts)._replace(item_marks=_MARKS)


def _numeric_features(rows: Iterable[Row], on_progress: OnProgress) -> Features:
    """Features by id, the lowest of which is 0 or 1; `rows` are all that there are."""
    base, width = index_base(rows, on_progress)
    return Features(lambda chunk: feature_matrix(chunk, base, width), width, item_marks=[None])


def _item_features(
    options: ImportOptions, reading: Reading, rows: Iterable[Row], on_progress: OnProgress
) -> Features:
    """Features that are the items that labels are too; `rows` are all that there are."""
    if reading.reader.entries:
        base, items = number_items(rows, on_progress)
        return Features(
            lambda chunk: feature_matrix(chunk, base, len(items)), len(items), labels=items
        )
    items = collect_items(
        rows,
        options.item_separator,
        options.label_separator,
        on_progress,
        display_names(options.source),
    )
    texts = reading.record_in(items_as_text(items, options.item_separator, ()))
    return _text_features(texts)._replace(labels=items)


def _text_features(vectorizer: Vectorizer) -> Features:
    """Features of texts, by a vectorizer."""

    def transform(chunk: list[Row]) -> csr_matrix:
        return vectorizer.transform([row.text or "" for row in chunk])

    return Features(transform, vectorizer.num_features, vectorizer)


def _fit(options: ImportOptions, rows: Iterable[Row], on_progress: OnProgress) -> Vectorizer:
    """The vectorizer that the options ask for, fitted to rows of texts.

    Raises:
      InputError: stop words that cannot be read, or no word is left.
    """
    kind = CLASSES.get(options.vectorizer, cast(Kind, options.vectorizer))
    max_features = options.features or (_HASH_BUCKETS if kind == "hashing" else _MAX_WORDS)
    template = Vectorizer(
        "hashing",
        max_features,
        ngrams=options.ngrams,
        strip_accents=options.strip_accents,
        analyzer=options.analyzer,
        token_pattern=options.token_pattern,
        lowercase=options.lowercase,
        binary=options.binary,
    )
    template = dataclasses.replace(template, stop_words=_stop_words(options.stop_words, template))
    return fit_vectorizer(
        rows,
        kind,
        template,
        max_features=max_features,
        min_points=options.min_points,
        max_share=options.max_share,
        on_progress=on_progress,
        source=display_names(options.source),
    )


def _stop_words(option: str | None, template: Vectorizer) -> tuple[str, ...]:
    """The words to leave out, as the vectorizer cuts them.

    Raises:
      InputError: a file that cannot be read, or without a word.
    """
    if option is None:
        return ()
    lines = english_stop_words() if option == "english" else read_lines(Path(option))
    words = collect_words(lines, template)
    if not words:
        raise InputError(f"--stop-words {option}", "no word", "`english`, or a word a line")
    return words
