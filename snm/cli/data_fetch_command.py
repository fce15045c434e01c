"""`snm data list` and `snm data fetch` on the command line; the heavy parts are imported late."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

__all__ = ["Fetch", "List"]


@dataclasses.dataclass
class List:
    """List the data sets that `snm data fetch` knows by name.

    For example:

      snm data list
      snm data list --json
    """

    json: bool = False
    """Print JSON, with mirrors, licence notes and citations."""

    def __call__(self) -> None:
        """Runs it."""
        from snm.cli.data_fetch import print_list

        print_list(as_json=self.json)


@dataclasses.dataclass
class Fetch:
    """Download a data set by name, check it, and unpack it into the cache.

    An interrupted download goes on where it stopped. From then on the name stands for the data:
    `snm train NAME --run-dir RUN`. Proxies are taken from HTTP_PROXY and HTTPS_PROXY.

    For example:

      snm data fetch EURLex-4K
      snm data fetch Wiki10-31K --out data/wiki10
      snm data fetch EURLex-4K --from-file Eurlex.zip
    """

    name: Annotated[Positional[str], arg(metavar="NAME")]
    """A name of `snm data list`."""
    out: Path | None = None
    """Folder to make; by default one in the cache, where the name finds it."""
    from_file: Path | None = None
    """An archive that is here already, for machines without a network."""
    any_statistics: bool = False
    """Keep the set though its sizes are not those of the registry."""

    def __call__(self) -> None:
        """Runs it."""
        from snm.cli.data_fetch import run_fetch

        run_fetch(self)
