"""Class rows of new labels from their names, learned from the names and rows of the old labels.

Labels whose names share words, or pieces of words, have similar rows: `graph-mining` lies near
`graph-theory` and `data-mining`. So a row is a weighted sum of old rows, that of a ridge regression
of the rows on the pieces of the names. No training point is needed, and no vectorizer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.memory.neighbors import unit_rows

__all__ = ["names_tell_rows", "rows_of_names"]

_LENGTHS = (3, 4, 5)  # of pieces, in characters
_RIDGE = 1.0
_CHUNK = 64  # new names, or columns of the rows, at once, at most: each has a number a piece
_NUMBERS = 1 << 23  # of a chunk
_JUDGED = 200  # old names that tell whether names tell rows
_TURNS = 40  # of conjugate gradients; further ones change no digit that matters


def rows_of_names(
    rows: NDArray[np.floating], names: Sequence[str], new: Sequence[str]
) -> NDArray[np.float64]:
    """Predicts the class rows of new labels.

    A name is the runs of 3 to 5 characters in its words, with the space before and after a word,
    weighted by TF-IDF and of length 1. With these as the rows of B for the old names and of N for
    the new ones, the result is N (B^T B + I)^-1 B^T times the old rows.

    Args:
      rows: [K, dim], of the old labels.
      names: of these labels.
      new: the names of m labels.

    Returns:
      float64 [m, dim]; zeros where a name shares no piece with an old one.
    """
    ids: dict[str, int] = {}
    for name in names:
        for piece in _pieces(name):
            ids.setdefault(piece, len(ids))
    old, others = _counts(names, ids), _counts(new, ids)
    present = np.bincount(old.indices, minlength=len(ids))
    weight = np.log((1 + len(names)) / (1 + present)) + 1
    old, others = (unit_rows(counts.multiply(weight).tocsr()) for counts in (old, others))
    found = np.zeros((len(new), rows.shape[1]))
    chunk = max(1, min(_CHUNK, _NUMBERS // max(1, len(ids))))
    if len(new) <= rows.shape[1]:  # solve for the new names, else for the columns of the rows
        for first in range(0, len(new), chunk):
            asked = others[first : first + chunk].T.toarray()
            found[first : first + chunk] = (old @ _solved(old, asked)).T @ rows
    else:
        for first in range(0, rows.shape[1], chunk):
            columns = slice(first, first + chunk)
            found[:, columns] = others @ _solved(old, old.T @ rows[:, columns].astype(np.float64))
    return found


def names_tell_rows(rows: NDArray[np.floating], names: Sequence[str]) -> bool:
    """Whether rows that are predicted from names are nearer to the true ones than their mean is.

    It predicts a tenth of the rows, at most 200, from the others. Where names are codes, all
    predictions are about the mean.

    Args:
      rows: [K, dim], of length 1.
      names: of the K labels.
    """
    order = np.random.default_rng(0).permutation(len(names))
    count = min(_JUDGED, len(names) // 10)
    if count < 2:
        return False
    left, judged = np.sort(order[count:]), order[:count]
    asked = [names[int(label)] for label in judged]
    found = rows_of_names(rows[left], [names[int(label)] for label in left], asked)
    mean = rows[left].mean(axis=0, dtype=np.float64)
    gain = _cosines(found, rows[judged]) - _cosines(mean[None, :], rows[judged])
    return bool(gain.mean() > 2 * gain.std() / np.sqrt(count))


def _cosines(mine: NDArray[np.floating], theirs: NDArray[np.floating]) -> NDArray[np.float64]:
    """The cosine of each row with the other's; 0 for zeros."""
    lengths = np.linalg.norm(mine, axis=1) * np.linalg.norm(theirs, axis=1)
    return (mine * theirs).sum(axis=1) / np.where(lengths > 0, lengths, 1)


def _pieces(name: str) -> list[str]:
    """The runs of characters of a name's words.

    Example:
      >>> _pieces("Go_2")
      [' go', 'go ', ' go ', ' 2 ']
    """
    words = [f" {word} " for word in re.findall(r"[^\W_]+", name.lower())]
    return [word[i : i + n] for word in words for n in _LENGTHS for i in range(len(word) - n + 1)]


def _counts(names: Sequence[str], ids: dict[str, int]) -> csr_matrix:
    """How often each known piece is in each name, CSR [names, pieces]."""
    columns = [[ids[piece] for piece in _pieces(name) if piece in ids] for name in names]
    starts = np.concatenate([[0], np.cumsum([len(one) for one in columns])]).astype(np.int64)
    flat = np.array([column for one in columns for column in one], np.int64)
    counts = csr_matrix((np.ones(len(flat)), flat, starts), shape=(len(names), len(ids)))
    counts.sum_duplicates()
    return counts


def _solved(old: csr_matrix, asked: NDArray[np.float64]) -> NDArray[np.float64]:
    """The x of (B^T B + I) x = asked, [pieces, m], by conjugate gradients of all columns."""
    x = np.zeros_like(asked)
    left, step = asked.copy(), asked.copy()
    size = (left * left).sum(axis=0)
    for _ in range(_TURNS):
        moved = old.T @ (old @ step) + _RIDGE * step
        along = (step * moved).sum(axis=0)
        rate = np.divide(size, along, out=np.zeros_like(size), where=along > 0)
        x += rate * step
        left -= rate * moved
        before, size = size, (left * left).sum(axis=0)
        step = left + np.divide(size, before, out=np.zeros_like(size), where=before > 0) * step
    return x
