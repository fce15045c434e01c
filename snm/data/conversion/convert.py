"""Converts rows of an import format into a data folder.

Label names get ids, texts become features, and each point goes to train or test.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.conversion.items import Overlap
from snm.data.formats.foreign import SEPARATORS, Row
from snm.data.formats.text_writer import TextWriter
from snm.data.names import composed
from snm.data.vectorizer import Kind, Vectorizer
from snm.errors import InputError
from snm.system import disk

__all__ = ["Counts", "build", "entries_of", "fit_vectorizer", "frequent_labels", "index_base"]

_CHUNK = 2048  # rows in memory at once
_LARGEST_ID = 2**31 - 1
OnProgress = Callable[[int], None]
"""A progress callback: called with the number of rows done so far."""


@dataclasses.dataclass
class Counts:
    """Sizes of the data that `build` wrote.

    Attributes:
      points: number of points by part, `train` and `test`.
      features: number of features d.
      labels: number of labels K.
      without_labels: number of points without a label.
      without_features: number of points without a feature.
      without_text: number of points whose text is empty.
      new_labels: names that were not known before, in order of first occurrence, where some were.
      weights: float32 [n], of the training points, or None where the rows have none.
      rare_labels: number of labels that were left out because few training points have them.
      joined_by: a usual separator that most label names hold, or None.
      are_numbers: whether all label names are whole numbers.
      numbered_names: label names that end with the label's number, which makes them different.
      overlaps: how often labels are items of their points, where that was counted.
    """

    points: dict[str, int]
    features: int
    labels: int
    without_labels: int
    without_features: int
    without_text: int = 0
    new_labels: tuple[str, ...] = ()
    weights: NDArray[np.float32] | None = None
    rare_labels: int = 0
    joined_by: str | None = None
    are_numbers: bool = False
    numbered_names: Sequence[str] = ()
    overlaps: Sequence[Overlap] = ()


def fit_vectorizer(
    rows: Iterable[Row],
    kind: Kind,
    like: Vectorizer,
    *,
    most: int,
    min_points: int,
    max_share: float = 1.0,
    on_progress: OnProgress,
    source: str = "texts",
) -> Vectorizer:
    """Chooses the vocabulary in one pass over the training texts.

    The vocabulary holds the `most` words of highest document frequency df among those that occur
    in at least `min_points` and at most a share `max_share` of the n texts. Ties go to the word
    that sorts first. Ids follow the alphabet. For `tfidf`, idf is log((1 + n) / (1 + df)) + 1, as
    in scikit-learn's TfidfVectorizer. `hashing` needs no vocabulary, and reads no row.

    Args:
      rows: the training rows.
      kind: `counts`, `tfidf` or `hashing`.
      like: a vectoriser of kind `hashing` that cuts texts as wished.
      most: largest number of words; number of hash buckets for `hashing`.
      min_points: smallest document frequency of a word.
      max_share: largest document frequency of a word over n.
      on_progress: called with the number of rows that are done.
      source: where the rows come from, for messages.

    Raises:
      InputError: no word is left.
    """
    blank = dataclasses.replace(like, num_features=most)
    if kind == "hashing":
        return blank
    words_of = blank.build_analyzer()
    frequency: collections.Counter[str] = collections.Counter()
    points = 0
    for row in rows:
        frequency.update(set(words_of(row.text or "")))
        points += 1
        on_progress(points)
    kept = [w for w, count in frequency.items() if min_points <= count <= max_share * points]
    kept = sorted(sorted(kept, key=lambda word: (-frequency[word], word))[:most])
    if not kept:
        found = f"no word that occurs in at least {min_points} of {points} texts"
        found += "" if max_share == 1 else f", and in at most {max_share:g} of them"
        raise InputError(source, found, "a non-empty vocabulary")
    counts = np.array([frequency[word] for word in kept], np.float64)
    return dataclasses.replace(
        blank,
        kind=kind,
        num_features=len(kept),
        vocabulary=tuple(kept),
        idf=np.log((1 + points) / (1 + counts)) + 1 if kind == "tfidf" else None,
    )


def index_base(rows: Iterable[Row], on_progress: OnProgress) -> tuple[int, int]:
    """Finds where a file's feature ids start, and the number of features.

    Args:
      rows: rows with `entries`.
      on_progress: called with the number of rows that are done.

    Returns:
      0 if some row has feature 0, else 1; and the number of ids from there to the largest.

    Raises:
      InputError: an id that does not fit int32.
    """
    low, high = 1, 0
    for number, row in enumerate(rows, 1):
        assert row.entries is not None
        ids = row.entries[0]
        if len(ids):
            low, high = min(low, int(ids[0])), max(high, int(ids[-1]))
            if high >= _LARGEST_ID:
                raise InputError(row.where, f"feature {high}", f"an id below {_LARGEST_ID}")
        on_progress(number)
    return low, max(1, high - low + 1)


def frequent_labels(
    rows: Iterable[Row], least: int, on_progress: OnProgress
) -> tuple[frozenset[str], int]:
    """The labels of at least `least` rows, and the number of the others.

    Args:
      rows: the training rows.
      least: smallest number of rows of a label that is kept.
      on_progress: called with the number of rows that are done.

    Raises:
      InputError: no label is left.
    """
    frequency: collections.Counter[str] = collections.Counter()
    points = 0
    for points, row in enumerate(rows, 1):
        frequency.update(row.labels)
        on_progress(points)
    kept = frozenset(name for name, count in frequency.items() if count >= least)
    if not kept:
        found = f"no label of at least {least} of {points} training points"
        raise InputError("--min-label-count", found, "a lower number, or labels (see --labels)")
    return kept, len(frequency) - len(kept)


def build(
    out: Path,
    parts: Iterable[tuple[str, Iterable[Row]]],
    features_of: Callable[[list[Row]], csr_matrix],
    num_features: int,
    part_of: Callable[[str, int], str],
    on_progress: OnProgress,
    *,
    known: Sequence[str] = (),
    new_labels: Literal["append", "drop"] = "append",
    weighted: bool = False,
    source: str = "data",
    overlaps: Sequence[Overlap] = (),
) -> Counts:
    """Writes `train.txt`, `train_rows.txt`, `labels.txt` and, if there are test points, `test.txt`.

    A line of `train_rows.txt` is the file and line that a training point begins at, in their order:
    an explained answer names training points by number. Known labels have the first ids, others
    follow in order of first occurrence.

    Args:
      out: an empty folder.
      parts: (name, rows) for each file to read.
      features_of: rows -> float32 CSR [rows, d].
      num_features: number of features d.
      part_of: (name of the file, 0-based number of the row in it) -> `train` or `test`.
      on_progress: called with the number of rows that are done.
      known: names of labels, in the order of their ids.
      new_labels: whether other labels are appended, or dropped from their points.
      weighted: whether to write the weights of the training points to `weights.txt`.
      source: where the training points come from, for messages.
      overlaps: count labels that are items of their points.

    Returns:
      the sizes of the written data.

    Raises:
      InputError: no training point, no label, or no weight above 0.
    """
    ids = {name: label for label, name in enumerate(known)}
    # Rows have composed names; data that were imported before may spell them otherwise.
    spelled = {composed(name): name for name in reversed(known) if composed(name) not in ids}
    appending, left_out = new_labels == "append", dict[str, None]()  # a set in order
    counts = Counts({"train": 0, "test": 0}, num_features, 0, 0, 0, overlaps=overlaps)
    weights: list[NDArray[np.float32]] = []
    done = 0
    with (
        TextWriter(out / "train.txt") as train,
        TextWriter(out / "test.txt") as test,
        # The name of a file may be no UTF-8.
        (out / "train_rows.txt").open(
            "w", encoding="utf-8", errors="backslashreplace", newline="\n"
        ) as sources,
    ):
        writers = {"train": train, "test": test}
        for name, rows in parts:
            numbered = enumerate(rows)
            for chunk in _chunks(numbered):
                is_test = np.array([part_of(name, number) == "test" for number, _ in chunk])
                found = features_of([row for _, row in chunk])
                if spelled:
                    chunk = [(number, _named_as(spelled, row)) for number, row in chunk]
                for label in itertools.chain.from_iterable(row.labels for _, row in chunk):
                    if appending:
                        ids.setdefault(label, len(ids))
                    elif label not in ids:
                        left_out[label] = None
                points = [row for _, row in chunk]
                labels = _labels(points, ids)
                for overlap in overlaps:
                    overlap.add(points)
                counts.without_labels += int(np.count_nonzero(np.diff(labels.indptr) == 0))
                counts.without_features += int(np.count_nonzero(np.diff(found.indptr) == 0))
                counts.without_text += sum(
                    row.text is not None and not row.text.strip() for row in points
                )
                for part, chosen in (("train", ~is_test), ("test", is_test)):
                    rows_of_part = np.flatnonzero(chosen)
                    writers[part].append(found[rows_of_part], labels[rows_of_part])
                sources.writelines(
                    f"{row.where}\n"
                    for (_, row), held_out in zip(chunk, is_test, strict=True)
                    if not held_out
                )
                of_chunk = np.array([row.weight for _, row in chunk], np.float32)
                weights.append(of_chunk[~is_test])
                done += len(chunk)
                on_progress(done)
        counts.labels = len(ids)
        counts.joined_by = _joined_by(ids)
        counts.are_numbers = all(name.isascii() and name.isdecimal() for name in ids)
        if known:
            counts.new_labels = tuple(ids)[len(known) :] if appending else tuple(left_out)
        for part, writer in writers.items():
            counts.points[part] = writer.rows
            writer.finish(num_features, len(ids))
    if not counts.points["train"]:
        raise InputError(source, "no training point", "at least one")
    if not ids:
        raise InputError(source, "no label", "labels (see --labels and --format)")
    if weighted:
        counts.weights = np.concatenate(weights)
        if not counts.weights.any():
            raise InputError("weights", "only zeros", "a weight above 0 (see --weight-column)")
        lines = "".join(f"{weight:.9g}\n" for weight in counts.weights)
        disk.write(out / "weights.txt", lines.encode())
    if not counts.points["test"]:
        disk.remove(out / "test.txt")
    names = "".join(f"{name}\n" for name in ids)
    disk.write(out / "labels.txt", names.encode())
    return counts


def _named_as(spelled: Mapping[str, str], row: Row) -> Row:
    return row._replace(labels=tuple(spelled.get(name, name) for name in row.labels))


def _joined_by(names: Collection[str]) -> str | None:
    """The usual separator that more than half of the names hold, if there is one."""
    holding = ((mark, sum(mark in name for name in names)) for mark in SEPARATORS)
    return next((mark for mark, count in holding if 2 * count > len(names)), None)


def entries_of(rows: list[Row], base: int, width: int) -> csr_matrix:
    """The features of rows that hold numbers: float32 CSR [rows, width], of ids from `base` on."""
    pairs = [row.entries for row in rows if row.entries is not None]
    starts = np.concatenate([[0], np.cumsum([len(ids) for ids, _ in pairs])]).astype(np.int64)
    ids = np.concatenate([ids for ids, _ in pairs]) - base
    values = np.concatenate([values for _, values in pairs])
    return csr_matrix((values, ids.astype(np.int32), starts), shape=(len(rows), width))


def _chunks(rows: Iterator[tuple[int, Row]]) -> Iterator[list[tuple[int, Row]]]:
    while chunk := list(itertools.islice(rows, _CHUNK)):
        yield chunk


def _labels(rows: list[Row], ids: dict[str, int]) -> csr_matrix:
    """Labels of `rows` as CSR [rows, labels so far], of the names that have ids."""
    found = [sorted(ids[name] for name in row.labels if name in ids) for row in rows]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in found])]).astype(np.int64)
    indices = np.fromiter(itertools.chain.from_iterable(found), np.int32, count=int(indptr[-1]))
    ones = np.ones(len(indices), np.float32)
    return csr_matrix((ones, indices, indptr), shape=(len(rows), max(1, len(ids))))
