"""Losses that the classification head trains: one object each, looked up in one table.

Public: `HeadLoss`, what the head asks of a loss; `TermScores`, what it passes; `LOSSES`, by name;
`LossOptions`, their parameters, with the `SampleSizes`; `Draw`, of their random draws.
"""

from snm.losses.sampled.options import LossOptions, SampleSizes
from snm.losses.sampled.protocol import Draw, HeadLoss, TermScores
from snm.losses.sampled.table import LOSSES

__all__ = ["LOSSES", "Draw", "HeadLoss", "LossOptions", "SampleSizes", "TermScores"]
