"""The arithmetic of the benchmark; what it measures is for its reader to judge."""

import pytest

from benchmarks.step import SHAPES, copies_table, floor_flop, quartiles, ratios


def test_floor_counts_the_products_of_mined_and_of_negative_sampling():
    # S: 256 points, 1024 labels, 512 dimensions; a multiply-add is two operations.
    scores = 2 * 256 * 1024 * 512
    linear = 2 * 256 * 512 * 512
    assert floor_flop(SHAPES["S"], 16) == scores + 3 * linear == 671_088_640
    assert floor_flop(SHAPES["S"], 1) == floor_flop(SHAPES["S"], 16)
    assert floor_flop(SHAPES["S"], 1024) == 3 * scores + 3 * linear == 1_207_959_552


def test_ratios_are_taken_round_by_round():
    # The third round was slow for both, which says nothing of either.
    assert ratios([10, 20, 300], [10, 10, 100]) == pytest.approx((1.5, 2.0, 2.5))
    assert quartiles([4, 1, 2, 3, 5]) == (2, 3, 4)


def test_ratios_need_the_same_rounds():
    with pytest.raises(ValueError):
        ratios([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%copy.1 = f32[5000,512]{1,0} copy(f32[5000,512]{1,0} %p)", True),
        ("%copy.2 = f32[3993,512]{1,0} copy(%p)", True),
        ("%copy.3 = f32[256,512]{1,0} copy(%p)", False),
        ("%fusion = f32[5000,512]{1,0} fusion(%copy.3), kind=kLoop", False),
    ],
)
def test_a_copy_of_a_table_is_found(line, expected):
    assert copies_table(line, SHAPES["S"]) is expected
