"""Downloads an archive from one of its mirrors with gdown, and checks its hash.

gdown resumes a partial file, in the same call and in a later one. Needs the extra `download`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

from snm.data.repository.registry import Entry, Mirror
from snm.errors import InputError
from snm.system.files.checksums import file_hash
from snm.system.imports import requires_extra

__all__ = ["OnProgress", "fetch_archive", "hashes_of"]

OnProgress = Callable[[int, int | None], None]
"""A progress callback: called with the bytes present and the total, or None if it is unknown."""

_RETRIES = 3  # of a mirror that drops the connection
_TIMEOUT = (15, 60)  # seconds to connect, and between bytes


def fetch_archive(entry: Entry, folder: Path, on_progress: OnProgress) -> tuple[Mirror, Path]:
    """Downloads the archive of a data set from the first mirror that works.

    Args:
      entry: the data set.
      folder: where the archive goes; partial downloads are kept here and resumed.
      on_progress: called with the bytes that are there, and all of them if known.

    Returns:
      the mirror, and the downloaded file.

    Raises:
      InputError: no mirror works. The message lists the failure of each.
    """
    with requires_extra("snm data fetch", "download"):
        import gdown
    failures = []
    for mirror in entry.mirrors:
        # The key keeps a partial download from being resumed from another mirror.
        key = hashlib.sha256(mirror.address.encode()).hexdigest()[:12]
        archive = folder / f"{entry.name}-{key}"
        try:
            gdown.download(
                url=mirror.url,
                id=mirror.drive,
                output=str(archive),
                quiet=True,
                resume=True,
                progress=on_progress,
                timeout=_TIMEOUT,
                retries=_RETRIES,
            )
            if mirror.hash and mirror.hash.lower() not in hashes_of(archive, [mirror.hash]):
                archive.unlink()
                failures.append(f"{mirror.address}: the hash is not {mirror.hash}")
                continue
        except (gdown.exceptions.DownloadError, OSError) as error:  # requests' errors are OSErrors
            failures.append(f"{mirror.address}: {_reason(error)}")
            continue
        return mirror, archive
    tried = "; ".join(failures)
    expected = "a working mirror, or --from-file ARCHIVE"
    raise InputError(entry.name, f"no mirror that works ({tried})", expected)


def hashes_of(archive: Path, known: Iterable[str]) -> list[str]:
    """The hashes of a file, one of each kind that hashes of the registry have: `sha256:...`."""
    kinds = dict.fromkeys(one.partition(":")[0] for one in known)
    return [f"{kind}:{file_hash(archive, kind)}" for kind in kinds]


def _reason(error: Exception) -> str:
    """A short reason for the list of failures."""
    cause = error.__cause__ or error  # of gdown's error after the last retry
    response = getattr(cause, "response", None)
    if response is not None:
        return f"HTTP {response.status_code}"
    # The texts of these two requests exceptions are nested reprs of objects.
    for kind, words in (("Timeout", "no answer in time"), ("ConnectionError", "cannot be reached")):
        if any(base.__name__ == kind for base in type(cause).__mro__):
            return words
    text = str(error).partition(".\nThe received bytes")[0]  # what follows is about gdown's command
    return " ".join(text.split())[:200]
