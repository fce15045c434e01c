"""Extracts selected files of an untrusted archive under given names."""

from __future__ import annotations

import contextlib
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from snm.data.formats.binary import DAMAGE
from snm.errors import InputError
from snm.system.faults import describe_error
from snm.text import format_bytes

__all__ = ["unpack"]

_PIECE = 1 << 20  # bytes
# An archive may unpack to so many times its size, or to so many bytes: text packs about 10 times, a
# bomb of equal bytes 1000 times.
_MAX_RATIO = 100
_ALWAYS_ALLOWED = 1 << 24
_MEMBERS = 100_000
_DAMAGE = (*DAMAGE, tarfile.TarError, IndexError, struct.error)


def unpack(archive: Path, wanted: dict[str, str], optional: dict[str, str], out: Path) -> None:
    """Extracts files of a zip or tar archive into a folder.

    Args:
      archive: zip or tar; a tar may be compressed by gzip, bzip2 or xz.
      wanted: name of the extracted file -> path in the archive. If the path does not exist, the
        only file with its base name is used.
      optional: the same for files that may be missing.
      out: an existing folder.

    Raises:
      InputError: not an archive; a member whose path leaves the archive's folder; a link or device
        instead of a wanted file; a missing wanted file; or more bytes than an archive of this size
        plausibly holds.
    """
    limit = max(_ALWAYS_ALLOWED, _MAX_RATIO * archive.stat().st_size)
    with _open_archive(archive) as (names, stream_of):
        for name in names:
            path = PurePosixPath(name.replace("\\", "/"))
            if path.is_absolute() or ".." in path.parts or ":" in "".join(path.parts[:1]):
                found = f"a member {ascii(name)[:80]}"
                raise InputError(str(archive), found, "paths inside the archive's own folder")
        for target, path_in_archive in {**wanted, **optional}.items():
            chosen = _choose(archive, names, path_in_archive, needed=target in wanted)
            if chosen is not None:
                limit -= _copy(archive, chosen, stream_of, out / target, limit)


def _choose(archive: Path, names: list[str], path: str, needed: bool) -> str | None:
    """The member for `path`: itself, or the only one with its base name, or None."""
    if path in names:
        return path
    base = PurePosixPath(path).name
    same = [name for name in names if PurePosixPath(name).name == base]
    if len(same) == 1:
        return same[0]
    if needed:
        found = f"{len(same)} files {base}" if same else f"no file {base}"
        listed = ", ".join(name for name in names[:8] if not name.endswith("/"))
        raise InputError(str(archive), found, f"{path} (it holds {listed})")
    return None


def _copy(
    archive: Path, name: str, stream_of: Callable[[str], IO[bytes]], out: Path, limit: int
) -> int:
    """Writes a member to `out`; returns its number of bytes, at most `limit`."""
    written = 0
    try:
        with out.open("wb") as target:
            for piece in _pieces(archive, name, stream_of):
                written += len(piece)
                if written > limit:
                    found = f"more than {limit} bytes in {name}"
                    least = format_bytes(_ALWAYS_ALLOWED)
                    most = f"at most {_MAX_RATIO} times the archive's size, or {least}"
                    expected = f"{most} (decompression bomb?)"
                    raise InputError(str(archive), found, expected)
                target.write(piece)
    except OSError as error:  # of the output: `_pieces` raises none
        reason = describe_error(error)
        raise InputError(str(out), reason, "a folder to write to") from error
    return written


def _pieces(archive: Path, name: str, stream_of: Callable[[str], IO[bytes]]) -> Iterator[bytes]:
    """Reads a member in pieces.

    Raises:
      InputError: it is damaged, or not a regular file.
    """
    try:
        with stream_of(name) as source:
            while piece := source.read(_PIECE):
                yield piece
    except InputError:
        raise
    except _DAMAGE as error:
        found = f"damage in {name} ({error})"
        raise InputError(str(archive), found, "an intact archive") from error


def _check_member_count(archive: Path, count: int) -> None:
    if count > _MEMBERS:
        raise InputError(str(archive), f"over {_MEMBERS:,} members", f"at most {_MEMBERS:,}")


@contextlib.contextmanager
def _open_archive(archive: Path) -> Iterator[tuple[list[str], Callable[[str], IO[bytes]]]]:
    """Yields the names of the files of an archive, and a function that opens one by name."""
    expected = "a zip or tar archive"
    try:
        is_zip, is_tar = zipfile.is_zipfile(archive), tarfile.is_tarfile(archive)
    except _DAMAGE as error:
        raise InputError(str(archive), f"damage ({error})", expected) from error
    try:
        if is_zip:
            with zipfile.ZipFile(archive) as packed:
                names = [info.filename for info in packed.infolist()]
                _check_member_count(archive, len(names))
                names = [name for name in names if name and not name.endswith("/")]

                def from_zip(name: str) -> IO[bytes]:
                    info = packed.getinfo(name)
                    kind = (info.external_attr >> 16) & 0o170000
                    if kind not in (0, 0o100000):  # links are stored as files with another mode
                        raise InputError(f"{archive}: {name}", "a link", "a plain file")
                    return packed.open(info)

                yield names, from_zip
        elif is_tar:
            with tarfile.open(archive) as tar:
                members = {}
                for count, member in enumerate(tar, 1):  # all of them could be too many to hold
                    _check_member_count(archive, count)
                    if not member.isdir():
                        members[member.name] = member

                def from_tar(name: str) -> IO[bytes]:
                    stream = tar.extractfile(members[name]) if members[name].isreg() else None
                    if stream is None:
                        raise InputError(f"{archive}: {name}", "no plain file", "a plain file")
                    return stream

                yield list(members), from_tar
        else:
            raise InputError(str(archive), "another kind of file", expected)
    except InputError:
        raise
    except _DAMAGE as error:
        raise InputError(str(archive), f"damage ({error})", "an intact archive") from error
