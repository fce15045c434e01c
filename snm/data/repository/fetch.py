"""Fetches a named data set: downloads, unpacks and checks it, and moves it into the cache."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from pathlib import Path
from typing import Any

from snm.data.formats.split_files import SplitFiles
from snm.data.load import load
from snm.data.repository.download import OnProgress, fetch_archive, hashes_of
from snm.data.repository.registry import SIZES, Entry, Mirror
from snm.data.repository.unpack import unpack
from snm.data.split import write_parts
from snm.data.statistics import describe
from snm.errors import InputError
from snm.system.faults import describe_error
from snm.system.files.atomic import atomic_folder, make_folder
from snm.system.files.cache_folder import cache_folder
from snm.system.files.locks import locked

__all__ = ["OtherSizesError", "dataset_folder", "fetch", "git_blob_id"]


class OtherSizesError(InputError):
    """The sizes of the data differ from the registry's.

    Attributes:
      facts: the statistics of the data (`snm.data.statistics.describe`).
    """

    facts: dict[str, Any]


def dataset_folder(entry: Entry) -> Path:
    """The cache folder of a data set.

    Raises:
      InputError: caching is disabled.
    """
    cache = cache_folder()
    if cache is None:
        raise InputError("SNM_CACHE", "no cache folder", "a cache folder, or --out DIR")
    return cache / "datasets" / entry.name


def fetch(
    entry: Entry,
    out: Path,
    on_progress: OnProgress,
    *,
    archive: Path | None = None,
    any_statistics: bool = False,
) -> dict[str, Any]:
    """Downloads an archive (or takes a local one), unpacks and checks it, and creates the folder.

    Args:
      entry: the data set.
      out: the folder to create; it must not exist.
      on_progress: called with the bytes that are there, and all of them if known.
      archive: a local archive, used instead of a download.
      any_statistics: whether to accept sizes other than the registry's.

    Returns:
      the statistics of the data (`snm.data.statistics.describe`).

    Raises:
      InputError: no working mirror, a bad archive, files or sizes other than the registry's, or a
        folder that cannot be created.
        Then the folder is not created. A download whose hash was verified is kept.
    """
    downloads = out.parent / ".downloads"
    try:
        make_folder(out.parent)
        if archive is None:
            downloads.mkdir(exist_ok=True)
    except OSError as error:
        found, expected = describe_error(error), "a folder that can be created"
        raise InputError(f"--out {out}", found, expected) from error
    try:
        mirrors, downloaded = entry.mirrors, None
        if archive is None:
            mirror, downloaded = _download(entry, downloads, on_progress)
            mirrors, archive = (mirror,), downloaded
        elif archive.is_file():
            mirrors = _matching_mirrors(archive, mirrors)
        else:
            raise InputError(f"--from-file {archive}", "no such file", "an archive")
        try:
            with atomic_folder("--out", out) as temporary:
                _unpack(archive, mirrors, temporary)
                facts = describe(load(temporary, cache=None))
                _check_sizes(entry, facts, any_statistics)
        except InputError:
            if downloaded is not None and mirrors[0].hash is None:
                downloaded.unlink(missing_ok=True)  # no hash verified it: download it again
            raise
        if downloaded is not None:
            downloaded.unlink()
        return facts
    finally:
        with contextlib.suppress(OSError):  # it holds a part that a later call resumes
            downloads.rmdir()


def _download(entry: Entry, folder: Path, on_progress: OnProgress) -> tuple[Mirror, Path]:
    """As `fetch_archive`, while no other process writes to its partial file."""
    lock = folder / f"{entry.name}.lock"
    with locked(lock, str(folder)):
        if not lock.exists():  # the file of another, which has just ended
            found = "a download that another process has just ended"
            raise InputError(str(folder), found, "the same command again")
        try:
            return fetch_archive(entry, folder, on_progress)
        finally:
            lock.unlink(missing_ok=True)


def _matching_mirrors(archive: Path, mirrors: tuple[Mirror, ...]) -> tuple[Mirror, ...]:
    """The mirrors whose hash matches the archive; if there is none, the mirrors without a hash.

    Raises:
      InputError: every mirror has a hash, and none matches the archive.
    """
    known = [mirror.hash for mirror in mirrors if mirror.hash is not None]
    hashes = hashes_of(archive, known)
    matching = tuple(one for one in mirrors if one.hash is not None and one.hash.lower() in hashes)
    unhashed = tuple(one for one in mirrors if one.hash is None)
    if not matching and not unhashed:
        expected = f"an archive with {', '.join(known)}"
        raise InputError(f"--from-file {archive}", ", ".join(hashes), expected)
    return matching or unhashed


def _unpack(archive: Path, mirrors: tuple[Mirror, ...], out: Path) -> None:
    """Unpacks with the file names of the first mirror whose names the archive has."""
    first_error: InputError | None = None
    for mirror in mirrors:
        try:
            if mirror.split:
                _write_split(archive, mirror, out)
            else:
                unpack(archive, mirror.files, mirror.optional, out)
            _check_blobs(archive, mirror, out)
            return
        except InputError as error:
            first_error = first_error or error
            for file in out.iterdir():
                file.unlink()
    assert first_error is not None
    raise first_error


def _check_blobs(archive: Path, mirror: Mirror, out: Path) -> None:
    for name, expected in mirror.git_blobs.items():
        blob_id = git_blob_id(out / name)
        if blob_id != expected:
            raise InputError(str(archive), f"{name} with git blob id {blob_id}", expected)


def git_blob_id(path: Path) -> str:
    """The id that `git hash-object` prints for a file: the SHA-1 of its length and content."""
    total = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            total.update(piece)
    return total.hexdigest()


def _write_split(archive: Path, mirror: Mirror, out: Path) -> None:
    """Writes train.txt and test.txt from a file of points and two files of row numbers.

    The first column of these files is the split; the others are further ones of the same points.
    """
    with tempfile.TemporaryDirectory(dir=out) as folder:
        unpacked = Path(folder)
        unpack(archive, mirror.split, {}, unpacked)
        files = SplitFiles(*(unpacked / name for name in SplitFiles._fields))
        try:
            write_parts(files, out)
        except InputError as error:
            where = error.where
            for name, path in mirror.split.items():
                where = where.replace(str(unpacked / name), path)
            raise InputError(where, error.found, error.expected) from error


def _check_sizes(entry: Entry, facts: dict[str, Any], any_statistics: bool) -> None:
    differing = [s for s in SIZES if s in entry.statistics and facts[s] != entry.statistics[s]]
    if differing and not any_statistics:
        has = ", ".join(f"{size.replace('_', ' ')} {facts[size]:,}" for size in SIZES)
        known = [size for size in SIZES if size in entry.statistics]
        wants = ", ".join(f"{size.replace('_', ' ')} {entry.statistics[size]:,}" for size in known)
        error = OtherSizesError(entry.name, has, f"{wants} (--any-statistics accepts other sizes)")
        error.facts = facts
        raise error
