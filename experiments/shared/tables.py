"""Prints a table of the runs of an experiment: a line for each group, such as all seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

__all__ = ["averaged", "print_groups"]

Runs = list[dict[str, Any]]
Column = Callable[[Runs], str]
"""The cell of a group of runs."""


def print_groups(
    title: str, runs: Runs, by: Mapping[str, str], columns: Mapping[str, Column], width: int = 100
) -> None:
    """Prints a line for each group of runs, in the order of their first runs.

    Args:
      title: of the table.
      runs: all runs.
      by: heading -> key of a run; the runs of a group have the same values of these.
      columns: heading -> cell of a group.
      width: characters of a line.
    """
    groups: dict[tuple[Any, ...], Runs] = {}
    for run in runs:
        groups.setdefault(tuple(run[key] for key in by.values()), []).append(run)
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(by):
        numbers = all(isinstance(values[number], int) for values in groups)
        table.add_column(heading, justify="right" if numbers else "left", no_wrap=True)
    for heading in columns:
        table.add_column(heading, justify="right")
    for values, group in groups.items():
        table.add_row(*map(str, values), *(cell(group) for cell in columns.values()))
    Console(width=width).print(table)


def averaged(
    *keys: str, form: str = ".2f", average: Callable[[Sequence[float]], Any] = np.mean
) -> Column:
    """A column of means over the runs of a group; empty where no run has the value.

    Args:
      *keys: of the value, such as `metrics` and `P@1`.
      form: format of the mean.
      average: the mean, or for example the median.
    """

    def cell(runs: Runs) -> str:
        values = [value for run in runs if (value := _value(run, keys)) is not None]
        return f"{average(values):{form}}" if values else ""

    return cell


def _value(run: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        if run is not None:
            run = run.get(key)
    return run
