"""Addresses in object stores, and the packages that speak to each kind of store."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import re
from pathlib import Path
from typing import Any

from snm.errors import InputError

__all__ = ["KINDS", "Address", "Kind"]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of store.

    Attributes:
      package: what fsspec needs to speak to it.
      extra: the extra of snm that installs it.
    """

    package: str
    extra: str


KINDS = {"gs": Kind("gcsfs", "gcs"), "s3": Kind("s3fs", "s3")}
"""Scheme of an address -> its kind of store."""

# `Path` makes one slash of two, and command lines make paths of what they read.
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/{1,2}(?!/)(.*)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Address:
    """A folder in an object store.

    Attributes:
      scheme: of `KINDS`.
      path: the bucket and the names below it, without slashes at the ends.

    Example:
      >>> str(Address.of(Path("gs://bucket/runs/a"))), Address.of("runs/a")
      ('gs://bucket/runs/a', None)
    """

    scheme: str
    path: str

    @classmethod
    def of(cls, place: object) -> Address | None:
        """The address that a text or path is; None if it is a path of this machine.

        Raises:
          InputError: an address without a bucket or without a folder in it.
        """
        found = _ADDRESS.fullmatch(str(place)) if isinstance(place, str | Path) else None
        if found is None or found[1] not in KINDS:
            return None
        parts = [part for part in found[2].split("/") if part]
        if len(parts) < 2 or ".." in parts:
            expected = f"{found[1]}://BUCKET/FOLDER"
            raise InputError(str(place), "no folder in a bucket", expected)
        return cls(found[1], "/".join(parts))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.path}"

    def __truediv__(self, name: str) -> Address:
        return Address(self.scheme, f"{self.path}/{name}")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def key(self) -> str:
        """A name for files of this machine that belong to this address."""
        return hashlib.sha256(str(self).encode()).hexdigest()[:16]

    def filesystem(self) -> Any:
        """What fsspec has for this kind of store, without a cache of listings.

        Raises:
          InputError: a package is not installed.
        """
        kind = KINDS[self.scheme]
        try:
            import fsspec

            log = logging.getLogger(kind.package)
            if log.level == logging.NOTSET:  # tracebacks of what is tried again
                log.setLevel(logging.CRITICAL)
            return fsspec.filesystem(self.scheme, use_listings_cache=False)
        except ImportError as error:
            found = f"no package {kind.package}"
            raise InputError(str(self), found, f"pip install 'snm[{kind.extra}]'") from error
