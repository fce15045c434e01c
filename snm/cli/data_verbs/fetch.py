"""`snm data list` and `snm data fetch`."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Sequence
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
        """Prints the registry: the columns of Table 1, and what was verified."""
        from snm.data.repository.registry import read_registry
        from snm.system.terminal import say, wide_console

        entries = read_registry()
        if self.json:
            print(json.dumps([dataclasses.asdict(entry) for entry in entries]))
            return
        console = wide_console()
        rows = [_cells(entry) for entry in entries]
        table, left_out = _fitting(rows, console)
        console.print(table)
        if left_out:
            say(f"left out, as the terminal is narrow: {', '.join(left_out)}")
        if "verified" not in left_out:
            say(
                "verified: yes, if address, hash and sizes were compared with the archive; sizes, "
                "if the sizes were compared with a copy; no, if the entry may be out of date."
            )
        say("--json prints all columns, citations and licence notes.")


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
        """Downloads a data set with a progress bar, and says what to do next.

        Raises:
          InputError: an unknown name, no mirror that answers, or data that differ from the
            registry's.
        """
        from snm.data.repository.fetch import OtherSizesError, dataset_folder, fetch
        from snm.data.repository.registry import PROPENSITY, find, propensity_of
        from snm.system.files.checks import check_new
        from snm.system.terminal import say, wide_console

        entry = find(self.name)
        out = self.out or dataset_folder(entry)
        if self.out is not None:
            check_new("--out", out)
        if out.exists():
            unread = "" if self.from_file is None else f"; {self.from_file} was not read"
            say(f"{entry.name} is already in {out}{unread}")
            return
        with _bar() as bar:
            task = bar.add_task(entry.name, total=None)

            def on_progress(have: int, total: int | None) -> None:
                bar.update(task, completed=have, total=total)

            try:
                facts = fetch(
                    entry,
                    out,
                    on_progress,
                    archive=self.from_file,
                    any_statistics=self.any_statistics,
                )
            except OtherSizesError as error:
                bar.stop()
                wide_console().print(_compared(entry, error.facts))
                raise
        wide_console().print(_compared(entry, facts))
        say(f"{entry.name} is in {out}")
        if entry.note:
            say(f"note: {entry.note}")
        say(f"licence: {entry.licence}")
        say("please cite: " + "; ".join(entry.cite))
        a, b = entry.propensity
        # In a folder of another name, `auto` does not find them.
        known = (propensity_of(out.name) or PROPENSITY) == (a, b)
        flags = "" if known else f" --propensity-a {a} --propensity-b {b}"
        data = shlex.quote(str(self.out or entry.name))
        say(f"next: snm train {data} --run-dir RUN{flags}")


def _columns() -> tuple[str, ...]:
    from snm.data.repository.registry import SIZES

    return (*SIZES, "points_per_label", "labels_per_point")


def _cells(entry: Entry) -> dict[str, str]:
    """What the list says of a data set, by the names of its columns."""
    fetched = any(mirror.verified for mirror in entry.mirrors)
    checked = "sizes" if entry.statistics_verified else "no"
    sizes = {
        column.replace("_", " "): _number(entry.statistics.get(column)) for column in _columns()
    }
    return {
        "name": entry.name,
        **sizes,
        "A, B": f"{entry.propensity[0]}, {entry.propensity[1]}",
        "mirrors": str(len(entry.mirrors)),
        "verified": "yes" if entry.statistics_verified and fetched else checked,
        "cached": "yes" if _is_cached(entry) else "",
    }


_BY_USE = (
    "name", "labels", "train points", "features", "test points", "cached", "verified",
    "labels per point", "points per label", "A, B", "mirrors",
)  # fmt: skip


def _fitting(rows: Sequence[dict[str, str]], console: Console) -> tuple[Table, list[str]]:
    """A table of the columns that fit on the console, and the names of those left out.

    The most useful columns are taken. A table of all of them would cut numbers, which are then
    wrong.

    Args:
      rows: cells by the names of the columns, as `_cells`.
      console: what they must fit on.
    """
    from rich.measure import Measurement

    from snm.system.terminal import make_table

    unlimited = console.options.update(width=1 << 16)
    for count in range(len(_BY_USE), 0, -1):
        shown = [name for name in rows[0] if name in _BY_USE[:count]]
        table = make_table("data sets by name")
        for name in shown:
            words = name if name == "A, B" else name.replace(" ", "\n")
            right = name not in ("name", "A, B", "verified", "cached")
            table.add_column(words, justify="right" if right else "left", no_wrap=True)
        for row in rows:
            table.add_row(*(row[name] for name in shown))
        if Measurement.get(console, unlimited, table).maximum <= console.width:
            break
    return table, [name for name in rows[0] if name not in shown]


def _is_cached(entry: Entry) -> bool:
    """Whether a data set is in the cache, if there is one that can be used."""
    from snm.data.repository.fetch import dataset_folder
    from snm.errors import InputError

    try:
        return dataset_folder(entry).is_dir()
    except InputError:
        return False


def _compared(entry: Entry, facts: dict[str, Any]) -> Table:
    """The sizes of the registry and of the data, side by side: narrow, so that none is cut."""
    from snm.system.terminal import make_table

    table = make_table(entry.name, [""], ["registry", "found"], no_wrap=True)
    for column in _columns():
        known = _number(entry.statistics.get(column))
        table.add_row(column.replace("_", " "), known, _number(facts[column]))
    return table


def _number(value: float | None) -> str:
    from snm.system.terminal import format_value

    return "?" if value is None else format_value(value)


def _bar() -> Progress:
    from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

    from snm.system.terminal import make_bar

    return make_bar(BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
