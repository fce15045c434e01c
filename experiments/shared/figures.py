"""Output of the experiments on the theory: a printed table, its rows as JSON, and an SVG plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from snm.runs.folder import write_json
from snm.system.files.atomic import atomic_file

RESULTS = Path(__file__).parent.parent / "results"
# The Okabe-Ito palette: distinguishable in greyscale and for colour-blind readers.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#555555", "#e69f00", "#56b4e9")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 2)), (0, (7, 2)))
_STYLE: Any = {
    "svg.hashsalt": "snm",
    "svg.fonttype": "none",  # text stays text
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "legend.fontsize": 8,
}
mpl.rcParams.update(_STYLE)


def panels(count: int, *, width: float = 4.2, height: float = 3.2) -> tuple[Figure, Any]:
    """A figure with `count` panels in a row."""
    figure = Figure(figsize=(width * count, height), layout="constrained")
    return figure, figure.subplots(1, count, squeeze=False)[0]


def format_cell(value: Any) -> str:
    """Formats a table cell."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    return "" if value is None else str(value)


def save_results(
    name: str,
    title: str,
    rows: Sequence[dict[str, Any]],
    figure: Figure,
    out: Path = RESULTS,
    **facts: Any,
) -> None:
    """Prints the rows, and writes NAME.json and NAME.svg into the folder `out`."""
    table = Table(title=title, title_justify="left")
    for column in rows[0]:
        words = isinstance(rows[0][column], str)
        table.add_column(column, justify="left" if words else "right")
    for row in rows:
        table.add_row(*(format_cell(value) for value in row.values()))
    Console(width=160).print(table)
    write_json(out / f"{name}.json", {"title": title, **facts, "rows": list(rows)})
    path = out / f"{name}.svg"
    save(figure, path, title)
    print(f"plot in {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


def save(figure: Figure, path: Path, title: str) -> None:
    """Writes an SVG as a whole; the same figure has the same bytes."""
    with atomic_file(path) as partial:
        figure.savefig(partial, format="svg", metadata={"Date": None, "Title": title})
