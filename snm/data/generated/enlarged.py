"""Makes a larger data set from a real one.

The result is a mixture of domains. Each domain has a random part of the original points, with
labels of its own, so that labels occur and co-occur within a domain as in the original. Frequent
words, in at least 1% of the points, have the same feature in all domains. Every other word has a
different feature in each domain; features are shared by chance if the result has fewer of them.
Domains differ in size: the domain of rank g has a share
proportional to $(g + 1)^{-1/2}$, but no more points than the original.

Metrics on the result are close to those on the original if the domains are as large as the original
and rare words determine the labels. They are lower if domains are smaller, because labels then have
fewer training points, or if most entries are frequent words, which do not depend on the domain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_matrix, vstack

from snm.data.csr import count_ids
from snm.data.dataset import Dataset, Points
from snm.errors import InputError, flag_of
from snm.machine.ram import check_available_ram

__all__ = ["enlarge", "frequent_share"]

_FREQUENT = 0.01  # words in at least this fraction of the points are shared by all domains
_SLOPE = 0.5  # exponent of the sizes of domains


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
    """Makes a data set with more points, labels and features than the original.

    No point is used twice within a domain, and test points come from test points.

    Args:
      original: a data set with a test set.
      points: number of training points.
      test_points: number of test points; 0 leaves `test` None.
      labels: number of labels, which determines the number of domains. The result has about this
        many, all with training points, or more if its points have more.
      features: number of features; None gives each domain its own features for all of its words.
      fewer: whether to accept fewer test points if the domains do not have enough.
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
    for name, value, minimum in (("points", points, 1), ("test_points", test_points, 0),
                               ("labels", labels, 1), ("seed", seed, 0)):  # fmt: skip
        if value < minimum:
            raise InputError(flag_of(name), f"{value}", f"{minimum} or more")
    check_available_ram("--points", _bytes_needed(original.train, points + test_points))
    rng = np.random.default_rng(seed)
    sizes = _domains(original, points, labels)
    tests = _domain_sizes(test_points, len(sizes), original.test.num_points)
    if tests.sum() < test_points and not fewer:
        expected = f"at most {len(sizes) * original.test.num_points} for {len(sizes)} domains"
        raise InputError("--test-points", f"{test_points}", expected)
    shared, rare = _words(original.train.features)
    width = len(shared) + len(sizes) * len(rare) if features is None else features
    if width < original.train.num_features:
        expected = f"at least the {original.train.num_features} of {original.name}"
        raise InputError("--features", f"{width}", expected)
    train, test = [], []
    for domain, (size, num_test) in enumerate(zip(sizes, tests, strict=True)):
        if features is None:
            rare_ids = len(shared) + domain * len(rare) + np.arange(len(rare))
        else:
            rare_ids = len(shared) + rng.choice(width - len(shared), len(rare), replace=False)
        ids = np.empty(original.train.num_features, np.int64)
        ids[shared], ids[rare] = np.arange(len(shared)), rare_ids
        train.append(_part(rng, original.train, size, ids, width))
        test.append(_part(rng, original.test, num_test, ids, width))
    return _join_domains(f"{original.name}-enlarged", rng, train, test)


def _domains(original: Dataset, points: int, labels: int) -> NDArray[np.int64]:
    """The numbers of training points of so many domains that they have about `labels` labels."""
    max_size = original.train.num_points
    frequencies, num_labels = np.unique(original.label_frequency(), return_counts=True)

    def expected_labels(sizes: NDArray[np.int64]) -> float:
        # A label of f points occurs in a random fraction p of the points with probability
        # 1 - (1 - p)^f.
        missing = 1 - sizes / max_size
        return float(
            sum(n * (1 - missing**f).sum() for f, n in zip(frequencies, num_labels, strict=True))
        )

    count = -(-points // max_size)
    while expected_labels(sizes := _domain_sizes(points, count, max_size)) < labels:
        if sizes[-1] == 1:
            expected = f"at most {int(expected_labels(sizes)):,} for {points} points"
            raise InputError("--labels", f"{labels}", expected)
        count += 1 + count // 50
    return sizes


def _bytes_needed(points: Points, count: int) -> float:
    """The memory for a number of points."""
    entries = (points.features.nnz + points.labels.nnz) / points.num_points
    # Ids, values and row ends: of the domains, joined, and shuffled.
    return 3 * count * (8 * entries + 16)


def _domain_sizes(total: int, count: int, max_size: int) -> NDArray[np.int64]:
    """Cuts `total` into descending sizes for `count` domains, each at most `max_size`.

    Example:
      >>> _domain_sizes(100, 4, 30)
      array([30, 28, 22, 20])
    """
    share = np.arange(1, count + 1) ** -_SLOPE
    sizes = np.zeros(count)
    for full in range(count + 1):  # the first `full` domains have as many points as the original
        sizes[:full] = max_size
        sizes[full:] = (total - full * max_size) * share[full:] / share[full:].sum()
        if full == count or sizes[full] <= max_size:
            break
    ends = np.rint(np.cumsum(sizes)).astype(np.int64)
    return np.diff(ends, prepend=0)


def frequent_share(original: Dataset) -> float:
    """The fraction of feature entries that are frequent words, which all domains share."""
    shared, _ = _words(original.train.features)
    return float(np.isin(original.train.features.indices, shared).mean())


def _words(features: csr_matrix) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ids of the frequent words, and of all others."""
    frequency = count_ids(features.indices, features.shape[1])
    frequent = frequency >= _FREQUENT * features.shape[0]
    return np.flatnonzero(frequent), np.flatnonzero(~frequent)


def _part(
    rng: np.random.Generator, points: Points, size: int, ids: NDArray[np.int64], width: int
) -> Points:
    """Random points of the original, with the word ids of a domain."""
    rows = rng.permutation(points.num_points)[:size]
    x, y = points.features[rows], points.labels[rows]
    x = csr_matrix((x.data, ids[x.indices], x.indptr), shape=(size, width))
    x.sort_indices()
    return Points(x, y)


def _join_domains(
    name: str, rng: np.random.Generator, train: list[Points], tests: list[Points]
) -> Dataset:
    """Joins the domains and shuffles the points; drops labels without training points."""
    both = []
    for parts in (train, tests):
        x = vstack([part.features for part in parts], format="csr")
        y = block_diag([part.labels for part in parts], format="csr")
        rows = rng.permutation(x.shape[0])
        both.append((x[rows], y[rows]))
    occurring = np.unique(both[0][1].indices)
    joined = [Points(x, csr_matrix(y[:, occurring], dtype=np.float32)) for x, y in both]
    return Dataset(name, joined[0], joined[1] if joined[1].num_points else None)
