"""A shared cache in an object store (`$SNM_CACHE`), for entries that the local cache folder lacks.

An entry is a folder whose content does not depend on the writer. Its `manifest.json`, which has the
checksums of the other files, is uploaded last. Errors of the store are ignored: they only cost
time.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from snm.errors import InputError
from snm.stores.address import cache_address
from snm.stores.objects import Objects, RetryPolicy, StoreError, safe_name
from snm.system import disk
from snm.system.files import atomic_folder

__all__ = ["download_entry", "upload_entry"]

_MANIFEST = "manifest.json"
_RETRY_POLICY = RetryPolicy(tries=3)


def download_entry(cache_folder: Path, name: str) -> bool:
    """Downloads an entry into the local cache folder.

    Args:
      cache_folder: the local cache folder.
      name: the name of the entry.

    Returns:
      True if the store has the entry.

    Raises:
      InputError: `$SNM_CACHE` is not the address of a store, or a package is missing.
    """
    objects = _objects(name)
    if objects is None:
        return False
    with contextlib.suppress(OSError, StoreError):
        found = objects.list_objects()
        if _MANIFEST not in found:
            return False
        with (
            contextlib.suppress(InputError),
            atomic_folder("cache", cache_folder / name, lasting=False) as to,
        ):

            def download(file: str) -> None:
                path = to / safe_name(file, str(objects.address))
                objects.fetch(file, path, lambda path: None)  # its checksum is in the manifest

            objects.run_parallel(download, found)
            disk.remove_tree(cache_folder / name)  # only missing or damaged entries are downloaded
        return True
    return False


def upload_entry(cache_folder: Path, name: str) -> None:
    """Uploads an entry of the local cache folder, its manifest last.

    Raises:
      InputError: as in `download_entry`.
    """
    objects = _objects(name)
    if objects is None:
        return
    with contextlib.suppress(OSError, StoreError):
        files = [path for path in (cache_folder / name).iterdir() if path.name != _MANIFEST]
        objects.run_parallel(lambda path: objects.send(path, path.name), files)
        objects.send(cache_folder / name / _MANIFEST, _MANIFEST)


def _objects(name: str) -> Objects | None:
    address = cache_address()
    return None if address is None else Objects(address / name, _RETRY_POLICY)
