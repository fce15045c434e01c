"""The generator: statistics in the range of the real data sets, and the same data for a seed."""

import numpy as np
import pytest

from snm.data.generated import synthetic
from snm.data.generated.synthetic import generate
from snm.data.statistics import describe
from snm.errors import InputError

SMALL = {"points": 300, "test_points": 80, "features": 200, "labels": 90}


@pytest.fixture(scope="module")
def like_citeulike():
    return generate(points=20755, test_points=5189, features=20000, labels=13883)


def test_shapes_and_values():
    data = generate(**SMALL)
    assert (data.train.num_points, data.test.num_points) == (300, 80)
    assert (data.train.num_features, data.train.num_labels) == (200, 90)
    for part in (data.train, data.test):
        for matrix in (part.features, part.labels):
            assert matrix.dtype == np.float32
            assert (np.diff(matrix.indptr) >= 1).all()
            rebuilt = matrix.copy()
            rebuilt.sum_duplicates()
            assert rebuilt.nnz == matrix.nnz
            for row in range(0, matrix.shape[0], 37):
                assert (np.diff(matrix[row].indices) > 0).all()
        values = part.features.data
        assert (values == np.rint(values)).all()
        assert values.min() >= 1 and values.max() <= 100
        assert (part.labels.data == 1).all()
    assert generate(**SMALL | {"test_points": 0}).test is None


def test_a_seed_determines_the_data_set():
    one, same, other = generate(**SMALL), generate(**SMALL), generate(**SMALL, seed=1)
    assert one.sha256 == same.sha256 != other.sha256
    assert (one.train.features != same.train.features).nnz == 0
    assert (one.test.labels != same.test.labels).nnz == 0
    assert synthetic.default().sha256 == synthetic.default().sha256


def test_chunks_are_concatenated(monkeypatch):
    monkeypatch.setattr(synthetic, "_CHUNK_POINTS", 64)
    data = generate(**SMALL)
    assert (data.train.num_points, data.test.num_points) == (300, 80)
    # Chunks differ from each other: no row pattern repeats after 64 points.
    assert (data.train.features[:64] != data.train.features[64:128]).nnz > 0


def test_tiny_and_lopsided_sizes():
    for sizes in [
        {"points": 1, "test_points": 1, "features": 2, "labels": 2},
        {"points": 40, "test_points": 0, "features": 3, "labels": 5000},
        {"points": 40, "test_points": 0, "features": 5000, "labels": 3},
    ]:
        data = generate(**sizes, labels_per_point=1.5, nonzeros_per_point=2, topics=7)
        assert data.train.num_points == sizes["points"]
        assert (np.diff(data.train.labels.indptr) >= 1).all()


def test_sizes_follow_the_figures_of_the_docstring(like_citeulike):
    stats = describe(like_citeulike)
    assert stats["labels_per_point"] == pytest.approx(9.3, rel=0.05)
    assert stats["nonzeros_per_point"] == pytest.approx(18.9, rel=0.05)
    deciles = stats["label_frequency_deciles"]
    assert [deciles[1], deciles[5], deciles[9]] == pytest.approx([2, 4, 24], abs=2)
    for labels, words in ((3, 50), (15, 8)):
        data = generate(
            points=4000,
            test_points=0,
            features=5000,
            labels=3000,
            labels_per_point=labels,
            nonzeros_per_point=words,
        )
        assert describe(data)["labels_per_point"] == pytest.approx(labels, rel=0.1)
        assert describe(data)["nonzeros_per_point"] == pytest.approx(words, rel=0.1)


def test_label_frequencies_fall_like_the_real_ones(like_citeulike):
    """Slope of log frequency over log rank: citeulike-t-14k -0.94 and -1.03, gowalla -0.6."""
    frequency = np.sort(like_citeulike.label_frequency())[::-1]
    rank = np.arange(1, len(frequency) + 1)
    for first, last in ((0.01, 0.1), (0.1, 0.5)):
        span = slice(int(first * len(rank)), int(last * len(rank)))
        slope = np.polyfit(np.log(rank[span]), np.log(frequency[span]), 1)[0]
        assert -1.2 < slope < -0.6
    assert 0.03 < frequency[0] / 20755 < 0.1


def test_labels_and_words_go_together_like_the_real_ones(like_citeulike):
    """The two pair statistics of the module docstring, counted pair by pair."""
    labels, words = (
        [set(row) for row in np.split(matrix.indices, matrix.indptr[1:-1])]
        for matrix in (like_citeulike.train.labels, like_citeulike.train.features)
    )
    rng = np.random.default_rng(0)
    points_of = like_citeulike.train.labels.tocsc()
    owner = np.repeat(np.arange(len(labels)), [len(row) for row in labels])
    slots = rng.integers(len(owner), size=6000)
    in_common, cosine = [], []
    for slot in slots:
        i, label = owner[slot], like_citeulike.train.labels.indices[slot]
        j = rng.choice(points_of.indices[points_of.indptr[label] : points_of.indptr[label + 1]])
        others = min(len(labels[i]), len(labels[j])) - 1
        if i != j:
            cosine.append(len(words[i] & words[j]) / np.sqrt(len(words[i]) * len(words[j])))
            if others:
                in_common.append((len(labels[i] & labels[j]) - 1) / others)
    assert 0.09 < np.mean(in_common) < 0.15  # 0.120 in citeulike-t-14k, 0.109 here
    assert 0.04 < np.mean(cosine) < 0.07  # 0.057 there, 0.050 here


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"points": 0}, "points: found 0, expected 1 or more"),
        ({"test_points": -1}, "test_points: found -1"),
        ({"labels": 1}, "labels: found 1, expected a number from 2"),
        ({"features": 1}, "features: found 1"),
        ({"labels_per_point": 91}, "labels_per_point: found 91, expected a number from 1 to 90"),
        ({"nonzeros_per_point": 0.5}, "nonzeros_per_point: found 0.5"),
        ({"topics": 0}, "topics: found 0"),
        ({"topic_share": 1.5}, "topic_share: found 1.5, expected a number from 0 to 1"),
        ({"topic_share": float("nan")}, "topic_share: found nan"),
        ({"seed": -1}, "seed: found -1"),
    ],
)
def test_errors(wrong, message):
    with pytest.raises(InputError) as caught:
        generate(**SMALL | wrong)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("size", ["points", "features", "labels"])
def test_sizes_that_need_too_much_memory_are_named_by_their_flags(size, monkeypatch):
    monkeypatch.setattr("snm.machine.ram.available_ram", lambda: 16 << 30)
    with pytest.raises(InputError) as error:
        generate(**SMALL | {size: 2**31 - 1})
    assert error.value.as_flags.startswith(f"--{size}: found a size that needs ")
