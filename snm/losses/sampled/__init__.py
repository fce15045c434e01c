"""Losses that the classification head trains: one object each, looked up in one table.

Public: `HeadLoss`, what the head asks of a loss; `TermScores`, what it passes; `LOSSES`, by name.
"""

from snm.losses.sampled.protocol import HeadLoss, TermScores
from snm.losses.sampled.table import LOSSES

__all__ = ["LOSSES", "HeadLoss", "TermScores"]
