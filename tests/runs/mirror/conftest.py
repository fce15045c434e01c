"""The folder of the tiny data set, which these tests call `data`."""

from small_runs import folder as data

__all__ = ["data"]
