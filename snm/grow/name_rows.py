"""Class rows of new labels from their names, learned from the names and rows of the old labels.

Labels whose names share words, or parts of words, have similar rows: `graph-mining` is near
`graph-theory` and `data-mining`. So a row is predicted by a ridge regression of the old rows on
character n-grams of the names. No training point is needed, and no vectorizer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.csr import csr_of_ones, row_starts
from snm.data.weighting import inverse_frequency
from snm.memory.neighbors import unit_rows

__all__ = ["names_predict_rows", "predict_rows_from_names"]

_NGRAM_SIZES = (3, 4, 5)  # characters
_RIDGE = 1.0
_MAX_CHUNK = 64  # right-hand sides at once, each with a number per n-gram
_MAX_CHUNK_NUMBERS = 1 << 23
_MAX_HELD_OUT = 200  # old names on which the prediction is evaluated
_ITERATIONS = 40  # of conjugate gradients; more change no significant digit


def predict_rows_from_names(
    rows: NDArray[np.floating], names: Sequence[str], new: Sequence[str]
) -> NDArray[np.float64]:
    """Predicts the class rows of new labels.

    A name is represented by its character n-grams of length 3 to 5 within words, which begin and
    end with a space, as a TF-IDF vector of length 1. With B the matrix of these vectors for the old
    names, and N for the new ones, the result is N (B^T B + I)^-1 B^T times the old rows.

    Args:
      rows: [K, dim], the rows of the old labels.
      names: the names of the old labels.
      new: the names of m labels.

    Returns:
      float64 [m, dim]; zeros for a name that shares no n-gram with an old one.
    """
    ids: dict[str, int] = {}
    for name in names:
        for ngram in _ngrams(name):
            ids.setdefault(ngram, len(ids))
    old_vectors, new_vectors = _counts(names, ids), _counts(new, ids)
    present = np.bincount(old_vectors.indices, minlength=len(ids))
    weight = inverse_frequency(len(names), present)
    old_vectors, new_vectors = (
        unit_rows(counts.multiply(weight).tocsr()) for counts in (old_vectors, new_vectors)
    )
    predicted = np.zeros((len(new), rows.shape[1]))
    chunk = max(1, min(_MAX_CHUNK, _MAX_CHUNK_NUMBERS // max(1, len(ids))))
    if len(new) <= rows.shape[1]:  # solve for the new names, else for the columns of the rows
        for first in range(0, len(new), chunk):
            block = new_vectors[first : first + chunk].T.toarray()
            weights = (old_vectors @ _solve_ridge(old_vectors, block)).T
            predicted[first : first + chunk] = weights @ rows
    else:
        for first in range(0, rows.shape[1], chunk):
            columns = slice(first, first + chunk)
            target = old_vectors.T @ rows[:, columns].astype(np.float64)
            predicted[:, columns] = new_vectors @ _solve_ridge(old_vectors, target)
    return predicted


def names_predict_rows(rows: NDArray[np.floating], names: Sequence[str]) -> bool:
    """Whether rows predicted from names are nearer to the true rows than the mean row is.

    It predicts a tenth of the rows, at most 200, from the others. If names are codes, all
    predictions are close to the mean.

    Args:
      rows: [K, dim], of length 1.
      names: the names of the K labels.
    """
    order = np.random.default_rng(0).permutation(len(names))
    count = min(_MAX_HELD_OUT, len(names) // 10)
    if count < 2:
        return False
    fitted, held_out = np.sort(order[count:]), order[:count]
    fitted_names = [names[int(label)] for label in fitted]
    held_out_names = [names[int(label)] for label in held_out]
    predicted = predict_rows_from_names(rows[fitted], fitted_names, held_out_names)
    mean = rows[fitted].mean(axis=0, dtype=np.float64)
    gain = _cosines(predicted, rows[held_out]) - _cosines(mean[None, :], rows[held_out])
    return bool(gain.mean() > 2 * gain.std() / np.sqrt(count))


def _cosines(first: NDArray[np.floating], second: NDArray[np.floating]) -> NDArray[np.float64]:
    """The row-wise cosines; 0 for rows of zeros."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return (first * second).sum(axis=1) / np.where(lengths > 0, lengths, 1)


def _ngrams(name: str) -> list[str]:
    """The character n-grams of the words of a name.

    Example:
      >>> _ngrams("Go_2")
      [' go', 'go ', ' go ', ' 2 ']
    """
    words = [f" {word} " for word in re.findall(r"[^\W_]+", name.lower())]
    return [
        word[i : i + n] for word in words for n in _NGRAM_SIZES for i in range(len(word) - n + 1)
    ]


def _counts(names: Sequence[str], ids: dict[str, int]) -> csr_matrix:
    """Counts the known n-grams of each name, CSR [names, n-grams]."""
    columns = [[ids[ngram] for ngram in _ngrams(name) if ngram in ids] for name in names]
    starts = row_starts([len(row) for row in columns])
    flat = np.array([column for row in columns for column in row], np.int64)
    counts = csr_of_ones(flat, starts, (len(names), len(ids)), np.float64)
    counts.sum_duplicates()
    return counts


def _solve_ridge(vectors: csr_matrix, target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solves (B^T B + I) x = target, [n-grams, m], for all columns by conjugate gradients."""
    x = np.zeros_like(target)
    residual, direction = target.copy(), target.copy()
    norm = (residual * residual).sum(axis=0)
    for _ in range(_ITERATIONS):
        image = vectors.T @ (vectors @ direction) + _RIDGE * direction
        curvature = (direction * image).sum(axis=0)
        rate = np.divide(norm, curvature, out=np.zeros_like(norm), where=curvature > 0)
        x += rate * direction
        residual -= rate * image
        before, norm = norm, (residual * residual).sum(axis=0)
        ratio = np.divide(norm, before, out=np.zeros_like(norm), where=before > 0)
        direction = residual + ratio * direction
    return x
