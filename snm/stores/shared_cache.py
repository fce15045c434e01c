"""A cache in an object store (`$SNM_CACHE`): what the cache folder of this machine lacks is there.

An entry is a folder that holds the same bytes whoever writes it, with a `manifest.json` that has
checksums of the other files; it is uploaded last. As with any cache, a store that fails costs time
and nothing else.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from snm.errors import InputError
from snm.stores.address import Address, without_secrets
from snm.stores.objects import Objects, Patience, StoreError, safe
from snm.system import disk
from snm.system.cache_folder import store_address
from snm.system.files import atomic_folder

__all__ = ["bring", "send"]

_MANIFEST = "manifest.json"
_PATIENCE = Patience(tries=3)


def bring(place: Path, name: str) -> bool:
    """Downloads an entry into the cache folder; whether it was there.

    Args:
      place: the cache folder of this machine.
      name: of the entry.

    Raises:
      InputError: `$SNM_CACHE` is no address of a store, or a package is missing.
    """
    objects = _objects(name)
    if objects is None:
        return False
    with contextlib.suppress(OSError, StoreError):
        found = objects.listed()
        if _MANIFEST not in found:
            return False
        with (
            contextlib.suppress(InputError),
            atomic_folder("cache", place / name, lasting=False) as to,
        ):

            def one(file: str) -> None:
                path = to / safe(file, str(objects.address))
                path.parent.mkdir(parents=True, exist_ok=True)
                objects.fetch(file, path, lambda path: None)  # its checksum is in the manifest

            objects.at_once(one, found)
            disk.remove_tree(place / name)  # asked for only where it is missing or damaged
        return True
    return False


def send(place: Path, name: str) -> None:
    """Uploads an entry of the cache folder, its manifest last.

    Raises:
      InputError: as `bring`.
    """
    objects = _objects(name)
    if objects is None:
        return
    with contextlib.suppress(OSError, StoreError):
        files = [path for path in (place / name).iterdir() if path.name != _MANIFEST]
        objects.at_once(lambda path: objects.send(path, path.name), files)
        objects.send(place / name / _MANIFEST, _MANIFEST)


def _objects(name: str) -> Objects | None:
    store = store_address()
    if store is None:
        return None
    address = Address.of(store)
    if address is None:
        raise InputError(
            "SNM_CACHE",
            without_secrets(store),
            "a folder, or an address such as gs://BUCKET/FOLDER",
        )
    return Objects(address / name, _PATIENCE)
