"""The highest values of rows of many lengths, against a sort of each."""

import numpy as np
import pytest

from snm.memory.row_top_k import top_k_of_rows

SIZES = [0, 201, 3, 3300, 1, 20_000, 0, 200, 199, 7]


def rows_of(kind):
    rng = np.random.default_rng(3)
    rows = [rng.normal(size=size).astype(np.float32) for size in SIZES]
    if kind == "ties":
        return [np.rint(row) for row in rows]
    if kind != "random":  # where the samples are
        for row in rows:
            row[::16] += -9 if kind == "high where no sample is" else 9
    return rows


@pytest.mark.parametrize("count", [1, 7, 200])
@pytest.mark.parametrize("kind", ["random", "ties", "high where no sample is", "low there"])
def test_they_are_the_highest(count, kind):
    rows = rows_of(kind)
    values, starts = np.concatenate(rows), np.append(0, np.cumsum(SIZES)).astype(np.int32)
    places, found = top_k_of_rows(values, starts, count)
    np.testing.assert_array_equal(found, np.minimum(SIZES, count))
    assert (np.diff(places) > 0).all()  # each once, in order
    for row, first, mine in zip(
        rows, starts[:-1], np.split(places, np.cumsum(found)[:-1]), strict=True
    ):
        assert ((mine >= first) & (mine < first + len(row))).all()
        np.testing.assert_array_equal(np.sort(values[mine]), np.sort(row)[len(row) - len(mine) :])


@pytest.mark.parametrize("count", [1, 7, 200])
def test_of_equal_values_the_first(count):
    rows = rows_of("ties")
    places, _ = top_k_of_rows(np.concatenate(rows), np.append(0, np.cumsum(SIZES)), count)
    best = [np.sort(np.argsort(-row, kind="stable")[:count]) for row in rows]
    firsts = np.append(0, np.cumsum(SIZES))[:-1]
    expected = [first + mine for first, mine in zip(firsts, best, strict=True)]
    np.testing.assert_array_equal(places, np.concatenate(expected))


@pytest.mark.parametrize("kind", ["random", "ties"])
def test_a_row_alone_has_those_it_has_among_others(kind):
    rows = rows_of(kind)
    values, starts = np.concatenate(rows), np.append(0, np.cumsum(SIZES))
    places, _ = top_k_of_rows(values, starts, 50)
    alone = [top_k_of_rows(row, np.array([0, len(row)]), 50)[0] for row in rows]
    apart = [first + mine for first, mine in zip(starts, alone, strict=False)]
    np.testing.assert_array_equal(places, np.concatenate(apart))


def test_no_rows():
    places, found = top_k_of_rows(np.empty(0, np.float32), np.array([0]), 5)
    assert len(places) == len(found) == 0
