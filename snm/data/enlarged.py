"""Makes a larger data set out of a real one.

The result is a mixture of domains. Each domain has the points of a random part of the original, and
labels of its own, so that the labels of one domain occur, and occur together, as they do in the
original. Frequent words, those of at least 1% of the points, mean the same in all domains. Of every
other word each domain has its own, which may have the id of another domain's word where the result
has fewer features than there are words. Domains differ in size: that of rank g has a share
proportional to $(g + 1)^{-1/2}$, but no more points than the original.

Scores on the result are close to those on the original where domains are as large as the original,
and rare words tell the labels. They are lower where domains are smaller, because labels then have
fewer training points, and where most entries are frequent words, which say nothing of the domain.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_matrix, vstack

from snm.data.dataset import Dataset, Points, counts_of_ids
from snm.errors import InputError
from snm.machine.ram import available_ram

__all__ = ["enlarge", "frequent_share"]

_FREQUENT = 0.01  # share of the points from which on a word means the same in all domains
_SLOPE = 0.5  # of the sizes of domains


def enlarge(
    original: Dataset,
    *,
    points: int,
    test_points: int,
    labels: int,
    features: int | None = None,
    fewer: bool = False,
    seed: int = 0,
) -> Dataset:
    """Makes a data set with more points, labels and features than one that it is made of.

    No point is used twice within a domain, and test points come from test points.

    Args:
      original: with a test set.
      points: number of training points.
      test_points: number of test points; 0 leaves `test` None.
      labels: number of labels, which decides the number of domains. The result has about as many,
        all with training points; or more, as many as its points bring.
      features: number of features; None gives each domain ids of its own for all of its words.
      fewer: whether there may be fewer test points, where the domains have no more.
      seed: random seed.

    Returns:
      the data set; its labels and features have no names.

    Raises:
      InputError: no test set, weights, a size out of range or for which there is no memory, fewer
        features than the original's, more labels than so many points have, or more test points than
        the domains have, unless there may be fewer.
    """
    if original.test is None:
        raise InputError("--like", f"{original.name} without test points", "a data set with both")
    if original.train.weights is not None or original.train.label_weights is not None:
        raise InputError("--like", f"{original.name} with weights", "a data set without them")
    for name, value, least in (("points", points, 1), ("test_points", test_points, 0),
                               ("labels", labels, 1), ("seed", seed, 0)):  # fmt: skip
        if value < least:
            raise InputError(f"--{name.replace('_', '-')}", f"{value}", f"{least} or more")
    _refuse_too_large(original.train, points + test_points)
    rng = np.random.default_rng(seed)
    sizes = _domains(original, points, labels)
    tests = _cut(test_points, len(sizes), original.test.num_points)
    if tests.sum() < test_points and not fewer:
        expected = f"at most {len(sizes) * original.test.num_points} for {len(sizes)} domains"
        raise InputError("--test-points", f"{test_points}", expected)
    shared, rare = _words(original.train.features)
    width = len(shared) + len(sizes) * len(rare) if features is None else features
    if width < original.train.num_features:
        expected = f"at least the {original.train.num_features} of {original.name}"
        raise InputError("--features", f"{width}", expected)
    train, test = [], []
    for domain, (size, of_test) in enumerate(zip(sizes, tests, strict=True)):
        if features is None:
            own = len(shared) + domain * len(rare) + np.arange(len(rare))
        else:
            own = len(shared) + rng.choice(width - len(shared), len(rare), replace=False)
        ids = np.empty(original.train.num_features, np.int64)
        ids[shared], ids[rare] = np.arange(len(shared)), own
        train.append(_part(rng, original.train, size, ids, width))
        test.append(_part(rng, original.test, of_test, ids, width))
    return _joined(f"{original.name}-enlarged", rng, train, test)


def _domains(original: Dataset, points: int, labels: int) -> NDArray[np.int64]:
    """Numbers of training points of the domains, as many as give about `labels` labels."""
    most = original.train.num_points
    times, having = np.unique(original.label_frequency(), return_counts=True)

    def occurring(sizes: NDArray[np.int64]) -> float:
        # A label of f points is among a share p of all points with probability 1 - (1 - p)^f.
        left = 1 - sizes / most
        return float(sum(h * (1 - left**f).sum() for f, h in zip(times, having, strict=True)))

    count = -(-points // most)
    while occurring(sizes := _cut(points, count, most)) < labels:
        if sizes[-1] == 1:
            expected = f"at most {int(occurring(sizes)):,} for {points} points"
            raise InputError("--labels", f"{labels}", expected)
        count += 1 + count // 50
    return sizes


def _refuse_too_large(points: Points, count: int) -> None:
    """Refuses a number of points for which there is no memory."""
    entries = (points.features.nnz + points.labels.nnz) / points.num_points
    # Ids, values and row ends: of the domains, joined, and shuffled.
    needed, free = 3 * count * (8 * entries + 16), available_ram()
    if needed > free:
        found = f"a size that needs {needed / 2**30:,.1f} GiB of memory"
        raise InputError("--points", found, f"one for the {free / 2**30:,.1f} GiB that are free")


def _cut(total: int, count: int, most: int) -> NDArray[np.int64]:
    """Cuts `total` into descending sizes for `count` domains, each at most `most`.

    Example:
      >>> _cut(100, 4, 30)
      array([30, 28, 22, 20])
    """
    share = np.arange(1, count + 1) ** -_SLOPE
    sizes = np.zeros(count)
    for full in range(count + 1):  # the first `full` domains have as many points as the original
        sizes[:full] = most
        sizes[full:] = (total - full * most) * share[full:] / share[full:].sum()
        if full == count or sizes[full] <= most:
            break
    ends = np.rint(np.cumsum(sizes)).astype(np.int64)
    return np.diff(ends, prepend=0)


def frequent_share(original: Dataset) -> float:
    """The share of the entries of features that are of frequent words, which all domains have."""
    shared, _ = _words(original.train.features)
    return float(np.isin(original.train.features.indices, shared).mean())


def _words(features: csr_matrix) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ids of the frequent words, and of all others."""
    having = counts_of_ids(features.indices, features.shape[1])
    frequent = having >= _FREQUENT * features.shape[0]
    return np.flatnonzero(frequent), np.flatnonzero(~frequent)


def _part(
    rng: np.random.Generator, points: Points, size: int, ids: NDArray[np.int64], width: int
) -> Points:
    """Random points of the original, whose words have the ids of a domain."""
    rows = rng.permutation(points.num_points)[:size]
    x, y = points.features[rows], points.labels[rows]
    x = csr_matrix((x.data, ids[x.indices], x.indptr), shape=(size, width))
    x.sort_indices()
    return Points(x, y)


def _joined(
    name: str, rng: np.random.Generator, train: list[Points], tests: list[Points]
) -> Dataset:
    """The domains as one data set; a label without training points is left out, points shuffled."""
    both = []
    for parts in (train, tests):
        x = vstack([part.features for part in parts], format="csr")
        y = block_diag([part.labels for part in parts], format="csr")
        rows = rng.permutation(x.shape[0])
        both.append((x[rows], y[rows]))
    occurring = np.unique(both[0][1].indices)
    digest = hashlib.sha256()
    found = []
    for x, y in both:
        points = Points(x, csr_matrix(y[:, occurring], dtype=np.float32))
        for matrix in (points.features, points.labels):
            for array in (matrix.data, matrix.indices, matrix.indptr.astype(np.int64)):
                digest.update(array.data)
        found.append(points)
    test = found[1] if found[1].num_points else None
    return Dataset(name, found[0], test, None, digest.hexdigest())
