"""Addresses in object stores, and the packages that speak to each kind of store."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import re
from pathlib import Path
from typing import Any

from snm.errors import InputError, pip_install

__all__ = ["KINDS", "Address", "Kind", "absolute", "in_words", "without_secrets"]


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
_LONGEST = 300  # characters of an error of a store that are printed
# Names of values that nobody else may see, in addresses and in the errors of stores' packages.
_SECRET = re.compile(
    r"""((?:key|token|secret|password|signature|credential|upload_?id)[\w-]*["']?\s*[=:]\s*["']?)"""
    r"""[^\s&"',;)]+""",
    re.IGNORECASE,
)
_USER = re.compile(r"(:/{1,2})[^/\s@]*@")


def without_secrets(text: str) -> str:
    """A text without users and passwords of addresses, and values that are named as secret.

    Example:
      >>> without_secrets("https://me:pw@host/a?token=x&n=1")
      'https://***@host/a?token=***&n=1'
    """
    return _SECRET.sub(r"\1***", _USER.sub(r"\1***@", text))


def absolute(place: str | Path) -> str:
    """An absolute path of what is there; an address or the name of what is not there stays.

    Raises:
      InputError: as `Address.of`.
    """
    if (address := Address.of(place)) is not None:
        return str(address)
    return str(Path(place).resolve()) if Path(place).exists() else str(place)


def in_words(error: Exception) -> str:
    """An error of a store's package in one line, without secrets."""
    text = " ".join(without_secrets(str(error)).split())[:_LONGEST]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


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
          InputError: an address without a bucket or without a folder in it, or with a user, a
            password or a query: it is written to the run, where others read it.
        """
        found = _ADDRESS.fullmatch(str(place)) if isinstance(place, str | Path) else None
        if found is None or found[1] not in KINDS:
            return None
        parts = [part for part in found[2].split("/") if part not in ("", ".")]  # as `Path` does
        expected = f"{found[1]}://BUCKET/FOLDER"
        if parts and ("@" in parts[0] or ":" in parts[0] or "?" in found[2]):
            wrong = "a user, password or query in an address"
            expected += ", with credentials as the package of the store reads them"
            raise InputError(f"{found[1]}://", wrong, expected)
        if len(parts) < 2 or ".." in parts:
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
          InputError: a package is not installed, or refuses the credentials that it finds.
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
            raise InputError(str(self), found, pip_install(kind.extra)) from error
        except Exception as error:  # a file of credentials that is not there, say
            expected = f"settings that {kind.package} takes"
            raise InputError(str(self), in_words(error), expected) from error
