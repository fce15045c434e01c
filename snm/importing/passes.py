"""Passes over the rows of an import before its points are written.

They find the vocabulary, the first feature id, and the labels that are frequent enough.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
from scipy.sparse import csr_matrix

from snm.data.csr import row_starts
from snm.data.formats.foreign import Row
from snm.data.formats.records import MAX_IDS
from snm.data.vectorizer import Kind, Vectorizer
from snm.data.weighting import inverse_frequency
from snm.errors import InputError
from snm.text import counted

__all__ = ["OnProgress", "feature_matrix", "fit_vectorizer", "frequent_labels", "index_base"]

OnProgress = Callable[[int], None]
"""A progress callback: called with the number of rows done so far."""


def fit_vectorizer(
    rows: Iterable[Row],
    kind: Kind,
    template: Vectorizer,
    *,
    max_features: int,
    min_points: int,
    max_share: float,
    on_progress: OnProgress,
    source: str,
) -> Vectorizer:
    """Chooses the vocabulary in one pass over the training texts.

    The vocabulary holds the `max_features` words of highest document frequency df among those that
    occur in at least `min_points` and at most a share `max_share` of the n texts. Ties go to the
    word that sorts first. Ids follow the alphabet. For `tfidf`, idf is log((1 + n) / (1 + df)) + 1,
    as in scikit-learn's TfidfVectorizer. `hashing` needs no vocabulary: it reads rows until one has
    a word.

    Args:
      rows: the training rows.
      kind: `counts`, `tfidf` or `hashing`.
      template: a vectorizer of kind `hashing` with the tokenization to use.
      max_features: largest number of words; number of hash buckets for `hashing`.
      min_points: smallest document frequency of a word.
      max_share: largest document frequency of a word over n.
      on_progress: called with the number of rows read so far.
      source: where the rows come from, for messages.

    Raises:
      InputError: no word is left.
    """
    hashing = dataclasses.replace(template, num_features=max_features)
    tokenize = hashing.build_analyzer()
    frequency: collections.Counter[str] = collections.Counter()
    points = 0
    for row in rows:
        frequency.update(set(tokenize(row.text or "")))
        points += 1
        on_progress(points)
        if kind == "hashing" and frequency:
            return hashing
    kept = [w for w, count in frequency.items() if min_points <= count <= max_share * points]
    kept = sorted(sorted(kept, key=lambda word: (-frequency[word], word))[:max_features])
    if not frequency:
        raise _without_words(source, counted(points, "text"), hashing)
    if not kept:
        found = f"no word that occurs in at least {min_points} of {points} texts"
        found += "" if max_share == 1 else f", and in at most {max_share:g} of them"
        options = [] if min_points == 1 else ["a lower --min-points"]
        options += [] if max_share == 1 else ["a higher --max-share"]
        raise InputError(source, found, " or ".join(options))
    counts = np.array([frequency[word] for word in kept], np.float64)
    return dataclasses.replace(
        hashing,
        kind=kind,
        num_features=len(kept),
        vocabulary=tuple(kept),
        idf=inverse_frequency(points, counts) if kind == "tfidf" else None,
    )


def _without_words(source: str, texts: str, vectorizer: Vectorizer) -> InputError:
    """The error of texts in which a vectorizer finds no word at all."""
    if (shortest := vectorizer.ngrams[0]) > 1:
        unit = "words" if vectorizer.analyzer == "word" else "characters"
        found = f"no {shortest} {unit} in a row in {texts}"
        return InputError(source, found, "longer texts, or lower --ngrams")
    if vectorizer.tokenization_hint is None:
        return InputError(source, f"no word in {texts}", "texts that are not empty")
    kinds = [] if vectorizer.token_pattern else ["of two or more letters or digits"]
    kinds += ["none of --stop-words"] if vectorizer.stop_words else []
    found = f"no word in {texts}" + (f" ({', and '.join(kinds)})" if kinds else "")
    return InputError(source, found, f"words, or {vectorizer.tokenization_hint}")


def index_base(rows: Iterable[Row], on_progress: OnProgress) -> tuple[int, int]:
    """Finds the first feature id of a file (0 or 1) and the number of features.

    Args:
      rows: rows with `entries`.
      on_progress: called with the number of rows read so far.

    Returns:
      0 if some row has feature 0, otherwise 1; and the number of ids from there to the largest.

    Raises:
      InputError: an id that does not fit int32.
    """
    low, high = 1, 0
    for number, row in enumerate(rows, 1):
        assert row.entries is not None
        ids = row.entries[0]
        if len(ids):
            low, high = min(low, int(ids[0])), max(high, int(ids[-1]))
            if high >= MAX_IDS:
                raise InputError(row.where, f"feature {high}", f"an id below {MAX_IDS}")
        on_progress(number)
    return low, max(1, high - low + 1)


def feature_matrix(rows: list[Row], base: int, width: int) -> csr_matrix:
    """The numeric features of rows: float32 CSR [rows, width]; ids are counted from `base`."""
    pairs = [row.entries for row in rows if row.entries is not None]
    starts = row_starts([len(ids) for ids, _ in pairs])
    ids = np.concatenate([ids for ids, _ in pairs]) - base
    values = np.concatenate([values for _, values in pairs])
    return csr_matrix((values, ids.astype(np.int32), starts), shape=(len(rows), width))


def frequent_labels(
    rows: Iterable[Row], min_count: int, on_progress: OnProgress
) -> tuple[frozenset[str], int]:
    """The labels of at least `min_count` rows, and the number of the others.

    Args:
      rows: the training rows.
      min_count: smallest number of rows of a label that is kept.
      on_progress: called with the number of rows read so far.

    Raises:
      InputError: no label is left.
    """
    frequency: collections.Counter[str] = collections.Counter()
    points = 0
    for points, row in enumerate(rows, 1):
        frequency.update(row.labels)
        on_progress(points)
    kept = frozenset(name for name, count in frequency.items() if count >= min_count)
    if not kept:
        found = f"no label of at least {min_count} of {points} training points"
        raise InputError("--min-label-count", found, "a lower number, or labels (see --labels)")
    return kept, len(frequency) - len(kept)
