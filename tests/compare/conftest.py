"""A small data set, which no test of comparisons changes."""

from small_runs import data as dataset
from small_runs import folder

__all__ = ["dataset", "folder"]
