"""The members of a run: their seeds, and the names of their phases."""

from __future__ import annotations

__all__ = ["member_seed", "refit_phase", "train_phase"]

_SEED_STEP = 1_000_003  # between members: larger than the seeds that users choose


def member_seed(seed: int, member: int) -> int:
    """The seed of a member, counted from 1, of a run with that seed.

    Example:
      >>> member_seed(7, 1), member_seed(7, 2)
      (7, 1000010)
    """
    return seed + (member - 1) * _SEED_STEP


def train_phase(member: int) -> str:
    """The name of the first phase of a member, counted from 1.

    Example:
      >>> train_phase(1), train_phase(2)
      ('train', 'member-2')
    """
    return "train" if member == 1 else f"member-{member}"


def refit_phase(member: int) -> str:
    """The name of the phase that trains a member, counted from 1, again on all training points.

    Example:
      >>> refit_phase(1), refit_phase(2)
      ('refit', 'refit-2')
    """
    return "refit" if member == 1 else f"refit-{member}"
