"""The endgame of king and rook against king."""

from collections import Counter

import pytest

from experiments.sets.endgame import rows

BAIN = (27, 78, 246, 81, 198, 471, 592, 683, 1433, 1712, 1985, 2854, 3597, 4194, 4553, 2166, 390)
"""Positions with mate in 0, 1, ... 16 in the documentation of the UCI data; 2796 are drawn."""


@pytest.mark.slow
def test_positions_are_those_of_the_literature() -> None:
    found = list(rows())
    assert len({text for text, _ in found}) == len(found) == 28_056
    assert {len(text.split()) for text, _ in found} == {6}
    counts = Counter(labels[0] for _, labels in found)
    assert counts == {f"mate in {moves}": count for moves, count in enumerate(BAIN)} | {
        "draw": 2796
    }
