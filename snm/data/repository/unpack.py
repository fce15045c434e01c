"""Files out of an archive that is not trusted: those that are asked for, under our own names."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from snm.errors import InputError

__all__ = ["unpack"]

_PIECE = 1 << 20
_RATIO, _ROOM = 60, 1 << 28  # text packs to a fifth or so; anything near this ratio is a bomb
_MEMBERS = 100_000
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, gzip.BadGzipFile, lzma.LZMAError,
           EOFError, NotImplementedError, RuntimeError, OSError)  # fmt: skip


def unpack(archive: Path, wanted: dict[str, str], optional: dict[str, str], out: Path) -> None:
    """Writes files of a zip or tar archive into a folder.

    Args:
      archive: zip, or tar (also packed by gzip, bzip2 or xz).
      wanted: our name -> path in the archive; a file of that base name, if there is one only,
        does as well.
      optional: the same for files that need not be there.
      out: an existing folder.

    Raises:
      InputError: no archive, a member whose path leaves the archive's own folder, a link or device
        in the place of a wanted file, a wanted file that is missing, or more bytes than such an
        archive can honestly hold.
    """
    limit = _RATIO * archive.stat().st_size + _ROOM
    with _opened(archive) as (names, stream_of):
        if len(names) > _MEMBERS:
            raise InputError(str(archive), f"{len(names)} members", f"at most {_MEMBERS}")
        for name in names:
            path = PurePosixPath(name.replace("\\", "/"))
            if path.is_absolute() or ".." in path.parts or ":" in "".join(path.parts[:1]):
                found = f"a member {ascii(name)[:80]}"
                raise InputError(str(archive), found, "paths inside the archive's own folder")
        for ours, theirs in {**wanted, **optional}.items():
            chosen = _choose(archive, names, theirs, needed=ours in wanted)
            if chosen is not None:
                limit -= _copy(archive, chosen, stream_of, out / ours, limit)


def _choose(archive: Path, names: list[str], path: str, needed: bool) -> str | None:
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
    written = 0
    try:
        with stream_of(name) as source, out.open("wb") as target:
            while piece := source.read(_PIECE):
                written += len(piece)
                if written > limit:
                    found = f"{name}, over {limit} bytes so far"
                    raise InputError(str(archive), found, "a size that its archive can hold")
                target.write(piece)
    except InputError:
        raise
    except _DAMAGE as error:
        raise InputError(str(archive), f"damage in {name} ({error})", "a whole archive") from error
    return written


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[tuple[list[str], Callable[[str], IO[bytes]]]]:
    """Names of the files of an archive, and what opens one of them."""
    expected = "a zip or tar archive"
    try:
        is_zip, is_tar = zipfile.is_zipfile(archive), tarfile.is_tarfile(archive)
    except _DAMAGE as error:
        raise InputError(str(archive), f"damage ({error})", expected) from error
    try:
        if is_zip:
            with zipfile.ZipFile(archive) as packed:
                names = [info.filename for info in packed.infolist() if not info.is_dir()]

                def from_zip(name: str) -> IO[bytes]:
                    info = packed.getinfo(name)
                    kind = (info.external_attr >> 16) & 0o170000
                    if kind not in (0, 0o100000):  # links are stored as files with another mode
                        raise InputError(f"{archive}: {name}", "a link", "a plain file")
                    return packed.open(info)

                yield names, from_zip
        elif is_tar:
            with tarfile.open(archive) as tar:
                members = {m.name: m for m in tar.getmembers() if not m.isdir()}

                def from_tar(name: str) -> IO[bytes]:
                    stream = tar.extractfile(members[name]) if members[name].isreg() else None
                    if stream is None:
                        raise InputError(f"{archive}: {name}", "no plain file", "a plain file")
                    return stream

                yield list(members), from_tar
        else:
            raise InputError(str(archive), "something else", expected)
    except InputError:
        raise
    except _DAMAGE as error:
        raise InputError(str(archive), f"damage ({error})", "a whole archive") from error
