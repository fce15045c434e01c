"""An archive from one of its mirrors: resumed where it was dropped, checked against its hash.

pooch keeps the order of things (a file appears only when its hash is right); the bytes are
fetched by requests, or by gdown from Google Drive. Extra: `download`.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from snm.data.repository.registry import Entry, Mirror
from snm.errors import InputError

__all__ = ["fetch_archive"]

Told = Callable[[int, int | None], None]

_TRIES = 4  # of a mirror that drops the connection
_PIECE = 1 << 18
_TIMEOUT = (15, 60)  # seconds to connect, and between bytes


def fetch_archive(entry: Entry, folder: Path, told: Told) -> tuple[Mirror, Path]:
    """Downloads the archive of a data set from the first mirror that has it.

    Args:
      entry: what to fetch.
      folder: where the archive goes, and what was fetched of it so far.
      told: hears the bytes that are there, and their number in all where it is known.

    Returns:
      the mirror, and the file.

    Raises:
      InputError: no mirror had it; each is named with what it did.
    """
    try:
        import pooch
        import requests
    except ImportError as error:
        found, expected = "no pooch", "pip install 'snm[download]'"
        raise InputError("snm data fetch", found, expected) from error
    pooch.get_logger().setLevel(logging.ERROR)
    failures = []
    for mirror in entry.mirrors:
        # What was fetched from one address is never continued from another.
        key = hashlib.sha256(mirror.address.encode()).hexdigest()[:12]
        name = f"{entry.name}-{key}"
        part = folder / f"{name}.part"
        downloader = _Downloader(mirror, part, told)
        try:
            found = pooch.retrieve(
                mirror.url or f"https://drive.google.com/uc?id={mirror.drive}",
                known_hash=mirror.hash,
                fname=name,
                path=folder,
                downloader=downloader,
            )
        except (requests.RequestException, OSError, _RefusedError) as error:
            failures.append(f"{mirror.address}: {_said(error)}")
            continue
        except ValueError as error:  # pooch's word for another hash
            if "hash" not in str(error).lower():
                raise
            failures.append(f"{mirror.address}: another hash than {mirror.hash}")
            continue
        return mirror, Path(found)
    tried = "; ".join(failures)
    raise InputError(entry.name, f"no mirror that works ({tried})", "one, or --from-file ARCHIVE")


def _pieces(answer: Any) -> Iterator[bytes]:
    """The body as it comes: a drop costs nothing of what was received before it."""
    import requests
    import urllib3

    try:
        while piece := answer.raw.read1(_PIECE):
            yield piece
    except urllib3.exceptions.HTTPError as error:
        raise requests.ConnectionError(str(error)) from error


class _RefusedError(Exception):
    """What a mirror sent is not the archive."""


def _said(error: Exception) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP {response.status_code}"
    if isinstance(error, _RefusedError):
        return str(error)
    # requests' own words for these two are addresses of objects and nested reprs.
    for kind, words in (("Timeout", "no answer in time"), ("ConnectionError", "cannot be reached")):
        if any(base.__name__ == kind for base in type(error).__mro__):
            return words
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


class _Downloader:
    """What pooch calls: fetches into a part file that outlives a dropped connection."""

    def __init__(self, mirror: Mirror, part: Path, told: Told):
        self._mirror, self._part, self._told = mirror, part, told
        self._mark = part.with_suffix(".mark")  # the server's name for this version of the file

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
                # A drop after some progress is worth another try; none at all hardly is.
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
        # Without a mark nobody could tell whether the rest belongs to what is here.
        headers = {"Range": f"bytes={have}-", "If-Range": mark} if mark else {}
        headers["Accept-Encoding"] = "identity"
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as answer:
            if answer.status_code == 416:  # nothing is left to send
                self._part.unlink(missing_ok=True)
                raise requests.ConnectionError("the part that was here did not fit")
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
                    self._told(have, total)
        if total is not None and have != total:
            raise requests.ConnectionError(f"{have} of {total} bytes")

    def _from_drive(self) -> None:
        try:
            import gdown
        except ImportError as error:
            found, expected = "no gdown", "pip install 'snm[download]'"
            raise InputError("snm data fetch", found, expected) from error
        try:
            gdown.download(
                id=self._mirror.drive,
                output=str(self._part),
                quiet=True,
                resume=True,
                progress=self._told,
            )
        except gdown.exceptions.DownloadError as error:
            raise _RefusedError(" ".join(str(error).split())[:200]) from error
        if not self._part.exists():
            raise _RefusedError("nothing came")
