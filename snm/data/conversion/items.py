"""Data whose features and labels are the same items: one numbering of both, and how to notice it.

A recommender's points have items on both sides, such as what a customer bought first and what came
later. Training must know that both are the same (`--seen`, `--item-splits`): an item that a point
has is no answer to it, and the first items of one customer are the later items of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.formats.foreign import Row
from snm.data.names import composed, one_line
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError

__all__ = ["Overlap", "as_items", "items_as_text", "listed_items", "numbered_items"]

_LARGEST_ID = 2**31 - 2


def items_as_text(items: tuple[str, ...], separator: str, columns: Sequence[str]) -> Vectorizer:
    """The vectoriser of a text that lists items; a feature is the item of the same number.

    Args:
      items: K names without the separator, and without white space at their ends.
      separator: a character between items; spaces beside it do not count.
      columns: the names of the columns of such texts.

    Example:
      >>> texts = items_as_text(("New York", "Rome"), ",", ["items"])
      >>> texts.transform(["Rome, New York", "Paris"]).toarray().tolist()
      [[1.0, 1.0], [0.0, 0.0]]
    """
    mark = "\\" + separator
    return Vectorizer(
        "counts",
        len(items),
        vocabulary=items,
        columns=tuple(columns),
        token_pattern=rf"[^{mark}\s](?:[^{mark}]*[^{mark}\s])?",
        lowercase=False,
        binary=True,
    )


def as_items(row: Row) -> Row:
    """A row as the numbering of items reads it: names as labels have them, numbers without zeros.

    Raises:
      InputError: a label that is no number where features are numbers.
    """
    if row.text is not None:
        return row._replace(text=composed(one_line(row.text)))
    for name in row.labels:
        if not (name.isascii() and name.isdecimal()):
            expected = "the number of a feature, for --same-items"
            raise InputError(row.where, f"label {name[:40]!r}", expected)
    return row._replace(labels=tuple(dict.fromkeys(str(int(name)) for name in row.labels)))


def listed_items(
    rows: Iterable[Row], separator: str, on_progress: Callable[[int], None], source: str
) -> tuple[str, ...]:
    """The items of rows of text: in the lists that the texts are, and among the labels; sorted.

    Args:
      rows: of `as_items`.
      separator: a character between the items of a text.
      on_progress: called with the number of rows that are done.
      source: where the rows come from, for messages.

    Raises:
      InputError: the separator in a label, or no item on both sides.
    """
    words_of = items_as_text((), separator, ()).build_analyzer()
    of_texts, of_labels = set[str](), set[str]()
    for number, row in enumerate(rows, 1):
        of_texts.update(words_of(row.text or ""))
        of_labels.update(row.labels)
        for name in row.labels:
            if separator in name:
                found = f"{separator!r} in the label {name[:40]!r}"
                raise InputError(row.where, found, "another --item-separator, which no item holds")
        on_progress(number)
    if not of_texts & of_labels:
        some = min(of_texts, default="")[:40]
        found = f"no item that is in a text and a label; one of the texts is {some!r}"
        raise InputError(source, found, "lists of the same items (see --item-separator)")
    return tuple(sorted(of_texts | of_labels))


def numbered_items(
    rows: Iterable[Row], on_progress: Callable[[int], None]
) -> tuple[int, tuple[str, ...]]:
    """The items of rows of numbers: features and labels of one number are the same item.

    Args:
      rows: of `as_items`, with `entries`.
      on_progress: called with the number of rows that are done.

    Returns:
      0 if an item has the number 0, else 1; and the names of the items from there on, the numbers.

    Raises:
      InputError: a number that does not fit int32.
    """
    low, high = 1, 1
    for number, row in enumerate(rows, 1):
        assert row.entries is not None
        features = row.entries[0]  # ascending
        ids = [*map(int, row.labels), *features[:1].tolist(), *features[-1:].tolist()]
        if ids:
            low, high = min(low, *ids), max(high, *ids)
            if high > _LARGEST_ID:
                raise InputError(row.where, f"item {high}", f"a number up to {_LARGEST_ID}")
        on_progress(number)
    return low, tuple(map(str, range(low, high + 1)))


class Overlap:
    """Counts how often a label is a feature of its own point, and how often it would be by chance.

    Labels and features are matched by name. If features and labels are the same items, hardly a
    point has a label that is among its features.

    Args:
      features: name of a feature -> its id.
      num_features: number of features d.

    Attributes:
      together: entries (point, label) whose label is also a feature of the point.
      entries: entries (point, label).
    """

    def __init__(self, features: Mapping[str, int], num_features: int):
        self._features = features
        self._feature_of = np.zeros(0, np.int64)  # of each label so far; -1 where none has its name
        self._points_of_feature = np.zeros(num_features, np.int64)
        self._points_of_label = np.zeros(0, np.int64)
        self._points = self.together = self.entries = 0

    def add(self, features: csr_matrix, labels: csr_matrix, names: Iterable[str]) -> None:
        """Counts some points.

        Args:
          features: CSR [n, d].
          labels: CSR [n, labels so far].
          names: of the labels from the first on that earlier calls did not have.
        """
        new = [self._features.get(name, -1) for name in names]
        self._feature_of = np.concatenate([self._feature_of, np.array(new, np.int64)])
        counts = np.bincount(labels.indices, minlength=len(self._feature_of))
        counts[: len(self._points_of_label)] += self._points_of_label
        self._points_of_label = counts
        self._points_of_feature += np.bincount(
            features.indices, minlength=len(self._points_of_feature)
        )
        owners = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))
        wanted = self._feature_of[labels.indices]
        owners, wanted = owners[wanted >= 0], wanted[wanted >= 0]
        there = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
        width = len(self._points_of_feature)
        self.together += int(
            np.isin(owners * width + wanted, there * width + features.indices).sum()
        )
        self.entries += labels.nnz
        self._points += features.shape[0]

    @property
    def labels(self) -> int:
        """The number of labels so far."""
        return len(self._feature_of)

    @property
    def expected(self) -> float:
        """`together` if features and labels were independent."""
        named = self._feature_of >= 0
        of_features: NDArray[np.int64] = self._points_of_feature[self._feature_of[named]]
        by_chance = of_features.astype(float) @ self._points_of_label[named]
        return float(by_chance) / max(1, self._points)
