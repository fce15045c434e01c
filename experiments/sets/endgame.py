"""Makes a data set of the chess endgame of king and rook against king.

    python -m experiments.sets.endgame --out krk.csv
    snm data import krk.csv --test-fraction 0.1 --out krk

A text is a position with Black to move: a word for the rank and the file of each piece. Its label
is the number of moves until White mates, or a draw. No piece alone tells it: only all three do. Of
positions that are equal by symmetry there is one, as in the data of Bain (UCI repository, 1994).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from experiments.sets.csv_rows import Row, write_rows
from experiments.shared.command_line import run_command

Position = tuple[int, int, int]
"""The squares 8 * rank + file of White's king, White's rook and Black's king."""

Steps = tuple[frozenset[int], ...]


def main(out: Path) -> None:
    """Writes 28,056 positions as CSV.

    Args:
      out: file to write.
    """
    write_rows(list(rows()), out, "the rules of chess", fewest=1)


def rows() -> Iterator[Row]:
    """Each position that is first among those equal by symmetry, and its label."""
    lost, positions = moves_to_mate()
    for position in filter(_is_first, positions):
        words = [
            f"{piece}{line}{number}"
            for piece, square in zip(("king", "rook", "enemy"), position, strict=True)
            for line, number in zip(("rank", "file"), divmod(square, 8), strict=True)
        ]
        moves = lost.get(position)
        yield " ".join(words), ["draw" if moves is None else f"mate in {moves}"]


def moves_to_mate() -> tuple[dict[Position, int], list[Position]]:
    """White's moves until mate with Black to move, by going back from mate; and all positions.

    Positions that are drawn are not in the first.
    """
    steps = _king_steps()
    replies = {
        (king, rook, other): _replies(king, rook, other, steps)
        for king in range(64)
        for rook in range(64)
        for other in range(64)
        if len({king, rook, other}) == 3 and other not in steps[king]
    }
    new = [p for p, found in replies.items() if not found and p[2] in _reach(p[1], p[0])]
    lost, won = dict.fromkeys(new, 0), set[Position]()
    for moves in range(1, 64):
        winning = {before for after in new for before in _before_white(after, steps)} - won
        won |= winning
        candidates = {
            (king, rook, before) for king, rook, other in winning for before in steps[other]
        }
        new = [
            position
            for position in candidates & replies.keys() - lost.keys()
            if (found := replies[position]) and all((*position[:2], to) in won for to in found)
        ]
        if not new:
            break
        lost.update(dict.fromkeys(new, moves))
    return lost, list(replies)


def _king_steps() -> Steps:
    near = (-1, 0, 1)
    return tuple(
        frozenset(
            8 * (rank + up) + file + right
            for up in near
            for right in near
            if (up or right) and 0 <= rank + up < 8 and 0 <= file + right < 8
        )
        for rank, file in (divmod(square, 8) for square in range(64))
    )


def _reach(rook: int, *blockers: int) -> set[int]:
    """The squares that a rook reaches on an otherwise empty board; blockers are not among them."""
    rank, found = rook // 8, set[int]()
    for line in (
        range(rook + 8, 64, 8),
        range(rook - 8, -1, -8),
        range(rook + 1, 8 * rank + 8),
        range(rook - 1, 8 * rank - 1, -1),
    ):
        for square in line:
            if square in blockers:
                break
            found.add(square)
    return found


def _replies(king: int, rook: int, other: int, steps: Steps) -> list[int]:
    """Where Black's king can go; it may take a rook that the other king does not protect."""
    attacked = _reach(rook, king)
    return [to for to in steps[other] if to not in steps[king] and to not in attacked]


def _before_white(position: Position, steps: Steps) -> Iterator[Position]:
    """The legal positions before a move of White that leads to this one."""
    king, rook, other = position
    for before in steps[king]:
        if (
            before not in (rook, other)
            and before not in steps[other]
            and other not in _reach(rook, before)
        ):
            yield before, rook, other
    for before in _reach(rook, king, other):
        if other not in _reach(before, king):
            yield king, before, other


def _is_first(position: Position) -> bool:
    """White's king is in the quarter of a1, and the first piece off its diagonal is below that."""
    king, rook, other = (divmod(square, 8) for square in position)
    off = [rank - file for rank, file in (king, other, rook) if rank != file]
    return max(king) < 4 and (not off or off[0] < 0)


if __name__ == "__main__":
    run_command(main, description=__doc__)
