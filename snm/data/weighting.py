"""Weights raw feature values: none, unit length (L2), TF-IDF, or standardized dense features.

The fitted weighting is saved with the model, and prediction applies it too.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.csr import row_starts, rows_of_entries
from snm.data.formats.binary import DAMAGE, damage_error, read_arrays
from snm.data.mapped import mapped_zeros, row_blocks
from snm.errors import InputError
from snm.system.files import disk
from snm.text import counted

__all__ = ["Kind", "Weighting", "document_counts", "filled", "inverse_frequency"]

Kind = Literal["none", "l2", "tfidf", "standard"]

_LARGEST = 1e12  # of a value that is not weighted
_ENTRIES = 1 << 20  # weighted at once: some 40 MiB in float64


def inverse_frequency(points: int, present: NDArray[Any]) -> NDArray[np.float64]:
    """The idf of features, float64 [d]: log((1 + n) / (1 + n_j)) + 1, as in scikit-learn.

    Args:
      points: number of points n.
      present: [d], number of points that have each feature.
    """
    return np.log((1.0 + points) / (1.0 + present)) + 1.0


@dataclass(frozen=True, eq=False)
class Weighting:
    r"""A fitted feature weighting.

    - `none`: values are unchanged.
    - `l2`: each row is divided by its Euclidean length.
    - `tfidf`: value c of feature j becomes $t(c) \, (\log\frac{1 + n}{1 + n_j} + 1)$, where n is
      the number of training points and $n_j$ the number of those with feature j above 0. Then
      each row is divided by its length, as in `l2`. The term frequency is damped by
      $t(c) = 1 + \log c$ for c >= 1 and $t(c) = c$ for 0 <= c < 1, which is continuous,
      increasing and never negative ($1 + \log c$ alone is negative for c < 1/e). See Salton and
      Buckley, Information Processing & Management 24(5), 1988; the document counts are smoothed
      by one.
    - `standard`: of each feature, the mean over the training points is subtracted, and the rest
      divided by the standard deviation (by 1 where the feature is constant). Then each row is
      divided by its length. A feature that a row does not have is a 0 like any other, so that the
      rows become dense. What all rows have in common would otherwise make up most of their length.

    A row without features, or whose values are all 0, is unchanged, but for `standard`.

    Attributes:
      kind: `none`, `l2`, `tfidf` or `standard`.
      idf: float32 [d], the factor of each feature; None unless `tfidf`.
      mean: float64 [d], of each feature; None unless `standard`.
      spread: float64 [d], above 0, the standard deviation of each feature; None unless `standard`.
    """

    kind: Kind
    idf: NDArray[np.float32] | None = None
    mean: NDArray[np.float64] | None = None
    spread: NDArray[np.float64] | None = None

    @classmethod
    def fit(cls, kind: Kind, features: csr_matrix) -> Weighting:
        """Fits on raw features, CSR [n, d].

        Raises:
          InputError: an unknown kind, or a negative value with `tfidf`.
        """
        if kind not in get_args(Kind):
            raise InputError("weighting", repr(kind), f"one of {', '.join(get_args(Kind))}")
        if kind == "standard":
            return cls(kind, None, *_mean_and_spread(features))
        if kind != "tfidf":
            return cls(kind)
        return cls.of_counts(features.shape[0], document_counts(features))

    @property
    def num_features(self) -> int | None:
        """The d that it was fitted on; None where any will do."""
        fitted = self.idf if self.mean is None else self.mean
        return None if fitted is None else int(fitted.size)

    def starts(self, features: csr_matrix) -> NDArray[np.integer]:
        """The `indptr` of what `apply` returns, int [n + 1]."""
        if self.mean is None:
            return features.indptr
        return np.arange(features.shape[0] + 1, dtype=np.int64) * features.shape[1]

    def blank(self, features: csr_matrix, *, of_texts: bool = False) -> NDArray[np.bool_]:
        """Which rows of raw features, CSR [n, d], say nothing of their point: bool [n].

        These are rows without a value other than 0, of which a model can answer with its biases
        alone. `standard` has none, since a row of zeros is a point like any other, unless it is
        `of_texts`: it has no known word then.
        """
        if self.mean is not None and not of_texts:
            return np.zeros(features.shape[0], bool)
        counts = row_starts(features.data != 0)[features.indptr]
        return np.diff(counts) == 0

    @classmethod
    def of_counts(cls, points: int, present: NDArray[np.int64]) -> Weighting:
        """The `tfidf` weighting from counts.

        Args:
          points: number of training points n.
          present: int [d], number of points that have each feature (`document_counts`).
        """
        return cls("tfidf", inverse_frequency(points, present).astype(np.float32))

    def apply(self, features: csr_matrix, *, first_row: int = 0) -> csr_matrix:
        """Weights raw features, CSR [n, d], and returns them as float32 CSR [n, d].

        The result shares the ids with `features`, but for `standard`: do not sort them in place.
        Values of mapped features are in a file as well.

        Args:
          features: raw features.
          first_row: number of the first row, for error messages.

        Raises:
          InputError: a width other than the fitted one, a negative value with `tfidf`, or one above
            1e12 with `none`.
        """
        if self.num_features not in (None, features.shape[1]):
            raise InputError(
                "features", counted(features.shape[1], "column"), f"{self.num_features}"
            )
        if self.mean is not None:
            return self._standardized(features)
        if self.idf is not None:
            _refuse_negative(features, first_row)
        values = mapped_zeros(features.data, len(features.data), np.float32)
        for first, last in row_blocks(features.indptr, _ENTRIES):
            starts = features.indptr[first : last + 1]
            entries = slice(starts[0], starts[-1])
            values[entries] = self._of_rows(
                features.data[entries], features.indices[entries], starts
            )
        result = csr_matrix((values, features.indices, features.indptr), shape=features.shape)
        result.has_sorted_indices = features.has_sorted_indices
        return result

    def _of_rows(self, data: NDArray, indices: NDArray, starts: NDArray) -> NDArray[np.float64]:
        """The weighted values of some rows, which start at `starts` less the first of these."""
        # In float32, squares of values near 1e20 overflow, and those near 1e-23 underflow.
        values = data.astype(np.float64)
        if self.kind == "none":
            _refuse_large(values)
        if self.idf is not None:
            values = np.where(values < 1, values, 1 + np.log(np.maximum(values, 1)))
            values *= self.idf[indices]
        return self._divided(values, starts)

    def _standardized(self, features: csr_matrix) -> csr_matrix:
        rows, width = features.shape
        starts = self.starts(features)
        values = mapped_zeros(features.data, rows * width, np.float32)
        ids = mapped_zeros(features.indices, rows * width, np.int32)
        for first, last in row_blocks(starts, _ENTRIES):
            block = features[first:last].toarray().astype(np.float64)
            standard = ((block - self.mean) / self.spread).ravel()
            entries = slice(starts[first], starts[last])
            values[entries] = self._divided(standard, starts[first : last + 1])
            ids[entries] = np.tile(np.arange(width, dtype=np.int32), len(block))
        result = csr_matrix((values, ids, starts), shape=features.shape)
        result.has_sorted_indices = True
        return result

    def _divided(self, values: NDArray[np.float64], starts: NDArray) -> NDArray[np.float64]:
        """The values of rows, divided by the lengths of these."""
        if self.kind != "none":
            rows = len(starts) - 1
            row = rows_of_entries(starts)
            length = np.sqrt(np.bincount(row, values * values, minlength=rows))
            length[length == 0] = 1
            values /= length[row]
        return values

    def save(self, path: str | Path) -> None:
        """Writes it to exactly `path`, as `.npz` without pickle."""
        disk.write(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """The content of the file that `save` writes."""
        none = np.zeros(0, np.float32)
        arrays: dict[str, NDArray] = {"idf": none if self.idf is None else self.idf}
        if self.mean is not None and self.spread is not None:
            arrays |= {"mean": self.mean, "spread": self.spread}
        out = io.BytesIO()
        np.savez(out, allow_pickle=False, kind=np.array(self.kind), **arrays)
        return out.getvalue()

    @classmethod
    def load(cls, path: str | Path) -> Weighting:
        """Reads a file that `save` wrote.

        Raises:
          InputError: no such file, or another content.
        """
        expected = "a weighting that Weighting.save wrote"
        try:
            members = read_arrays(Path(path))
            kind = members["kind"].item()
            names = ("idf", "mean", "spread") if kind == "standard" else ("idf",)
            arrays = {name: members[name] for name in names}
        except DAMAGE as error:
            raise damage_error(path, error, "no weighting", expected) from error
        idf = arrays["idf"]
        odd = any(
            array.ndim != 1 or array.dtype != (np.float32 if name == "idf" else np.float64)
            for name, array in arrays.items()
        )
        if kind not in get_args(Kind) or odd:
            found = ", ".join(f"{name} of {array.dtype}" for name, array in arrays.items())
            raise InputError(str(path), f"kind {kind!a}, {found}", expected)
        if (kind == "tfidf") != (idf.size > 0):
            raise InputError(str(path), f"kind {kind} with {idf.size} factors", expected)
        if kind != "standard":
            return cls(kind, idf if kind == "tfidf" else None)
        mean, spread = arrays["mean"], arrays["spread"]
        if mean.size != spread.size or not (np.isfinite(mean).all() and (spread > 0).all()):
            raise InputError(str(path), "means and standard deviations that do not fit", expected)
        return cls(kind, None, mean, spread)


def filled(features: csr_matrix) -> float:
    """The share of the values of CSR [n, d] that are stored."""
    return float(features.nnz / max(1, features.shape[0] * features.shape[1]))


def document_counts(features: csr_matrix, *, first_row: int = 0) -> NDArray[np.int64]:
    """Counts the rows of CSR [n, d] in which each feature is above 0: int64 [d].

    Raises:
      InputError: a negative value; the message counts rows from `first_row`.
    """
    _refuse_negative(features, first_row)
    counts = np.zeros(features.shape[1], np.int64)
    for first, last in row_blocks(features.indptr, _ENTRIES):
        entries = slice(features.indptr[first], features.indptr[last])
        present = features.indices[entries][features.data[entries] > 0]
        counts += np.bincount(present, minlength=features.shape[1])
    return counts


def _mean_and_spread(features: csr_matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each feature over all rows, float64 [d]."""
    rows, width = features.shape
    starts = features.indptr
    blocks = [(starts[first], starts[last]) for first, last in row_blocks(starts, _ENTRIES)]
    count, total, squares = (np.zeros(width) for _ in range(3))
    for first, last in blocks:
        ids = features.indices[first:last]
        count += np.bincount(ids, minlength=width)
        total += np.bincount(ids, features.data[first:last], minlength=width)
    mean = total / max(1, rows)
    for first, last in blocks:
        ids = features.indices[first:last]
        away = features.data[first:last] - mean[ids]
        squares += np.bincount(ids, away * away, minlength=width)
    squares += (rows - count) * mean**2  # rows without the feature
    spread = np.sqrt(squares / max(1, rows))
    # The mean of equal values is not always that value, since sums are rounded.
    return mean, np.where(spread <= 1e-9 * np.abs(mean), 1, spread)


def _refuse_large(values: NDArray[np.float64]) -> None:
    # Queries are divided by their length, whose square is a float32. Training itself says which
    # point has a value that is not finite.
    largest = np.abs(values).max(initial=0)
    if _LARGEST < largest < np.inf:
        expected = f"values up to {_LARGEST:g} with --weighting none, or --weighting l2"
        raise InputError("features", f"the value {largest:.3g}", expected)


def _refuse_negative(features: csr_matrix, first_row: int) -> None:
    # The least value first: of mapped data, a mask of all values could be too large.
    if len(features.data) and not features.data.min() >= 0:  # nor NaN
        bad = np.flatnonzero(~(features.data >= 0))
        row = int(np.searchsorted(features.indptr, bad[0], side="right")) - 1 + first_row
        value = features.data[bad[0]]
        what = f"the negative value {value}" if value < 0 else "a value that is no number"
        found = f"{what} in row {row}"
        raise InputError(
            "features", found, "counts of at least 0 for tfidf; --weighting l2 takes any"
        )
