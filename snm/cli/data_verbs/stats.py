"""`snm data stats`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Annotated

from tyro.conf import Positional, arg

__all__ = ["Stats"]


@dataclasses.dataclass
class Stats:
    """Describe a data set: the columns of Table 1 of the paper, and more statistics.

    For example:

      snm data stats path/to/eurlex
    """

    data: Annotated[Positional[str], arg(metavar="DATA")]
    """Folder of the data set, or `synthetic`."""
    json: bool = False
    """Print one JSON object."""

    def __call__(self) -> None:
        """Runs the verb."""
        from snm.data.load import load
        from snm.data.statistics import describe
        from snm.system.terminal import console, format_value, make_table, say, waiting

        with waiting(f"reading {self.data}"):
            found = describe(load(self.data))
        if self.json:
            print(json.dumps(found))
            return
        title = found.pop("name", self.data)
        table = make_table(title, [""], [""], no_wrap=True, show_header=False)
        sha256 = found.pop("sha256")
        for name, value in found.items():
            if name == "label_frequency_deciles":
                for what, count in _training_points_of_labels(value):
                    table.add_row(what, count)
            else:
                table.add_row(name.replace("_", " "), format_value(value))
        console.print(table)
        say(f"SHA-256 {sha256}")  # as a whole, which no narrow table has room for


def _training_points_of_labels(deciles: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Rows that say how many training points labels have, from the deciles of that number."""
    yield "training points of a label", ""
    for tenths, count in enumerate(deciles):
        what = f"{10 * tenths}% of the labels have at most"
        if tenths in (0, 10):
            what = "the most frequent label has" if tenths else "the rarest label has"
        yield f"  {what}", f"{count:,}"
