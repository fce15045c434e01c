"""Data whose features and labels are the same items: one numbering of both, and how to notice it.

A recommender's points have items on both sides, such as what a customer bought first and what came
later. Training must know that both are the same (`--seen`, `--item-splits`): an item that a point
has is no answer to it, and the first items of one customer are the later items of another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from snm.data.formats.foreign import Row
from snm.data.names import listed
from snm.data.vectorizer import Vectorizer, pattern_of_items
from snm.errors import InputError

__all__ = ["Overlap", "as_items", "items_as_text", "listed_items", "numbered_items"]

_LARGEST_NUMBER = 2**26 - 1  # of an item: each number up to the largest gets a name
_MOST_ITEMS = 300  # of a point on average, above which a text is no list of items


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
    return Vectorizer(
        "counts",
        len(items),
        vocabulary=items,
        columns=tuple(columns),
        token_pattern=pattern_of_items(separator),
        lowercase=False,
        binary=True,
    )


def as_items(row: Row, separator: str, name: Callable[[str], str]) -> Row:
    """A row as the numbering of items reads it: names as labels have them, numbers without zeros.

    Args:
      row: as it was read.
      separator: a character between the items of a text.
      name: makes a name of an item of a text.

    Raises:
      InputError: a label that is no number where features are numbers.
    """
    if row.text is not None:
        return row._replace(text=listed(row.text, separator, name))
    for label in row.labels:
        if not (label.isascii() and label.isdecimal()):
            expected = "the number of a feature, for --same-items"
            raise InputError(row.where, f"label {label[:40]!r}", expected)
    return row._replace(labels=tuple(dict.fromkeys(str(int(label)) for label in row.labels)))


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
      InputError: a number above 2^26 - 1.
    """
    low, high = 1, 1
    for number, row in enumerate(rows, 1):
        assert row.entries is not None
        features = row.entries[0]  # ascending
        ids = [*map(int, row.labels), *features[:1].tolist(), *features[-1:].tolist()]
        if ids:
            low, high = min(low, *ids), max(high, *ids)
            if high > _LARGEST_NUMBER:
                expected = f"numbers up to {_LARGEST_NUMBER}, such as those from 0 on"
                raise InputError(row.where, f"item {high}", expected)
        on_progress(number)
    return low, tuple(map(str, range(low, high + 1)))


class Overlap:
    """Counts how often a label is an item of its own point, and how often it would be by chance.

    If features and labels are the same items, hardly a point has a label that it has already.

    Args:
      mark: what separates the items of a text; None for features that are numbers.

    Attributes:
      mark: as given.
      together: entries (point, label) whose label is also an item of the point.
      entries: entries (point, label).
    """

    def __init__(self, mark: str | None):
        self.mark = mark
        self.together = self.entries = self._points = 0
        self._with_item, self._with_label = Counter[str](), Counter[str]()  # points by name
        self._are_lists = True

    def add(self, rows: Sequence[Row]) -> None:
        """Counts some points; no more, once texts are too long to be lists of items."""
        if not self._are_lists:
            return
        pieces = 0
        for row in rows:
            items = self._items(row)
            pieces += len(items)
            self._with_item.update(items)
            self._with_label.update(row.labels)
            self.together += len(items.intersection(row.labels))
            self.entries += len(row.labels)
        self._points += len(rows)
        self._are_lists = pieces <= _MOST_ITEMS * len(rows)

    def _items(self, row: Row) -> set[str]:
        if row.text is None:
            return set() if row.entries is None else set(map(str, row.entries[0].tolist()))
        return {one.strip() for one in row.text.split(self.mark)}

    @property
    def expected(self) -> float:
        """`together` if items and labels were independent."""
        if not self._are_lists:
            return 0.0
        with_label = self._with_label.items()
        pairs = sum(self._with_item[name] * count for name, count in with_label)
        return pairs / max(1, self._points)
