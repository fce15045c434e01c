"""The registry of data sets known by name, read from `registry.toml`."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import tomllib
from pathlib import Path

from snm.errors import InputError

__all__ = [
    "PROPENSITY",
    "SIZES",
    "Entry",
    "Mirror",
    "bare_name",
    "entry_like",
    "find",
    "propensity_of",
    "read_registry",
]

PROPENSITY = (0.55, 1.5)
"""A and B of the propensity model of Jain et al. (2016) that most data sets have: the Extreme
Classification Repository uses others for its Wikipedia and Amazon data sets only."""
SIZES = ("features", "labels", "train_points", "test_points")
"""The statistics that `fetch` compares with the data."""


@dataclasses.dataclass(frozen=True)
class Mirror:
    """A place to download an archive from. It has either `url` or `drive`, and `files` or `split`.

    Attributes:
      url: an http or https address, or None.
      drive: id of a file on Google Drive, or None.
      hash: `sha256:...` or `md5:...` of the archive, or None if unknown.
      files: our name of a file -> its path in the archive.
      optional: the same for files that may be missing.
      split: paths in the archive of a file of all `points`, and of the files with the row numbers
        of `train` and `test`.
      git_blobs: our name of a file -> its git blob id, if known.
      verified: whether a download from here was checked by hand.
    """

    url: str | None = None
    drive: str | None = None
    hash: str | None = None
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    optional: dict[str, str] = dataclasses.field(default_factory=dict)
    split: dict[str, str] = dataclasses.field(default_factory=dict)
    git_blobs: dict[str, str] = dataclasses.field(default_factory=dict)
    verified: bool = False

    @property
    def address(self) -> str:
        """The name of the mirror in messages."""
        return self.url or f"Google Drive {self.drive}"


@dataclasses.dataclass(frozen=True)
class Entry:
    """A data set of the registry.

    Attributes:
      name: name in the literature.
      mirrors: mirrors in the order in which to try them.
      aliases: other names.
      statistics: known columns of Table 1 of Reddi et al. (2019).
      statistics_verified: whether they were compared with the data.
      propensity: A and B of the propensity model of Jain et al. (2016).
      licence: licence terms, as far as known.
      cite: publications to cite.
      note: further remarks.
    """

    name: str
    mirrors: tuple[Mirror, ...]
    aliases: tuple[str, ...] = ()
    statistics: dict[str, float] = dataclasses.field(default_factory=dict)
    statistics_verified: bool = False
    propensity: tuple[float, float] = PROPENSITY
    licence: str = ""
    cite: tuple[str, ...] = ()
    note: str = ""


_REGISTRY = Path(__file__).with_name("registry.toml")


@functools.cache
def read_registry(path: Path = _REGISTRY) -> tuple[Entry, ...]:
    """Reads the entries of a registry; CONTRIBUTING.md tries one of its own."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(_entry(table, found.get("licence", "")) for table in found["set"])


def _entry(table: dict, licence: str) -> Entry:
    statistics = dict(table.get("statistics", {}))
    verified = bool(statistics.pop("verified", False))
    a, b = table.get("propensity", PROPENSITY)
    return Entry(
        name=table["name"],
        mirrors=tuple(Mirror(**mirror) for mirror in table["mirror"]),
        aliases=tuple(table.get("aliases", ())),
        statistics=statistics,
        statistics_verified=verified,
        propensity=(float(a), float(b)),
        licence=table.get("licence", licence),
        cite=tuple(table.get("cite", ())),
        note=table.get("note", ""),
    )


def find(name: str) -> Entry:
    """Finds an entry by name or alias, ignoring case.

    Raises:
      InputError: no such entry; the message suggests the nearest name.
    """
    names = {
        word.lower(): entry for entry in read_registry() for word in (entry.name, *entry.aliases)
    }
    if name.lower() in names:
        return names[name.lower()]
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.0)
    raise InputError(name, "no data set of that name", f"for example {names[near[0]].name}")


def entry_like(name: str) -> Entry | None:
    """The entry that data have the name of, or None.

    Args:
      name: of a data set, such as that of its folder. Case and punctuation do not count, and more
        may follow: a folder may be called `Amazon-670K.bow`. An alias must be the whole name.

    Example:
      >>> [entry and entry.name for entry in map(entry_like, ("amazon_670k.bow", "mine"))]
      ['Amazon-670K', None]
    """
    letters = bare_name(name)
    for entry in sorted(read_registry(), key=lambda entry: -len(entry.name)):
        if letters.startswith(bare_name(entry.name)) or letters in map(bare_name, entry.aliases):
            return entry
    return None


def propensity_of(name: str) -> tuple[float, float] | None:
    """A and B of the propensity model of the set that data have the name of, or None.

    Example:
      >>> propensity_of("Amazon-670K.bow"), propensity_of("wikilshtc-325k"), propensity_of("mine")
      ((0.6, 2.6), (0.5, 0.4), None)
    """
    entry = entry_like(name)
    return None if entry is None else entry.propensity


def bare_name(name: str) -> str:
    """A name without case and punctuation."""
    return "".join(letter for letter in name.lower() if letter.isalnum())
