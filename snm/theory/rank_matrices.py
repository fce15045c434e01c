r"""Bipartite rank matrices: their number, tests of realisability, and rank-shatter coefficients.

The rank matrix of a ranking function f has an entry for each positive x_i and negative x'_j: 1 if
f(x_i) > f(x'_j), 1/2 if they tie, 0 otherwise. A matrix is realizable if some f has it. Functions
that take matrices expect doubled entries, the integers 2, 1 and 0.

References:
  Agarwal, Har-Peled, Roth (2005), Definitions 2 and 3, Theorem 1.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from snm.errors import InputError

__all__ = [
    "FORBIDDEN",
    "count_by_graphs",
    "count_by_submatrices",
    "psi",
    "rank_matrix",
    "rank_shatter_finite",
    "rank_shatter_linear",
    "realizable_by_graph",
    "realizable_by_submatrices",
]

Matrices = npt.NDArray[np.int64]
_MAX_MATRICES = 10_000_000  # to enumerate

# Table 1: the 30 sub-matrices that no ranking function has, as (a, b, c, d) of [[a, b], [c, d]],
# with doubled entries. The second half of the table is the first with exchanged columns.
_HALF = (
    (2, 0, 0, 2), (1, 0, 0, 2), (2, 1, 0, 2), (2, 0, 0, 1), (2, 0, 1, 2),
    (1, 1, 0, 2), (1, 0, 0, 1), (1, 0, 1, 2), (2, 1, 0, 1), (2, 1, 1, 2),
    (2, 0, 1, 1), (2, 1, 1, 1), (1, 0, 1, 1), (1, 1, 1, 2), (1, 1, 0, 1),
)  # fmt: skip
FORBIDDEN: tuple[tuple[int, int, int, int], ...] = _HALF + tuple(
    (b, a, d, c) for a, b, c, d in _HALF
)


def rank_matrix(positive: npt.ArrayLike, negative: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The bipartite rank matrix of scores.

    Args:
      positive: [m], scores of the positives.
      negative: [n], scores of the negatives.

    Returns:
      float64 [m, n] of 0, 1/2 and 1; its mean is the empirical AUC.

    Example:
      >>> rank_matrix([1.0, 0.0], [0.0])
      array([[1. ],
             [0.5]])

    References:
      Agarwal et al. (2005), Definition 2.
    """
    a, b = np.asarray(positive, np.float64)[:, None], np.asarray(negative, np.float64)[None, :]
    return ((a > b) + 0.5 * (a == b)).astype(np.float64)


def psi(m: int, n: int) -> int:
    r"""The number of realizable m x n rank matrices.

    A realizable matrix is a sequence of blocks of tied points, from the highest score down. A block
    holds positives, negatives or both. Neighbouring blocks of positives alone (or of negatives
    alone) count as one, since no entry distinguishes them. By the last block, of a positives and b
    negatives:

    .. math::
      \psi(m, n) = \sum_{a, b} \binom m a \binom n b s_{ab} \, \psi(m - a, n - b), \quad
      s_{ab} = 1 \text{ if } a, b \ge 1, \quad s_{a0} = s_{0a} = (-1)^{a-1}

    With these signs, all the ways to cut a points of one kind into blocks add up to 1.

    Args:
      m: Number of positives.
      n: Number of negatives.

    Returns:
      The exact number, in O(m^2 n^2) steps.

    Example:
      >>> psi(2, 2), psi(2, 3), psi(3, 3), psi(2, 4)
      (51, 261, 2067, 1299)

    References:
      Agarwal et al. (2005), Theorem 1; the recursion is derived here.
    """
    if m < 0 or n < 0:
        raise InputError("size of the matrix", f"{m} x {n}", "numbers >= 0")
    counts = {(0, 0): 1}
    for i, j in itertools.product(range(m + 1), range(n + 1)):
        if i + j:
            counts[i, j] = sum(
                math.comb(i, a) * math.comb(j, b) * _sign(a, b) * counts[i - a, j - b]
                for a, b in itertools.product(range(i + 1), range(j + 1))
                if a + b
            )
    return counts[m, n]


def _sign(a: int, b: int) -> int:
    """s_ab of `psi`."""
    return 1 if a and b else (-1) ** (a + b - 1)


def realizable_by_submatrices(matrices: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Theorem 1, part 2: a matrix is realizable unless it has a sub-matrix of Table 1.

    Args:
      matrices: int [..., m, n] of 0, 1, 2: doubled entries.

    Returns:
      bool [...].

    References:
      Agarwal et al. (2005), Theorem 1, Table 1.
    """
    values = _check_doubled(matrices)
    forbidden = np.zeros(81, bool)
    forbidden[[27 * a + 9 * b + 3 * c + d for a, b, c, d in FORBIDDEN]] = True
    has_forbidden = np.zeros(values.shape[:-2], bool)
    for i, k in itertools.combinations(range(values.shape[-2]), 2):
        for j, l in itertools.combinations(range(values.shape[-1]), 2):  # noqa: E741
            code = 27 * values[..., i, j] + 9 * values[..., i, l] + 3 * values[..., k, j]
            has_forbidden |= forbidden[code + values[..., k, l]]
    return ~has_forbidden


def realizable_by_graph(matrices: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Theorem 1, part 1: a matrix is realizable if its mixed bipartite graph has no cycle.

    An entry 1 is an edge from x_i to x'_j, 0 an edge from x'_j to x_i, and 1/2 an undirected edge.
    A cycle has at least one directed edge, and all its directed edges point in the same direction
    around it. So the graph has no cycle if no directed edge has a path back to its start along
    directed and undirected edges.

    Args:
      matrices: int [..., m, n] of 0, 1, 2: doubled entries.

    Returns:
      bool [...].

    References:
      Agarwal et al. (2005), Theorem 1.
    """
    values = _check_doubled(matrices)
    m, n = values.shape[-2:]
    strict = np.zeros((*values.shape[:-2], m + n, m + n), bool)
    strict[..., :m, m:] = values == 2
    strict[..., m:, :m] = np.swapaxes(values == 0, -1, -2)
    reachable = strict.copy()
    reachable[..., :m, m:] |= values == 1
    reachable[..., m:, :m] |= np.swapaxes(values == 1, -1, -2)
    for _ in range(math.ceil(math.log2(m + n))):  # each round doubles the length of the paths
        reachable |= reachable @ reachable  # of bools: "or" instead of a sum, which could overflow
    return np.asarray(~(strict & np.swapaxes(reachable, -1, -2)).any(axis=(-1, -2)))


def count_by_submatrices(m: int, n: int) -> int:
    """psi(m, n) by checking all 3^(mn) matrices against Table 1."""
    return int(realizable_by_submatrices(_all_matrices(m, n)).sum())


def count_by_graphs(m: int, n: int) -> int:
    """psi(m, n) by searching all 3^(mn) mixed bipartite graphs for cycles."""
    return int(realizable_by_graph(_all_matrices(m, n)).sum())


def rank_shatter_finite(scores: npt.ArrayLike, m: int, n: int) -> int:
    """The rank-shatter coefficient of a finite class on a finite domain, by enumeration.

    Args:
      scores: [H, X]: the value of each function at each point.
      m: Number of positives.
      n: Number of negatives.

    Returns:
      The largest number of distinct rank matrices over all choices of m positives and n negatives
      among the points, with repetition.

    Raises:
      InputError: Too many choices of points to enumerate.

    Example:
      >>> rank_shatter_finite([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0]], 1, 1)
      2

    References:
      Agarwal et al. (2005), Definition 3.
    """
    values = np.asarray(scores, np.float64)
    if values.ndim != 2 or not values.size:
        raise InputError("scores", f"shape {values.shape}", "[H, X]")
    points = values.shape[1]
    choices = math.comb(points + m - 1, m) * math.comb(points + n - 1, n)
    if choices * len(values) * m * n > 50 * _MAX_MATRICES:
        raise InputError("rank-shatter coefficient", f"{choices:,} choices of points", "fewer")
    # The number of matrices does not depend on the order of the points: multisets suffice.
    signs = np.sign(values[:, :, None] - values[:, None, :]).astype(np.int8)
    largest = 0
    for x in itertools.combinations_with_replacement(range(points), m):
        for z in itertools.combinations_with_replacement(range(points), n):
            matrices = signs[:, x][:, :, z].reshape(len(values), -1)
            largest = max(largest, len(np.unique(matrices, axis=0)))
    return largest


def rank_shatter_linear(positive: npt.ArrayLike, negative: npt.ArrayLike) -> int:
    """The exact number of rank matrices that linear functions have on given points.

    The matrix holds the signs of w . (x_i - x'_j). Its values correspond to the faces of mn
    hyperplanes through the origin in the space of w. The function adds one hyperplane at a time and
    finds the signs that each face can have by linear programs. Use points with small integer
    coordinates, so that the programs are decided reliably. The rank-shatter coefficient r is the
    maximum over points, which points in general position attain: 3 on the line, and 4mn + 1 in the
    plane for mn > 1 (each of mn lines adds two rays and two sectors).

    Args:
      positive: [m, d].
      negative: [n, d].

    Returns:
      The number of distinct matrices.

    Example:
      >>> rank_shatter_linear([[0], [3]], [[1], [7]])
      3

    References:
      Agarwal et al. (2005), Definition 3, the proof of Lemma 2, section 5.
    """
    x, z = np.asarray(positive, np.float64), np.asarray(negative, np.float64)
    if x.ndim != 2 or z.ndim != 2 or x.shape[1] != z.shape[1]:
        raise InputError("points", f"{x.shape} and {z.shape}", "[m, d] and [n, d]")
    normals = (x[:, None, :] - z[None, :, :]).reshape(-1, x.shape[1])
    faces: list[tuple[int, ...]] = [()]
    for count in range(1, len(normals) + 1):
        faces = [
            (*face, sign)
            for face in faces
            for sign in (-1, 0, 1)
            if _feasible(normals[:count], (*face, sign))
        ]
    return len(faces)


def _feasible(normals: npt.NDArray[np.float64], signs: tuple[int, ...]) -> bool:
    """Whether some w has these signs; they form a cone, so strict signs can have margin 1."""
    sign = np.array(signs)
    zero, rest = normals[sign == 0], sign[sign != 0, None] * normals[sign != 0]
    solution = linprog(
        np.zeros(normals.shape[1]),
        A_ub=-rest,
        b_ub=-np.ones(len(rest)),
        A_eq=zero,
        b_eq=np.zeros(len(zero)),
        bounds=(None, None),
    )
    return bool(solution.status == 0)


def _check_doubled(matrices: npt.ArrayLike) -> Matrices:
    """Checks doubled rank matrices, and converts them to int64."""
    entries = np.asarray(matrices)
    values = entries.astype(np.int64)
    if (values != entries).any():
        raise InputError("rank matrices", "fractions", "twice each entry: 0, 1 and 2")
    if values.ndim < 2 or (values.size and not 0 <= values.min() <= values.max() <= 2):
        raise InputError("rank matrices", f"shape {values.shape}", "[..., m, n] of 0, 1 and 2")
    return values


def _all_matrices(m: int, n: int) -> Matrices:
    """All m x n matrices of 0, 1 and 2: the base-3 digits of 0 .. 3^(mn) - 1."""
    if 3 ** (m * n) > _MAX_MATRICES:
        expected = f"at most {_MAX_MATRICES:,} (use psi)"
        raise InputError("matrices", f"3^{m * n} of {m} x {n}", expected)
    powers = 3 ** np.arange(m * n)
    return (np.arange(3 ** (m * n))[:, None] // powers % 3).reshape(-1, m, n)
