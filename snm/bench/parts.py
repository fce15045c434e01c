"""The table of benchmarks: part name -> contests, in the order of the data flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from snm.bench.answers import predict_contest, retrieval_contest
from snm.bench.contest import Contest
from snm.bench.files import checkpoint_contest, read_contest
from snm.bench.kernels import bag_contest, draw_contest, score_contest
from snm.bench.rates import MachineRates
from snm.bench.shapes import Shape
from snm.bench.steps import epoch_contest, growth_contest, step_contest

__all__ = ["PARTS"]

PARTS: dict[str, Callable[[Shape, MachineRates], Iterator[Contest]]] = {
    "read": read_contest,
    "sample": draw_contest,
    "bag": bag_contest,
    "score_mine": score_contest,
    "step": step_contest,
    "growth": growth_contest,
    "epoch": epoch_contest,
    "evaluate": retrieval_contest,
    "predict": predict_contest,
    "checkpoint": checkpoint_contest,
}
"""Each yields its contests one at a time, so that the memory of one is freed before the next."""
