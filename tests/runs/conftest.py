"""The tiny data set, and an undisturbed run on it, for the tests of faults around a run."""

from small_runs import data, folder, whole

__all__ = ["data", "folder", "whole"]
