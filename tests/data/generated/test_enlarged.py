"""Data sets made out of a real one: the frequencies of labels and words, domains, and refusals."""

import dataclasses

import numpy as np
import pytest

import snm
from snm.data.generated.enlarged import enlarge
from snm.data.generated.synthetic import generate
from snm.errors import InputError
from tests.command_line import call, refused

SIZES = {"points": 300, "test_points": 80, "features": 200, "labels": 90}


@pytest.fixture(scope="module")
def original():
    return generate(**SIZES, seed=3)


def counts(matrix):
    """How many rows have each id that occurs, ascending."""
    found = np.bincount(matrix.indices)
    return np.sort(found[found > 0])


def test_two_domains_have_the_frequencies_of_the_original_twice(original):
    occurring = np.count_nonzero(original.label_frequency())
    made = enlarge(original, points=600, test_points=160, labels=2 * occurring, seed=1)
    assert (made.train.num_points, made.test.num_points) == (600, 160)
    assert made.train.num_labels == made.test.num_labels == 2 * occurring
    once = counts(original.train.labels)
    np.testing.assert_array_equal(counts(made.train.labels), np.repeat(once, 2))
    # Labels occur together as often as they did: pairs of the same domain, and none of two.
    pairs = np.sort((original.train.labels.T @ original.train.labels).data)
    of_made = np.sort((made.train.labels.T @ made.train.labels).data)
    np.testing.assert_array_equal(of_made, np.repeat(pairs, 2))
    # A frequent word (3 of 300 points) is one word of both domains; of another each has its own.
    words = np.bincount(original.train.features.indices, minlength=200)
    expected = np.sort(np.concatenate([2 * words[words >= 3], np.repeat(words[words < 3], 2)]))
    np.testing.assert_array_equal(counts(made.train.features), expected[expected > 0])
    assert made.train.num_features == np.sum(words >= 3) + 2 * np.sum(words < 3)
    assert made.train.features.sum() == 2 * original.train.features.sum()


def test_test_points_come_from_test_points(original):
    made = enlarge(original, points=300, test_points=80, labels=10, seed=2)
    for part, source in ((made.train, original.train), (made.test, original.test)):
        assert part.features.sum() == source.features.sum()
        np.testing.assert_array_equal(
            np.sort(part.features.getnnz(axis=1)), np.sort(source.features.getnnz(axis=1))
        )


def test_more_labels_need_more_domains_of_fewer_points(original):
    made = enlarge(original, points=600, test_points=100, labels=500, features=300, seed=1)
    assert 450 < made.train.num_labels < 600
    assert (np.bincount(made.train.labels.indices) > 0).all()
    assert made.train.num_features == made.test.num_features == 300
    for part in (made.train, made.test):
        assert part.features.has_canonical_format and part.labels.has_canonical_format
        assert part.features.dtype == part.labels.dtype == np.float32


def test_no_test_points_are_no_test_set(original):
    assert enlarge(original, points=400, test_points=0, labels=90).test is None


def test_a_seed_determines_the_data_set(original):
    sizes = {"points": 400, "test_points": 100, "labels": 150}
    one, same, other = (enlarge(original, **sizes, seed=seed) for seed in (0, 0, 1))
    assert one.sha256 == same.sha256 != other.sha256


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"features": 150}, "features: found 150, expected at least the 200"),
        ({"labels": 10**6}, "labels: found 1000000, expected at most "),
        ({"points": 0}, "points: found 0, expected 1 or more"),
        ({"test_points": -1}, "test_points: found -1, expected 0 or more"),
        ({"labels": 0}, "labels: found 0, expected 1 or more"),
        ({"points": 10**12}, "points: found a size that needs "),
        ({"test_points": 10**6}, "test_points: found 1000000, expected at most "),
    ],
)
def test_sizes_that_cannot_be(original, changes, said):
    with pytest.raises(InputError, match=said):
        enlarge(original, **{"points": 400, "test_points": 10, "labels": 90} | changes)


def test_weights_are_refused(original):
    train = dataclasses.replace(original.train, weights=np.ones(300, np.float32))
    with pytest.raises(InputError, match="with weights, expected a data set without them"):
        enlarge(dataclasses.replace(original, train=train), points=400, test_points=10, labels=90)


def test_on_the_command_line(tmp_path, capsys):
    one, two = tmp_path / "one", tmp_path / "two"
    call("data", "synth", one, "--points", 300, "--test-points", 80, "--features", 200,
         "--labels", 90)  # fmt: skip
    words = ["data", "synth", two, "--like", one, "--points", 500, "--test-points", 90,
             "--labels", 150]  # fmt: skip
    assert "--labels-per-point: found 3.0 beside --like" in refused(
        capsys, *words, "--labels-per-point", 3
    )
    assert not two.exists()
    call(*words)
    told = capsys.readouterr().out
    assert "500 training points, 90 test points and 1" in told
    collect_words = snm.load_data(one).train.features
    frequent = np.flatnonzero(np.bincount(collect_words.indices) >= 3)
    share = np.isin(collect_words.indices, frequent).mean()
    assert share > 0.5 and f"note: {share:.0%} of the entries" in " ".join(told.split())
    said = refused(capsys, "data", "synth", tmp_path / "none", "--like", "")
    assert "found no training file" in said
    made = snm.load_data(two)
    assert (made.train.num_points, made.test.num_points) == (500, 90)
    (one / "test.txt").unlink()
    words[2] = tmp_path / "three"
    assert "without test points, expected a data set with both" in refused(capsys, *words)


def test_a_default_that_the_source_is_too_small_for(tmp_path, capsys):
    """Two domains of 80 test points each have fewer than the 2000 that are usual."""
    one, two = tmp_path / "one", tmp_path / "two"
    call("data", "synth", one, "--points", 300, "--test-points", 80, "--features", 200,
         "--labels", 90)  # fmt: skip
    words = ["data", "synth", two, "--like", one, "--points", 600, "--labels", 90]
    said = refused(capsys, *words, "--test-points", 2000)
    assert said == "--test-points: found 2000, expected at most 160 for 2 domains"
    call(*words)
    assert "600 training points, 160 test points and" in capsys.readouterr().out
    assert snm.load_data(two).test.num_points == 160
