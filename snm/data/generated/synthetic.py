"""Generates seeded synthetic data with the statistics of tagged texts.

A point is drawn in three steps:

1. Its topic, with probability proportional to the summed popularity of the topic's labels.
2. Its labels. Each comes from the topic with probability `topic_share`, otherwise from all labels,
   in both cases with probability proportional to popularity. The label frequencies therefore
   follow the popularity curve $(r + 0.001 K)^{-1.1}$ at rank r: flat at the head, a Zipf law in
   the tail.
3. Its words. Each comes from one of the point's labels (probability 0.6), from its topic (0.3), or
   from the whole vocabulary (0.1). A label has 8 words and a topic 50; the first of them are used
   most. They are drawn in proportion to popularity, so common words belong to many labels and rare
   words are more informative. Values are counts.

The constants were tuned by hand, without training a model, until the statistics below were close
to those of `citeulike-t-14k` at its sizes: 20755 points, 20000 features, 13883 labels. The other
two real data sets show how much such data varies. All figures are of the training points. Averages
are those of `snm.data.statistics.describe`; the rest are quantiles of the same counts. "Labels in
common" is the share of the other labels that two points have in common (relative to the smaller
number), "cosine" the cosine of their features as sets. "Shared" averages over 60,000 random
(point, label) pairs, each with another random point that has the label; "random" averages over
random pairs of points. One statistic is not matched: 15% of the generated words never occur in
train (0.7% in `citeulike-t-14k`).

| | delicious | citeulike-t-14k | gowalla | generated |
|---|---|---|---|---|
| labels a point: mean, median, 99% | 19.0, 20, 25 | 9.3, 7, 49 | 7.3, 4, 46 | 9.2, 7, 42 |
| words a point: mean, median, 99% | 17.9, 6, 230 | 18.9, 18, 46 | 27.1, 16, 183 | 18.8, 15, 71 |
| % with label of rank 0, K/1000, K/100 | 40, 40, 22 | 7.3, 2.9, .9 | 3.0, .6, .14 | 6.9, 3.7, .86 |
| label frequency: 10, 50, 90% | 36, 84, 553 | 2, 4, 24 | 1, 3, 8 | 2, 4, 23 |
| % with word of rank 0, d/100, d/10 | 22, 15, 8.0 | 8.5, 1.2, .20 | 4.8, .47, .12 | 7.6, 1.4, .18 |
| values: mean, share of ones | 1, 1 | 1.64, .70 | 1, 1 | 1.70, .77 |
| labels in common: shared, random | .235, .108 | .120, .011 | .059, .002 | .109, .015 |
| cosine of features: shared, random | .088, .052 | .057, .008 | .037, .002 | .050, .012 |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snm.data.dataset import Dataset, Points, hash_matrices
from snm.data.formats.records import MAX_IDS
from snm.data.formats.repository_text.reader import join_pieces
from snm.errors import InputError, flag_of
from snm.machine.ram import check_available_ram

__all__ = ["default", "generate"]

_CHUNK_POINTS = 1 << 15  # bounds memory; another value changes the data of a seed
_LABEL_SLOPE, _LABEL_SHIFT = 1.1, 0.001
_WORD_SLOPE, _WORD_SHIFT = 1.0, 0.002
_LABEL_WORDS, _TOPIC_WORDS = 8, 50
_FROM_LABEL, _FROM_TOPIC = 0.6, 0.3
_SKEW = 3  # the first of a label's 8 words gets half of its draws, of a topic's 50 words a quarter
_LABELS_SIGMA, _WORDS_SIGMA = 0.77, 0.65
_COUNT_TAIL, _LARGEST_COUNT = 2.6, 100
_LABELS_PER_TOPIC = 100


@dataclass(frozen=True, eq=False)
class _World:
    """The parameters that all points share: labels by topic, words by label and by topic.

    Attributes:
      by_topic: int64 [K], label ids sorted by topic.
      mass: float64 [K], cumulative popularity in the order of `by_topic`.
      topic_end: float64 [topics], cumulative popularity at the end of each topic.
      word_mass: float64 [d], cumulative popularity of the words.
      label_words: int64 [K, _LABEL_WORDS], words of each label.
      topic_words: int64 [topics, _TOPIC_WORDS], words of each topic.
    """

    by_topic: NDArray[np.int64]
    mass: NDArray[np.float64]
    topic_end: NDArray[np.float64]
    word_mass: NDArray[np.float64]
    label_words: NDArray[np.int64]
    topic_words: NDArray[np.int64]


def _popularity(
    rng: np.random.Generator, size: int, slope: float, shift: float
) -> NDArray[np.float64]:
    """Zipf-Mandelbrot probabilities of `size` ids in random order."""
    weight = (np.arange(1, size + 1) + shift * size) ** -slope
    return rng.permutation(weight / weight.sum())


def _inverse_cdf(mass: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.int64]:
    """The indices at which the cumulative sum `mass` passes `at`."""
    return np.minimum(np.searchsorted(mass, at, side="right"), len(mass) - 1)


def _draw_world(rng: np.random.Generator, features: int, labels: int, topics: int) -> _World:
    popularity = _popularity(rng, labels, _LABEL_SLOPE, _LABEL_SHIFT)
    topic = rng.integers(topics, size=labels)
    by_topic = np.argsort(topic, kind="stable")
    mass = np.cumsum(popularity[by_topic])
    sizes = np.bincount(topic, minlength=topics)
    topic_end = np.concatenate([[0.0], mass])[np.cumsum(sizes)]
    word_mass = np.cumsum(_popularity(rng, features, _WORD_SLOPE, _WORD_SHIFT))
    return _World(
        by_topic,
        mass,
        topic_end,
        word_mass,
        _inverse_cdf(word_mass, rng.random((labels, _LABEL_WORDS))),
        _inverse_cdf(word_mass, rng.random((topics, _TOPIC_WORDS))),
    )


def _sizes(
    rng: np.random.Generator, points: int, mean: float, sigma: float, largest: int
) -> NDArray[np.int64]:
    """Log-normal sizes, rounded and clipped to [1, largest]; `mean` is that before both."""
    drawn = rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, points)
    return np.clip(np.rint(drawn), 1, largest).astype(np.int64)


def _draw_slots(sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Slots for draws of ids: more than `sizes` for each row, because repeats are dropped.

    Returns:
      int64 [slots], the row of each slot; and bool [slots], whether it is a spare. Spares are the
      last slots of a row. They draw from all ids, because a topic or label may run out of new ones.
    """
    first = 2 * sizes + 3
    number = first + sizes
    row = np.repeat(np.arange(len(sizes)), number)
    rank = np.arange(len(row)) - np.repeat(np.cumsum(number) - number, number)
    return row, rank >= first[row]


def _distinct(
    row: NDArray[np.int64], ids: NDArray[np.int64], width: int, sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Keeps the first `sizes[row]` distinct ids of each row, in the order drawn.

    Args:
      row: int64 [draws], ascending.
      ids: int64 [draws], each below `width`.
      width: number of ids.
      sizes: int64 [rows].

    Returns:
      int64 [rows], number of ids of each row (smaller than `sizes` if its draws run out);
      int32 [ids], sorted within rows; int64 [ids], how often each was drawn.
    """
    key, first, times = np.unique(row * width + ids, return_index=True, return_counts=True)
    # Sorting distinct ids by first occurrence keeps rows consecutive, so an id's rank in its row
    # is its index minus the start of the row.
    order = np.argsort(first)
    owner = key[order] // width
    starts = np.searchsorted(owner, np.arange(len(sizes)))
    keep = np.zeros(len(key), bool)
    keep[order] = np.arange(len(key)) - starts[owner] < sizes[owner]
    key, times = key[keep], times[keep]
    counts = np.bincount(key // width, minlength=len(sizes)).astype(np.int64)
    return counts, (key % width).astype(np.int32), times


def _draw_chunk(
    rng: np.random.Generator,
    world: _World,
    points: int,
    labels_per_point: float,
    nonzeros_per_point: float,
    topic_share: float,
) -> tuple[NDArray, ...]:
    """Draws `points` points: words per row, words, values, labels per row, labels."""
    num_labels, num_words = len(world.by_topic), len(world.word_mass)
    topic = _inverse_cdf(world.topic_end, rng.random(points) * world.topic_end[-1])
    topic_start = np.concatenate([[0.0], world.topic_end])[topic]

    sizes = _sizes(rng, points, labels_per_point, _LABELS_SIGMA, max(1, num_labels // 4))
    row, spare = _draw_slots(sizes)
    inside = (rng.random(len(row)) < topic_share) & ~spare
    start = np.where(inside, topic_start[row], 0)
    end = np.where(inside, world.topic_end[topic[row]], world.mass[-1])
    at = start + rng.random(len(row)) * (end - start)
    drawn = world.by_topic[_inverse_cdf(world.mass, at)]
    label_counts, labels, _ = _distinct(row, drawn, num_labels, sizes)

    sizes = _sizes(rng, points, nonzeros_per_point, _WORDS_SIGMA, max(1, num_words // 4))
    row, spare = _draw_slots(sizes)
    source = np.where(spare, 1, rng.random(len(row)))
    words = _inverse_cdf(world.word_mass, rng.random(len(row)))
    slot = rng.random(len(row))
    first = np.cumsum(label_counts) - label_counts
    one = labels[first[row] + (rng.random(len(row)) * label_counts[row]).astype(np.int64)]
    from_label = source < _FROM_LABEL
    words[from_label] = world.label_words[one, (slot**_SKEW * _LABEL_WORDS).astype(np.int64)][
        from_label
    ]
    from_topic = (source >= _FROM_LABEL) & (source < _FROM_LABEL + _FROM_TOPIC)
    words[from_topic] = world.topic_words[
        topic[row], (slot**_SKEW * _TOPIC_WORDS).astype(np.int64)
    ][from_topic]
    word_counts, word_ids, _ = _distinct(row, words, num_words, sizes)
    values = np.minimum(rng.zipf(_COUNT_TAIL, len(word_ids)), _LARGEST_COUNT).astype(np.float32)
    return word_counts, word_ids, values, label_counts, labels


def generate(
    *,
    points: int,
    test_points: int,
    features: int,
    labels: int,
    seed: int = 0,
    labels_per_point: float = 9.3,
    nonzeros_per_point: float = 18.9,
    topics: int | None = None,
    topic_share: float = 0.7,
    name: str = "synthetic",
) -> Dataset:
    """Generates a data set.

    Time and memory are proportional to the number of entries: about 25,000 points a second on one
    core. Equal arguments give equal data (with the same version of NumPy).

    Args:
      points: number of training points.
      test_points: number of test points, from the same distribution; 0 leaves `test` None.
      features: number of features d.
      labels: number of labels K.
      seed: random seed.
      labels_per_point: mean of the log-normal number of labels, before rare repeats are dropped.
      nonzeros_per_point: the same for features.
      topics: number of topics; None means one per 100 labels, and at least 2.
      topic_share: probability that a label comes from the point's topic.
      name: name of the data set.

    Returns:
      a data set whose points have at least one label and one feature each. Values are integers
      from 1 to 100.

    Raises:
      InputError: an argument out of range: fewer than 1 point, fewer than 2 labels or features,
        a mean below 1 or above the number of labels or features, a share outside [0, 1], or sizes
        for which there is no memory.
    """
    limits = {
        "points": (points, 1, np.inf),
        "test_points": (test_points, 0, np.inf),
        "features": (features, 2, MAX_IDS),
        "labels": (labels, 2, MAX_IDS),
        "seed": (seed, 0, np.inf),
        "labels_per_point": (labels_per_point, 1, labels),
        "nonzeros_per_point": (nonzeros_per_point, 1, features),
        "topics": (1 if topics is None else topics, 1, np.inf),
        "topic_share": (topic_share, 0, 1),
    }
    for argument, (value, least, most) in limits.items():
        if not least <= value <= most:
            expected = f"{least} or more" if most == np.inf else f"a number from {least} to {most}"
            raise InputError(flag_of(argument), f"{value}", expected)
    topics = topics or max(2, labels // _LABELS_PER_TOPIC)
    _refuse_too_large(
        (points + test_points) * (labels_per_point + nonzeros_per_point), features, labels, topics
    )
    root = np.random.SeedSequence(seed)
    world_seed, points_seed = root.spawn(2)
    world = _draw_world(np.random.default_rng(world_seed), features, labels, topics)
    total = points + test_points
    firsts = range(0, total, _CHUNK_POINTS)
    chunks = [
        _draw_chunk(
            np.random.default_rng(child),
            world,
            min(_CHUNK_POINTS, total - first),
            labels_per_point,
            nonzeros_per_point,
            topic_share,
        )
        for first, child in zip(firsts, points_seed.spawn(len(firsts)), strict=True)
    ]
    word_counts, words, values, label_counts, label_ids = (
        list(column) for column in zip(*chunks, strict=True)
    )
    x = join_pieces(word_counts, words, values, features)
    y = join_pieces(label_counts, label_ids, None, labels)
    train = Points(x[:points], y[:points])
    test = Points(x[points:], y[points:]) if test_points else None
    digest = hash_matrices((x, y), f"{points} {test_points} {features} {labels}")
    return Dataset(name, train, test, None, digest)


def _refuse_too_large(entries: float, features: int, labels: int, topics: int) -> None:
    """Refuses sizes for which there is no memory.

    Raises:
      InputError: the arrays need more than is free.
    """
    # Ids and values, and the text or concatenated arrays of them; the world, and what draws it.
    sizes = {
        "--points": 24 * entries,
        "--features": 32 * features,
        "--labels": (8 * _LABEL_WORDS + 64) * labels,
        "topics": (16 * _TOPIC_WORDS + 16) * topics,
    }
    check_available_ram(max(sizes, key=lambda name: sizes[name]), sum(sizes.values()))


def default() -> Dataset:
    """Generates the data set named `synthetic`, which comes with the package (about 0.3 s)."""
    return generate(points=8000, test_points=2000, features=8000, labels=4000)
