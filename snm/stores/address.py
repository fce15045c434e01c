"""Addresses in object stores, and the packages for each kind of store."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import re
from pathlib import Path
from typing import Any

from snm.errors import InputError
from snm.text import pip_install

__all__ = [
    "KINDS",
    "Address",
    "Kind",
    "absolute",
    "is_hub_address",
    "mask_error",
    "mask_secrets",
]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of store.

    Attributes:
      package: the package that fsspec needs for it.
      extra: the extra of snm that installs it.
    """

    package: str
    extra: str


KINDS = {"gs": Kind("gcsfs", "gcs"), "s3": Kind("s3fs", "s3")}
"""Scheme of an address -> its kind of store."""

# `Path` turns two slashes into one, and command line arguments become paths.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,2}(?!/)(.*)", re.DOTALL)
_MAX_ERROR_LENGTH = 300  # characters of a store's error that are printed
# Names of secret values in addresses and in the errors of stores' packages.
_SECRET = re.compile(
    r"""((?:key|token|secret|password|signature|credential|upload_?id)[\w-]*["']?\s*[=:]\s*["']?)"""
    r"""[^\s&"',;)]+""",
    re.IGNORECASE,
)
_USER = re.compile(r"(:/{1,2})[^/\s@]*@")


def mask_secrets(text: str) -> str:
    """Masks users and passwords of addresses, and secret values, in a text.

    Example:
      >>> mask_secrets("https://me:pw@host/a?token=x&n=1")
      'https://***@host/a?token=***&n=1'
    """
    return _SECRET.sub(r"\1***", _USER.sub(r"\1***@", text))


def absolute(place: str | Path) -> str:
    """The absolute path of an existing file or folder; addresses and other names do not change.

    Raises:
      InputError: as in `Address.of`.
    """
    if (address := Address.of(place)) is not None:
        return str(address)
    return str(Path(place).resolve()) if Path(place).exists() else str(place)


def mask_error(error: Exception) -> str:
    """A one-line description of an error of a store's package, without secrets."""
    # Without the kind: after KeyError, a colon would make the rest a secret.
    text = " ".join(mask_secrets(str(error)).split())[:_MAX_ERROR_LENGTH]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@dataclasses.dataclass(frozen=True)
class Address:
    """A folder in an object store.

    Attributes:
      scheme: a key of `KINDS`.
      path: the bucket and the names below it, without slashes at the ends.

    Example:
      >>> str(Address.of(Path("gs://bucket/runs/a"))), Address.of("runs/a")
      ('gs://bucket/runs/a', None)
    """

    scheme: str
    path: str

    @classmethod
    def of(cls, place: object) -> Address | None:
        """Parses an address; None for a local path.

        Raises:
          InputError: an address of another kind of store, without a bucket or a folder in it, or
            with a user, a password or a query, because the address is stored in the run, where
            others can read it.
        """
        match = _ADDRESS.fullmatch(str(place)) if isinstance(place, str | Path) else None
        if match is None:
            return None
        if match[1] not in KINDS:  # not a local folder of that name, which nobody meant
            kinds = " or ".join(f"{scheme}://BUCKET/FOLDER" for scheme in KINDS)
            raise InputError(f"{match[1]}://", "an unknown kind of store", f"a path, or {kinds}")
        parts = [part for part in match[2].split("/") if part not in ("", ".")]  # as `Path` does
        expected = f"{match[1]}://BUCKET/FOLDER"
        if parts and ("@" in parts[0] or ":" in parts[0] or "?" in match[2]):
            wrong = "a user, password or query in an address"
            expected += ", with credentials as the package of the store reads them"
            raise InputError(f"{match[1]}://", wrong, expected)
        if len(parts) < 2 or ".." in parts:
            raise InputError(str(place), "no folder in a bucket", expected)
        return cls(match[1], "/".join(parts))

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
        """A file name for the local data of this address."""
        return hashlib.sha256(str(self).encode()).hexdigest()[:16]

    def filesystem(self) -> Any:
        """The fsspec file system of this store, without a cache of listings.

        Raises:
          InputError: a package is not installed, or rejects the credentials that it finds.
        """
        kind = KINDS[self.scheme]
        try:
            import fsspec

            log = logging.getLogger(kind.package)
            if log.level == logging.NOTSET:  # no tracebacks of operations that are retried
                log.setLevel(logging.CRITICAL)
            return fsspec.filesystem(self.scheme, use_listings_cache=False)
        except ImportError as error:
            found = f"no package {kind.package}"
            raise InputError(str(self), found, pip_install(kind.extra)) from error
        except Exception as error:  # for example a missing credentials file
            expected = f"settings that {kind.package} takes"
            raise InputError(str(self), mask_error(error), expected) from error


def is_hub_address(text: str) -> bool:
    """Whether a text is meant as a model on the Hugging Face Hub, `hf://owner/name`."""
    return text.startswith("hf:/")  # a `Path` writes two slashes as one
