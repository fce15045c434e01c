"""Losses of the classification head: one object per loss, in the table `LOSSES`.

Public: `HeadLoss`, their base class; `TermScores`, its argument; `LOSSES`, the losses by name;
`LossOptions`, their parameters; `SampleSizes`, K, B and k'; `Draw`, the type of random draws.
"""

from snm.losses.sampled.options import LossOptions, SampleSizes
from snm.losses.sampled.protocol import Draw, HeadLoss, TermScores
from snm.losses.sampled.table import LOSSES

__all__ = ["LOSSES", "Draw", "HeadLoss", "LossOptions", "SampleSizes", "TermScores"]
