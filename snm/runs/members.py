"""The members of a run: their seeds, and the names of their phases."""

from __future__ import annotations

__all__ = ["member_seed", "phase_names"]

_SEED_STEP = 1_000_003  # between members: larger than the seeds that users choose


def member_seed(seed: int, member: int) -> int:
    """The seed of a member, counted from 1, of a run with that seed.

    Example:
      >>> member_seed(7, 1), member_seed(7, 2)
      (7, 1000010)
    """
    return seed + (member - 1) * _SEED_STEP


def phase_names(member: int) -> tuple[str, str]:
    """The phase names of a member: its training, and its refit on all training points.

    Members are counted from 1.

    Example:
      >>> phase_names(1), phase_names(2)
      (('train', 'refit'), ('member-2', 'refit-2'))
    """
    return ("train", "refit") if member == 1 else (f"member-{member}", f"refit-{member}")
