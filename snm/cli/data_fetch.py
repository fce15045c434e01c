"""What `snm data list` and `snm data fetch` show."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from snm.cli.data_fetch_command import Fetch
from snm.data.repository.fetch import OtherSizesError, fetch, place_of
from snm.data.repository.registry import SIZES, Entry, find, read_registry

__all__ = ["print_list", "run_fetch"]

_COLUMNS = (*SIZES, "points_per_label", "labels_per_point")


def print_list(*, as_json: bool) -> None:
    """Prints the registry: Table 1's columns, and what was checked."""
    entries = read_registry()
    if as_json:
        print(json.dumps([dataclasses.asdict(entry) for entry in entries]))
        return
    table = Table(title="data sets by name", title_justify="left")
    table.add_column("name", no_wrap=True)
    for column in _COLUMNS:
        table.add_column(column.replace("_", " "), justify="right")
    table.add_column("A, B", no_wrap=True)
    table.add_column("mirrors", justify="right")
    table.add_column("verified")
    table.add_column("here")
    for entry in entries:
        fetched = any(mirror.verified for mirror in entry.mirrors)
        checked = "sizes" if entry.statistics_verified else "no"
        table.add_row(
            entry.name,
            *(_number(entry.statistics.get(column)) for column in _COLUMNS),
            f"{entry.propensity[0]}, {entry.propensity[1]}",
            str(len(entry.mirrors)),
            "yes" if entry.statistics_verified and fetched else checked,
            "yes" if place_of(entry).is_dir() else "",
        )
    console = _console(wide=True)
    console.print(table)
    console.print(
        "verified: whether somebody compared address, hash and sizes with the archive itself, or "
        "the sizes with a copy; what is not may be out of date. Citations, licence notes: --json.",
        soft_wrap=True,
    )


def run_fetch(command: Fetch) -> None:
    """Fetches a set, with a progress bar, and says what to do next.

    Raises:
      InputError: no such set, no mirror, or data other than the registry's.
    """
    entry = find(command.name)
    out = command.out or place_of(entry)
    console = _console()
    if out.exists():
        console.print(f"{entry.name} is here already: {out}", soft_wrap=True)
        return
    with _bar(console) as bar:
        task = bar.add_task(entry.name, total=None)

        def told(have: int, total: int | None) -> None:
            bar.update(task, completed=have, total=total)

        try:
            facts = fetch(
                entry,
                out,
                told,
                archive=command.from_file,
                any_statistics=command.any_statistics,
            )
        except OtherSizesError as error:
            bar.stop()
            _console(wide=True).print(_compared(entry, error.facts))
            raise
    _console(wide=True).print(_compared(entry, facts))
    console.print(f"{entry.name} is in {out}", soft_wrap=True)
    if entry.note:
        console.print(f"note: {entry.note}", soft_wrap=True)
    console.print(f"licence: {entry.licence}", soft_wrap=True)
    console.print("please cite: " + "; ".join(entry.cite), soft_wrap=True)
    a, b = entry.propensity
    flags = "" if (a, b) == (0.55, 1.5) else f" --propensity-a {a} --propensity-b {b}"
    data: str | Path = command.out or entry.name
    console.print(f"next: snm train {data} --run-dir RUN{flags}", soft_wrap=True)


def _compared(entry: Entry, facts: dict[str, Any]) -> Table:
    table = Table(title=entry.name, title_justify="left")
    table.add_column("")
    for column in _COLUMNS:
        table.add_column(column.replace("_", " "), justify="right")
    table.add_row("registry", *(_number(entry.statistics.get(c)) for c in _COLUMNS))
    table.add_row("found", *(_number(facts[column]) for column in _COLUMNS))
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _console(wide: bool = False) -> Console:
    """Tables keep their columns where there is no terminal to fit them to."""
    console = Console(highlight=False, markup=False)
    if wide and not console.is_terminal:
        return Console(highlight=False, markup=False, width=140)
    return console


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
