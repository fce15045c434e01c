"""Logit adjustment: the choice of its strength by brute force, and its file."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snm.errors import InputError
from snm.memory.adjustment import STRENGTHS, label_shifts, load_shifts, save_shifts
from snm.memory.choose import ModelAnswers, Voters, choose
from snm.memory.neighbors import Neighbors

POINTS, LABELS = 200, 30


def chosen(scores, truth, frequency):
    """The choice where nobody votes: one stored point without a label is everybody's neighbour."""
    order = np.argsort(-scores, axis=1, kind="stable")
    nobody = Neighbors(np.zeros((POINTS, 1), np.int32), np.zeros((POINTS, 1), np.float32))
    best = np.take_along_axis(scores, order, axis=1)
    return choose(
        ModelAnswers(order.astype(np.int32), best, csr_matrix(truth)),
        Voters(nobody, nobody.cosines, csr_matrix((1, LABELS), dtype=np.float32)),
        frequency=frequency,
    )


def precision(scores, truth):
    hits = np.take_along_axis(truth, np.argsort(-scores, axis=1, kind="stable"), axis=1)
    return [100 * float(hits[:, :k].mean()) for k in (1, 3, 5)]


@pytest.mark.parametrize("raised", [0.0, 0.07, 0.12, 0.35])
def test_the_largest_strength_that_keeps_half_of_the_gain(raised):
    """Scores whose frequent labels are `raised` log n too high, and true labels by frequency."""
    rng = np.random.default_rng(3)
    frequency = np.round(1000 / np.arange(1, LABELS + 1) ** 1.5).astype(np.int64)
    truth = np.zeros((POINTS, LABELS), np.float32)
    truth[np.arange(POINTS), rng.integers(LABELS, size=POINTS)] = 1
    right = rng.normal(size=(POINTS, LABELS)) + 2 * truth
    scores = (right + raised * np.log(frequency)).astype(np.float32)

    choice = chosen(scores, truth, frequency)
    means = {
        strength: np.mean(precision(scores - strength * np.log(frequency), truth))
        for strength in (0.0, *STRENGTHS)
    }
    gains = {strength: mean - means[0.0] for strength, mean in means.items()}
    highest = max(gains.values())
    assert choice.strength == max(s for s, gain in gains.items() if gain >= highest / 2)
    assert gains[choice.strength] > 0 or choice.strength == 0
    lowered = scores - choice.strength * np.log(frequency)
    assert choice.adjusted == pytest.approx(precision(lowered, truth))
    assert choice.unadjusted == pytest.approx(precision(scores, truth))
    np.testing.assert_allclose(choice.scores[:, 0], lowered.max(axis=1), rtol=1e-5)
    assert choice.strength > 0 or raised < 0.1
    assert chosen(scores, truth, None).strength == 0


def test_labels_without_points_stay_where_they_are():
    shifts = label_shifts(np.array([0, 1, 2, 1000]), 0.3)
    np.testing.assert_allclose(shifts, [0, 0, -0.3 * np.log(2), -0.3 * np.log(1000)], rtol=1e-6)
    assert shifts.dtype == np.float32


def test_the_file(tmp_path):
    path = tmp_path / "adjustment.npy"
    save_shifts(path, label_shifts(np.arange(7), 0.1))
    np.testing.assert_array_equal(load_shifts(path, num_labels=7), label_shifts(np.arange(7), 0.1))
    with pytest.raises(InputError, match=r"adjustment\.npy: found an array \[7\], expected 8"):
        load_shifts(path, num_labels=8)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(InputError, match=r"adjustment\.npy"):
        load_shifts(path, num_labels=7)
    # NumPy warns of a header that it takes for one of Python 2.
    header = whole[:88].replace(b"fortran", b"fortrfn") + b"\n" + b" " * 39
    path.write_bytes(header + whole[128:])
    with pytest.raises(InputError, match=r"adjustment\.npy"):
        load_shifts(path, num_labels=7)


@pytest.mark.parametrize(
    "content",
    [
        np.zeros(3),
        np.array([1, np.nan, 0], np.float32),
        np.array([{}, None, "x"], object),
        np.zeros((3, 1), np.float32),
    ],
)
def test_other_content_is_one_line(tmp_path, content):
    path = tmp_path / "adjustment.npy"
    np.save(path, content, allow_pickle=True)
    with pytest.raises(InputError, match=r"adjustment\.npy: found .*, expected 3 finite numbers"):
        load_shifts(path, num_labels=3)


def test_a_damaged_header_allocates_nothing(tmp_path):
    """One that declares a header of 4 GB, in a file of 62 bytes."""
    path = tmp_path / "adjustment.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + (4_000_000_000).to_bytes(4, "little") + b"x" * 50)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"adjustment\.npy: found damaged"):
            load_shifts(path, num_labels=3)
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"none\.npy: found no such file"):
        load_shifts(tmp_path / "none.npy", num_labels=3)
