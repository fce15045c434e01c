"""A named data set, from its archive to a folder that `snm.load_data` reads."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from snm.data.formats.dispatch import read_text, write_text
from snm.data.load import load
from snm.data.repository.download import Told, fetch_archive
from snm.data.repository.registry import SIZES, Entry, Mirror
from snm.data.repository.unpack import unpack
from snm.data.statistics import describe
from snm.errors import InputError
from snm.system.cache_folder import folder as cache_folder

__all__ = ["OtherSizesError", "fetch", "git_blob_id", "place_of"]


class OtherSizesError(InputError):
    """The data are not of the registry's sizes: `facts` has what they are."""

    facts: dict[str, Any]


def place_of(entry: Entry) -> Path:
    """The folder in the cache that a set is unpacked into.

    Raises:
      InputError: there is no cache folder.
    """
    cache = cache_folder("default")
    if cache is None:
        raise InputError("SNM_CACHE", "no cache folder", "one, or --out DIR")
    return cache / "datasets" / entry.name


def fetch(
    entry: Entry,
    out: Path,
    told: Told,
    *,
    archive: Path | None = None,
    any_statistics: bool = False,
) -> dict[str, Any]:
    """Downloads (or takes) an archive, unpacks and checks it, and puts the data in their place.

    Args:
      entry: what to fetch.
      out: the folder to make; what is there already is left as it is.
      told: hears of bytes that came.
      archive: a file that is here already.
      any_statistics: keep data whose sizes are not the registry's.

    Returns:
      the columns of Table 1 of the data (`data.stats.describe`).

    Raises:
      InputError: no mirror, a bad archive, files or sizes other than the registry's; then there is
        no folder, and a download that was whole is kept.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    mirrors: tuple[Mirror, ...] = entry.mirrors
    if archive is None:
        downloads = out.parent / ".downloads"
        downloads.mkdir(exist_ok=True)
        mirror, archive = fetch_archive(entry, downloads, told)
        mirrors = (mirror,)
        downloaded = archive
    else:
        downloaded = None
        if not archive.is_file():
            raise InputError(f"--from-file {archive}", "no such file", "an archive")
        mirrors = _fitting(archive, mirrors)
    beside = out.with_name(f".{os.getpid()}.{out.name}")
    try:
        with _removed(beside):
            beside.mkdir()
            _unpack(archive, mirrors, beside)
            facts = describe(load(beside, cache=None))
            _compare(entry, facts, any_statistics)
            beside.rename(out)
    except InputError:
        if downloaded is not None and mirrors[0].hash is None:
            downloaded.unlink(missing_ok=True)  # nothing vouched for it: fetch it anew
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(str(out), reason, "a folder that can be made") from error
    if downloaded is not None:
        downloaded.unlink()
    return facts


@contextlib.contextmanager
def _removed(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fitting(archive: Path, mirrors: tuple[Mirror, ...]) -> tuple[Mirror, ...]:
    """The mirrors whose hash the file has; those without one, where none has it.

    Raises:
      InputError: every mirror has a hash, and the file has none of them.
    """
    found: dict[str, str] = {}
    fitting = []
    for mirror in mirrors:
        if mirror.hash is None:
            continue
        kind, _, wanted = mirror.hash.partition(":")
        if kind not in found:
            with archive.open("rb") as stream:
                found[kind] = hashlib.file_digest(stream, kind).hexdigest()
        if found[kind] == wanted.lower():
            fitting.append(mirror)
    rest = [mirror for mirror in mirrors if mirror.hash is None]
    if not fitting and not rest:
        known = ", ".join(mirror.hash for mirror in mirrors if mirror.hash)
        has = ", ".join(f"{kind}:{value}" for kind, value in found.items())
        raise InputError(f"--from-file {archive}", has, f"an archive with {known}")
    return tuple(fitting or rest)


def _unpack(archive: Path, mirrors: tuple[Mirror, ...], out: Path) -> None:
    """Unpacks by the first mirror's layout that fits."""
    first: InputError | None = None
    for mirror in mirrors:
        try:
            if mirror.split:
                unpack(archive, mirror.split, {}, out)
                _split(out)
            else:
                unpack(archive, mirror.files, mirror.optional, out)
            _check_blobs(archive, mirror, out)
            return
        except InputError as error:
            first = first or error
            for file in out.iterdir():
                file.unlink()
    assert first is not None
    raise first


def _check_blobs(archive: Path, mirror: Mirror, out: Path) -> None:
    for name, wanted in mirror.git_blobs.items():
        found = git_blob_id(out / name)
        if found != wanted:
            raise InputError(str(archive), f"{name} with git blob id {found}", wanted)


def git_blob_id(path: Path) -> str:
    """What `git hash-object` says of a file: the SHA-1 of its length and content."""
    total = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            total.update(piece)
    return total.hexdigest()


def _split(folder: Path) -> None:
    """Makes train.txt and test.txt of a file of points and two files of row numbers."""
    points = folder / "points"
    features, labels = read_text(points)
    for part in ("train", "test"):
        rows = _row_numbers(folder / part, features.shape[0])
        write_text(folder / f"{part}.txt", features[rows], labels[rows])
        (folder / part).unlink()
    points.unlink()


def _row_numbers(path: Path, num_rows: int) -> np.ndarray:
    """The first column, from 1: the other columns are other splits of the same points."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="ascii", errors="replace").split("\n")):
        words = line.split()
        if not words:
            continue
        if not words[0].isdigit() or not 1 <= int(words[0]) <= num_rows:
            found, expected = ascii(words[0][:40]), f"a row from 1 to {num_rows}"
            raise InputError(f"{path.name} split:{number + 1}", found, expected)
        rows.append(int(words[0]) - 1)
    return np.array(rows, np.int64)


def _compare(entry: Entry, facts: dict[str, Any], any_statistics: bool) -> None:
    wrong = [s for s in SIZES if s in entry.statistics and facts[s] != entry.statistics[s]]
    if wrong and not any_statistics:
        has = ", ".join(f"{size.replace('_', ' ')} {facts[size]:,}" for size in SIZES)
        known = [size for size in SIZES if size in entry.statistics]
        wants = ", ".join(f"{size.replace('_', ' ')} {entry.statistics[size]:,}" for size in known)
        error = OtherSizesError(entry.name, has, f"{wants} (--any-statistics keeps it even so)")
        error.facts = facts
        raise error
