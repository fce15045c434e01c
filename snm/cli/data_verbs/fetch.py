"""`snm data list` and `snm data fetch`."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from snm.data.repository.registry import Entry

__all__ = ["Fetch", "List"]


@dataclasses.dataclass
class List:
    """List the public data sets that `snm data fetch` can download.

    For example:

      snm data list
      snm data list --json
    """

    json: bool = False
    """Print JSON, with mirrors, licence notes and citations."""

    def __call__(self) -> None:
        """Runs the verb."""
        _print_list(as_json=self.json)


@dataclasses.dataclass
class Fetch:
    """Download a public data set, check it, and unpack it into the cache.

    If the download was interrupted, the same command resumes it. Other commands then take the name
    as DATA: `snm train NAME --run-dir RUN`. HTTP_PROXY and HTTPS_PROXY set proxies.

    For example:

      snm data fetch EURLex-4K
      snm data fetch Wiki10-31K --out data/wiki10
      snm data fetch EURLex-4K --from-file Eurlex.zip
    """

    name: Annotated[Positional[str], arg(metavar="NAME")]
    """Name of a data set; see `snm data list`."""
    out: Path | None = None
    """Folder to create; by default one in the cache, where other commands find it by name."""
    from_file: Path | None = None
    """Archive that was downloaded before, for machines without a network."""
    any_statistics: bool = False
    """Accept a data set whose sizes differ from the registry's."""

    def __call__(self) -> None:
        """Runs the verb."""
        _run_fetch(self)


def _columns() -> tuple[str, ...]:
    from snm.data.repository.registry import SIZES

    return (*SIZES, "points_per_label", "labels_per_point")


def _print_list(*, as_json: bool) -> None:
    """Prints the registry: the columns of Table 1, and what was verified."""
    from rich.table import Table

    from snm.data.repository.registry import read_registry
    from snm.system.terminal import wide_console

    entries = read_registry()
    if as_json:
        print(json.dumps([dataclasses.asdict(entry) for entry in entries]))
        return
    table = Table(title="data sets by name", title_justify="left")
    table.add_column("name", no_wrap=True)
    for column in _columns():
        table.add_column(column.replace("_", " "), justify="right")
    table.add_column("A, B", no_wrap=True)
    table.add_column("mirrors", justify="right")
    table.add_column("verified")
    table.add_column("cached")
    for entry in entries:
        fetched = any(mirror.verified for mirror in entry.mirrors)
        checked = "sizes" if entry.statistics_verified else "no"
        table.add_row(
            entry.name,
            *(_number(entry.statistics.get(column)) for column in _columns()),
            f"{entry.propensity[0]}, {entry.propensity[1]}",
            str(len(entry.mirrors)),
            "yes" if entry.statistics_verified and fetched else checked,
            "yes" if _is_cached(entry) else "",
        )
    console = wide_console()
    console.print(table)
    console.print(
        "verified: yes, if address, hash and sizes were compared with the archive; sizes, if the "
        "sizes were compared with a copy; no, if the entry may be out of date. --json prints "
        "citations and licence notes too.",
        soft_wrap=True,
    )


def _is_cached(entry: Entry) -> bool:
    """Whether a data set is in the cache, if there is one that can be used."""
    from snm.data.repository.fetch import place_of
    from snm.errors import InputError

    try:
        return place_of(entry).is_dir()
    except InputError:
        return False


def _run_fetch(command: Fetch) -> None:
    """Downloads a data set with a progress bar, and says what to do next.

    Raises:
      InputError: an unknown name, no mirror that answers, or data that differ from the registry's.
    """
    from snm.data.repository.fetch import OtherSizesError, fetch, place_of
    from snm.data.repository.registry import find
    from snm.errors import InputError
    from snm.system.terminal import console, wide_console

    entry = find(command.name)
    out = command.out or place_of(entry)
    if command.out is not None and out.exists():
        raise InputError(f"--out {out}", "a file or folder of that name", "a new folder")
    if out.exists():
        unread = "" if command.from_file is None else f"; {command.from_file} was not read"
        console.print(f"{entry.name} is already in {out}{unread}", soft_wrap=True)
        return
    with _bar(console) as bar:
        task = bar.add_task(entry.name, total=None)

        def on_progress(have: int, total: int | None) -> None:
            bar.update(task, completed=have, total=total)

        try:
            facts = fetch(
                entry,
                out,
                on_progress,
                archive=command.from_file,
                any_statistics=command.any_statistics,
            )
        except OtherSizesError as error:
            bar.stop()
            wide_console().print(_compared(entry, error.facts))
            raise
    wide_console().print(_compared(entry, facts))
    console.print(f"{entry.name} is in {out}", soft_wrap=True)
    if entry.note:
        console.print(f"note: {entry.note}", soft_wrap=True)
    console.print(f"licence: {entry.licence}", soft_wrap=True)
    console.print("please cite: " + "; ".join(entry.cite), soft_wrap=True)
    a, b = entry.propensity
    flags = "" if (a, b) == (0.55, 1.5) else f" --propensity-a {a} --propensity-b {b}"
    data = shlex.quote(str(command.out or entry.name))
    console.print(f"next: snm train {data} --run-dir RUN{flags}", soft_wrap=True)


def _compared(entry: Entry, facts: dict[str, Any]) -> Table:
    from rich.table import Table

    table = Table(title=entry.name, title_justify="left")
    table.add_column("")
    for column in _columns():
        table.add_column(column.replace("_", " "), justify="right")
    table.add_row("registry", *(_number(entry.statistics.get(c)) for c in _columns()))
    table.add_row("found", *(_number(facts[column]) for column in _columns()))
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _bar(console: Console) -> Progress:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

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
