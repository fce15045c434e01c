"""Losses that the classification head trains: one object each, looked up in one table.

Public: `HeadLoss`, what the head asks of a loss; `TermScores`, what it passes; `LOSSES`, by name;
`LossOptions`, their parameters.
"""

from snm.losses.sampled.options import LossOptions
from snm.losses.sampled.protocol import HeadLoss, TermScores
from snm.losses.sampled.table import LOSSES

__all__ = ["LOSSES", "HeadLoss", "LossOptions", "TermScores"]
