"""Downloads an archive from one of its mirrors, resumes after a dropped connection, checks hashes.

pooch places a file only after its hash was verified. requests transfers the bytes, or gdown from
Google Drive. Needs the extra `download`.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from snm.data.repository.registry import Entry, Mirror
from snm.errors import InputError
from snm.system.imports import requires_extra
from snm.text import first_line

__all__ = ["fetch_archive"]

OnProgress = Callable[[int, int | None], None]
"""A progress callback: called with the bytes present and the total, or None if it is unknown."""

_TRIES = 4  # attempts per mirror that drops the connection
_PIECE = 1 << 18  # bytes
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
        import pooch
        import requests
    pooch.get_logger().setLevel(logging.ERROR)
    failures = []
    for mirror in entry.mirrors:
        # The key keeps a partial download from being resumed from another mirror.
        key = hashlib.sha256(mirror.address.encode()).hexdigest()[:12]
        name = f"{entry.name}-{key}"
        part = folder / f"{name}.part"
        downloader = _Downloader(mirror, part, on_progress)
        try:
            found = pooch.retrieve(
                mirror.url or f"https://drive.google.com/uc?id={mirror.drive}",
                known_hash=mirror.hash,
                fname=name,
                path=folder,
                downloader=downloader,
            )
        except (requests.RequestException, OSError, _RefusedError) as error:
            failures.append(f"{mirror.address}: {_reason(error)}")
            continue
        except ValueError as error:  # pooch raises it for a wrong hash
            if "hash" not in str(error).lower():
                raise
            failures.append(f"{mirror.address}: the hash is not {mirror.hash}")
            continue
        return mirror, Path(found)
    tried = "; ".join(failures)
    expected = "a working mirror, or --from-file ARCHIVE"
    raise InputError(entry.name, f"no mirror that works ({tried})", expected)


def _pieces(answer: Any) -> Iterator[bytes]:
    """Yields the body as it arrives, so that a dropped connection loses no received bytes."""
    import requests
    import urllib3

    try:
        while piece := answer.raw.read1(_PIECE):
            yield piece
    except urllib3.exceptions.HTTPError as error:
        raise requests.ConnectionError(str(error)) from error


class _RefusedError(Exception):
    """A mirror answered with something other than the archive."""


def _reason(error: Exception) -> str:
    """A short reason for the list of failures."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP {response.status_code}"
    if isinstance(error, _RefusedError):
        return str(error)
    # The texts of these two requests exceptions are nested reprs of objects.
    for kind, words in (("Timeout", "no answer in time"), ("ConnectionError", "cannot be reached")):
        if any(base.__name__ == kind for base in type(error).__mro__):
            return words
    kind, text = type(error).__name__, first_line(error)
    return kind if text == kind else f"{kind}: {text}"


class _Downloader:
    """The downloader that pooch calls: writes a part file, and resumes it in the next attempt.

    Args:
      mirror: where to download from.
      part: the part file.
      on_progress: called with the bytes that are there, and all of them if known.
    """

    def __init__(self, mirror: Mirror, part: Path, on_progress: OnProgress):
        self._mirror, self._part, self._on_progress = mirror, part, on_progress
        # The ETag or Last-Modified of the partly downloaded version.
        self._mark = part.with_suffix(".mark")

    def __call__(self, url: str, output_file: Any, pooch: Any) -> None:
        import requests

        for attempt in range(_TRIES):
            before = self._size()
            try:
                if self._mirror.drive is not None:
                    self._from_drive()
                else:
                    self._over_http(url)
                break
            except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError,
                    requests.Timeout):  # fmt: skip
                # Retry after progress; without any, retry only once.
                if attempt == _TRIES - 1 or (self._size() == before and attempt):
                    raise
        self._part.replace(output_file)
        self._mark.unlink(missing_ok=True)

    def _size(self) -> int:
        return self._part.stat().st_size if self._part.exists() else 0

    def _over_http(self, url: str) -> None:
        import requests

        have = self._size()
        mark = self._mark.read_text(encoding="utf-8") if have and self._mark.exists() else ""
        # Resume only with If-Range: the file on the server may have changed since.
        headers = {"Range": f"bytes={have}-", "If-Range": mark} if mark else {}
        headers["Accept-Encoding"] = "identity"
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as answer:
            if answer.status_code == 416:  # the part is not shorter than the file on the server
                self._part.unlink(missing_ok=True)
                raise requests.ConnectionError("the partial download does not fit the file")
            answer.raise_for_status()
            if answer.headers.get("Content-Type", "").startswith("text/html"):
                raise _RefusedError("a web page instead of an archive")
            resumed = answer.status_code == 206
            if not resumed:
                have = 0
            length = answer.headers.get("Content-Length")
            total = have + int(length) if length and length.isdigit() else None
            etag = answer.headers.get("ETag", "")
            new_mark = answer.headers.get("Last-Modified", "") if etag[:2] in ("", "W/") else etag
            self._mark.write_text(new_mark, encoding="utf-8")
            with self._part.open("ab" if resumed else "wb") as out:
                for piece in _pieces(answer):
                    out.write(piece)
                    have += len(piece)
                    self._on_progress(have, total)
        if total is not None and have != total:
            raise requests.ConnectionError(f"{have} of {total} bytes")

    def _from_drive(self) -> None:
        with requires_extra("snm data fetch", "download"):
            import gdown
        try:
            gdown.download(
                id=self._mirror.drive,
                output=str(self._part),
                quiet=True,
                resume=True,
                progress=self._on_progress,
            )
        except gdown.exceptions.DownloadError as error:
            raise _RefusedError(" ".join(str(error).split())[:200]) from error
        if not self._part.exists():
            raise _RefusedError("no file was downloaded")
