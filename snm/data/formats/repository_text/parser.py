"""Parses a block of text lines into arrays with NumPy: the fast pass behind `reader`.

Separators cut the block into tokens. A table indexed by (separator before, separator after, empty
or not) gives each token's role or marks it as bad. Digits are read eight at a time from 64-bit
words. The parser accepts a whole block or refuses it without a reason; `errors.explain` then
finds the fault. A value is parsed to the nearest float64 and rounded to float32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from snm.data.formats.repository_text.errors import FEATURES, LABELS, ONE_FILE, Form

__all__ = ["Block", "parse_block"]

_PAD = b"\n" * 16  # in front of the text, so that a 16-byte window can end at any token

_EMPTY, _LABEL, _ID, _VALUE, _BAD = range(5)
_NEWLINE, _SPACE, _COMMA, _COLON, _OTHER = range(5)
_DOT, _PLUS, _MINUS = ord("."), ord("+"), ord("-")

_CLASS = np.full(256, _OTHER, np.uint8)
for _byte, _class in zip(b"\n ,:", (_NEWLINE, _SPACE, _COMMA, _COLON), strict=True):
    _CLASS[_byte] = _class

_ONES = np.uint64(0x0101010101010101)
_KEEP_LAST = np.array([0] + [(1 << 64) - (1 << 8 * (8 - n)) for n in range(1, 9)], np.uint64)
_POWER = 10.0 ** np.arange(17)
_NUMBER_BYTES = np.zeros(256, bool)
_NUMBER_BYTES[list(b"0123456789+-.eE")] = True


def _grammar(form: Form) -> NDArray[np.uint8]:
    """The role of a token, at [10 * class before + 2 * class after + (not empty)]."""
    role = np.full((5, 5, 2), _BAD, np.uint8)
    role[_NEWLINE : _SPACE + 1, _NEWLINE : _SPACE + 1, 0] = _EMPTY
    role[_SPACE, _COLON, 1] = _ID
    role[_COLON, _NEWLINE : _SPACE + 1, 1] = _VALUE
    if form.labels_first:
        for before in (_NEWLINE, _COMMA):
            role[before, [_NEWLINE, _SPACE, _COMMA], 1] = _LABEL
    else:
        role[_NEWLINE, _COLON, 1] = _ID
    return np.resize(role, 256)  # codes are below 50; `bytes.translate` needs 256 entries


_GRAMMAR = {form.name: _grammar(form) for form in (ONE_FILE, FEATURES, LABELS)}


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a text file, as pieces of CSR matrices.

    Attributes:
      rows: number of rows.
      counts: int64 [rows], number of `id:value` entries of each row.
      ids: int32 [entries], increasing within a row.
      values: float32 [entries].
      label_counts: int64 [rows], number of leading labels of each row; 0 unless in one-file form.
      labels: int32 [labels], increasing within a row.
    """

    rows: int
    counts: NDArray[np.int64]
    ids: NDArray[np.int32]
    values: NDArray[np.float32]
    label_counts: NDArray[np.int64]
    labels: NDArray[np.int32]

    def first(self, rows: int) -> Block:
        """The first `rows` rows, if those after them have no entries and no labels."""
        counts, label_counts = self.counts[:rows], self.label_counts[:rows]
        return replace(self, rows=rows, counts=counts, label_counts=label_counts)

    def without_zeros(self) -> Block:
        """The block without the entries of value 0; itself where there are none."""
        if self.values.all():
            return self
        there = self.values != 0
        row = np.repeat(np.arange(self.rows), self.counts)[there]
        counts = np.bincount(row, minlength=self.rows)
        return replace(self, counts=counts, ids=self.ids[there], values=self.values[there])


def _look_up(table: NDArray[np.uint8], codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """`table[codes]`, both uint8; `bytes.translate` is twice as fast as NumPy's indexing."""
    return np.frombuffer(codes.tobytes().translate(table.tobytes()), np.uint8)


def _digits(
    words: NDArray[np.uint64], end: NDArray[np.int64], length: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Parses decimal integers of up to 16 digits.

    The eight bytes of a word are eight digits. Three multiplications combine neighbours into
    numbers of two, four and eight digits (SIMD within a register).

    Args:
      words: uint64; `words[i]` holds the bytes i to i + 7.
      end: int64 [tokens], position after the last digit of each token.
      length: int64 [tokens], number of bytes of each token.

    Returns:
      the numbers, uint64 [tokens], and bool [tokens], whether a token is at most 16 digits and
      nothing else. An empty token gives 0 and True; the caller checks where one is allowed.
    """
    number, good = _eight_digits(words[end - 8], np.minimum(length, 8))
    (long,) = np.nonzero(length > 8)
    if long.size:
        rest = np.clip(length[long] - 8, 0, 8)
        high, high_good = _eight_digits(words[end[long] - 16], rest)
        number[long] += high * np.uint64(10**8)
        good[long] &= high_good & (length[long] <= 16)
    return number, good


def _eight_digits(
    word: NDArray[np.uint64], length: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """The number in the last `length` bytes (at most 8) of each word; see `_digits`."""
    keep = _KEEP_LAST[length]
    digit = word ^ (_ONES * np.uint64(0x30))
    digit &= keep
    # Adding 6 to a byte above 9 sets one of its upper four bits, unless one is set already.
    wrong = digit + (_ONES * np.uint64(0x06))
    wrong |= digit
    wrong &= _ONES * np.uint64(0xF0)
    good = wrong == 0
    digit *= np.uint64(10 * 256 + 1)
    digit >>= np.uint64(8)
    digit &= np.uint64(0x00FF00FF00FF00FF)
    digit *= np.uint64(100 * 65536 + 1)
    digit >>= np.uint64(16)
    digit &= np.uint64(0x0000FFFF0000FFFF)
    digit *= np.uint64(10000 * 2**32 + 1)
    digit >>= np.uint64(32)
    return digit, good


def parse_block(text: bytes, form: Form, num_ids: int, num_labels: int) -> Block | None:
    """Parses whole lines, or returns None if any of them has a fault.

    Args:
      text: complete lines, each with its newline; separators are spaces and newlines only.
      form: one of the three forms.
      num_ids: exclusive upper limit of the ids before a colon.
      num_labels: exclusive upper limit of the leading labels (one-file form).
    """
    padded = _PAD + text
    byte = np.frombuffer(padded, np.uint8)
    words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    # Bytes up to 46 (`.`) are control characters, the space and `+,-` among others.
    cut = np.flatnonzero((byte <= _DOT) | (byte == ord(":")))[len(_PAD) - 1 :]
    kind = byte[cut]
    signs = (kind == _PLUS) | (kind == _MINUS)
    if signs.any():
        cut, kind = cut[~signs], kind[~signs]
    is_dot = kind == _DOT
    num_dots = int(np.count_nonzero(is_dot))
    dot = dotted = None
    if num_dots:
        (ends,) = np.nonzero(~is_dot)
        dotted = is_dot[ends[1:] - 1]
        dot = cut[ends[1:] - 1]
        cut, kind = cut[ends], kind[ends]
    cls = _look_up(_CLASS, kind)
    start, end = cut[:-1] + 1, cut[1:]
    length = end - start
    role = _look_up(_GRAMMAR[form.name], cls[:-1] * 10 + cls[1:] * 2 + (length > 0))
    if (role == _BAD).any():
        return None

    (at_id,) = np.nonzero(role == _ID)
    at_value = at_id + 1
    (at_end,) = np.nonzero(cls[1:] == _NEWLINE)
    whole_end, fraction = end[at_value], None
    if dot is not None and dotted is not None:
        has_dot = dotted[at_value]
        # Each value accounts for one dot at most; any other dot is a fault.
        if np.count_nonzero(has_dot) != num_dots:
            return None
        whole_end = np.where(has_dot, dot[at_value], whole_end)
        fraction = np.where(has_dot, end[at_value] - whole_end - 1, 0)
    ids, ids_good = _digits(words, end[at_id], length[at_id])
    if not ids_good.all() or (ids.size and ids.max() >= num_ids):
        return None
    values = _values(padded, byte, words, start[at_value], end[at_value], whole_end, fraction)
    if values is None or (form is LABELS and not (values == 1).all()):
        return None
    counts = np.diff(np.searchsorted(at_id, at_end), prepend=0)
    order = _sort_order(ids, counts, num_ids)
    if order is None:
        return None
    if order is not _ALREADY_SORTED:
        ids, values = ids[order], values[order]

    labels, label_counts = np.zeros(0, np.uint64), np.zeros(len(at_end), np.int64)
    if form.labels_first:
        (at_label,) = np.nonzero(role == _LABEL)
        labels, labels_good = _digits(words, end[at_label], length[at_label])
        if not labels_good.all() or (labels.size and labels.max() >= num_labels):
            return None
        # "right": in a line of labels only, the token that ends the line is a label.
        label_counts = np.diff(np.searchsorted(at_label, at_end, side="right"), prepend=0)
        order = _sort_order(labels, label_counts, num_labels)
        if order is None:
            return None
        if order is not _ALREADY_SORTED:
            labels = labels[order]
    return Block(
        len(at_end),
        counts,
        ids.astype(np.int32),
        values,
        label_counts,
        labels.astype(np.int32),
    )


def _values(
    padded: bytes,
    byte: NDArray[np.uint8],
    words: NDArray[np.uint64],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    whole_end: NDArray[np.int64],
    fraction: NDArray[np.int64] | None,
) -> NDArray[np.float32] | None:
    """Parses the tokens [start, end) into float32 [tokens]; None if one is not a finite number.

    An integer of up to 15 digits is exact in float64, and so is a power of ten of that size.
    Their quotient is then rounded correctly (Clinger, "How to Read Floating Point Numbers
    Accurately", PLDI 1990). Numbers with a sign, an exponent or more digits go through Python's
    `float` one by one.

    Args:
      padded: the text behind `_PAD`.
      byte: the same as uint8.
      words: see `_digits`.
      start: int64 [tokens], position of the first byte.
      end: int64 [tokens], position after the last byte.
      whole_end: int64 [tokens], position after the whole part: of the dot, or `end`.
      fraction: int64 [tokens], number of digits after the dot; None if no token has a dot.
    """
    number, good = _digits(words, whole_end, whole_end - start)
    value = number.astype(np.float64)
    if fraction is not None:
        short = np.minimum(fraction, 16)
        digits, fraction_good = _digits(words, end, fraction)
        value = (value * _POWER[short] + digits.astype(np.float64)) / _POWER[short]
        total = whole_end - start + fraction
        good &= fraction_good & (total <= 15) & (total > 0)
    else:
        good &= whole_end - start <= 15
    (slow,) = np.nonzero(~good)
    if slow.size:
        length = end[slow] - start[slow]
        offset = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
        if not _NUMBER_BYTES[byte[np.repeat(start[slow], length) + offset]].all():
            return None
        pairs = zip(start[slow].tolist(), end[slow].tolist(), strict=True)
        try:
            value[slow] = [float(padded[first:last]) for first, last in pairs]
        except ValueError:
            return None
    with np.errstate(over="ignore"):
        single = value.astype(np.float32)
    return single if np.isfinite(single).all() else None


_ALREADY_SORTED = np.zeros(0, np.int64)


def _sort_order(
    ids: NDArray[np.uint64], counts: NDArray[np.int64], num_ids: int
) -> NDArray[np.int64] | None:
    """The permutation that sorts ids [entries] within rows.

    `_ALREADY_SORTED` if they are sorted, None if a row has an id twice.
    """
    if ids.size < 2:
        return _ALREADY_SORTED
    rising = ids[1:] > ids[:-1]
    first = np.cumsum(counts)[:-1]
    rising[first[(first > 0) & (first < ids.size)] - 1] = True
    if rising.all():
        return _ALREADY_SORTED
    key = np.repeat(np.arange(len(counts)), counts) * num_ids + ids.astype(np.int64)
    order = np.argsort(key)
    key = key[order]
    return None if (key[1:] == key[:-1]).any() else order
