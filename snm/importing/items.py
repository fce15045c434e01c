"""Data whose features and labels are the same items: numbers both alike, and detects such data.

The points of a recommender have items as features and as labels, such as a customer's first and
later purchases. Training must know that both are the same (`--seen`, `--item-splits`): an item that
a point has already must not be predicted, and the first items of one customer are later items of
another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from snm.data.formats.foreign import Row
from snm.data.names import normalize_list
from snm.data.vectorizer import Vectorizer, pattern_of_items
from snm.errors import InputError

__all__ = ["Overlap", "collect_items", "items_as_text", "normalize_row", "number_items"]

_MAX_ITEM_NUMBER = 2**26 - 1  # each number up to the largest gets a name
_MAX_MEAN_ITEMS = 300  # with more per point on average, a text is not a list of items


def items_as_text(items: tuple[str, ...], separator: str, columns: Sequence[str]) -> Vectorizer:
    """A vectorizer of texts that list items; feature j is item j.

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


def normalize_row(row: Row, separator: str, name: Callable[[str], str]) -> Row:
    """Normalizes the items of a row: the names in a text, or label numbers without leading zeros.

    Args:
      row: a row as read.
      separator: a character between the items of a text.
      name: normalizes the name of an item in a text.

    Raises:
      InputError: a label is not a number although features are numbers.
    """
    if row.text is not None:
        return row._replace(text=normalize_list(row.text, separator, name))
    for label in row.labels:
        if not (label.isascii() and label.isdecimal()):
            expected = "the number of a feature, for --same-items"
            raise InputError(row.where, f"label {label[:40]!r}", expected)
    return row._replace(labels=tuple(dict.fromkeys(str(int(label)) for label in row.labels)))


def collect_items(
    rows: Iterable[Row],
    separator: str,
    label_separator: str | None,
    on_progress: Callable[[int], None],
    source: str,
) -> tuple[str, ...]:
    """The items of rows of text, from the texts and the labels, sorted.

    Args:
      rows: from `normalize_row`.
      separator: a character between the items of a text.
      label_separator: what the user says is between labels, or None.
      on_progress: called with the number of rows read so far.
      source: where the rows come from, for messages.

    Raises:
      InputError: a label contains the separator, most texts have the separator of labels and none
        that of items, or no item is both in a text and a label.
    """
    split_items = items_as_text((), separator, ()).build_analyzer()
    text_items, label_items = set[str](), set[str]()
    mark = _other_mark(label_separator, separator)
    is_separated, with_mark, number = False, 0, 0
    for number, row in enumerate(rows, 1):
        text = row.text or ""
        text_items.update(split_items(text))
        label_items.update(row.labels)
        is_separated |= separator in text
        with_mark += mark is not None and mark in text
        for name in row.labels:
            if separator in name:
                found = f"{separator!r} in the label {name[:40]!r}"
                expected = "another --item-separator, which no item holds"
                expected += f", such as {mark!r} of --label-separator" if with_mark else ""
                raise InputError(row.where, found, expected)
        on_progress(number)
    if not is_separated and 2 * with_mark > number:
        found = f"{mark!r} in {with_mark:,} of {number:,} texts, and {separator!r} in none"
        raise InputError(source, found, f"--item-separator {mark!r}, as --label-separator")
    if not text_items & label_items:
        example = min(text_items, default="")[:40]
        found = f"no item that is in a text and a label; one of the texts is {example!r}"
        raise InputError(source, found, "lists of the same items (see --item-separator)")
    return tuple(sorted(text_items | label_items))


def _other_mark(label_separator: str | None, separator: str) -> str | None:
    """What may separate items too, of what separates labels: one character, not `separator`."""
    mark = label_separator and (label_separator.strip() or " ")
    return None if not mark or len(mark) > 1 or mark.isalnum() or mark == separator else mark


def number_items(
    rows: Iterable[Row], on_progress: Callable[[int], None]
) -> tuple[int, tuple[str, ...]]:
    """The items of rows of numbers: a feature and a label of equal number are the same item.

    Args:
      rows: from `normalize_row`, with `entries`.
      on_progress: called with the number of rows read so far.

    Returns:
      The smallest item number, 0 or 1; and the names of the items, which are their numbers.

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
            if high > _MAX_ITEM_NUMBER:
                expected = f"numbers up to {_MAX_ITEM_NUMBER}, such as those from 0 on"
                raise InputError(row.where, f"item {high}", expected)
        on_progress(number)
    return low, tuple(map(str, range(low, high + 1)))


class Overlap:
    """Counts how often a label is also an item of its point, and how often it would be by chance.

    If features and labels are the same items, points hardly have a label that is also a feature.

    Args:
      mark: the separator of items in a text; None for numeric features.

    Attributes:
      mark: the separator.
      overlap: number of (point, label) pairs whose label is also an item of the point.
      entries: number of (point, label) pairs.
    """

    def __init__(self, mark: str | None):
        self.mark = mark
        self.overlap = self.entries = self._points = 0
        self._with_item, self._with_label = Counter[str](), Counter[str]()  # points by name
        self._are_lists = True

    def add(self, rows: Sequence[Row]) -> None:
        """Counts more points; stops once texts are too long to be lists of items."""
        if not self._are_lists:
            return
        num_items = 0
        for row in rows:
            items = self._items(row)
            num_items += len(items)
            self._with_item.update(items)
            self._with_label.update(row.labels)
            self.overlap += len(items.intersection(row.labels))
            self.entries += len(row.labels)
        self._points += len(rows)
        self._are_lists = num_items <= _MAX_MEAN_ITEMS * len(rows)

    def _items(self, row: Row) -> set[str]:
        if row.text is None:
            return set() if row.entries is None else set(map(str, row.entries[0].tolist()))
        return {item.strip() for item in row.text.split(self.mark)}

    @property
    def expected(self) -> float:
        """`overlap` if items and labels were independent."""
        if not self._are_lists:
            return 0.0
        with_label = self._with_label.items()
        pairs = sum(self._with_item[name] * count for name, count in with_label)
        return pairs / max(1, self._points)
