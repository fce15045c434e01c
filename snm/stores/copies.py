"""Local copies of folders in object stores, kept in the cache folder.

A copy is identified by the snapshot, if `snm train` wrote the folder, otherwise by the names, sizes
and versions of the objects. It is reused until these change.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from snm.errors import InputError
from snm.stores.address import Address
from snm.stores.objects import GoneError, ObjectInfo, Objects, StoreError, safe_name
from snm.stores.snapshots import Snapshot, download, newest
from snm.system.files import disk
from snm.system.files.atomic import atomic_folder, file_lock
from snm.system.files.cache_folder import cache_folder
from snm.system.files.checksums import difference
from snm.system.files.locks import LOCK, locked

__all__ = ["address_cache_folder", "local_copy"]

_UNUSED = 86400.0  # seconds after which another copy of the same folder is removed
_COPIES = 5  # tries, if the store changes meanwhile
_used: dict[Path, contextlib.ExitStack] = {}
"""Copies used by this process -> the context that holds their lock until the process ends."""


def address_cache_folder(address: Address, kind: str) -> Path:
    """The folder of the local cache for the data of an address.

    Args:
      address: a folder in a store.
      kind: name of the subfolder of the cache folder.

    Raises:
      InputError: there is no cache folder.
    """
    cache = cache_folder()
    if cache is None:
        raise InputError(str(address), "no cache folder to copy it to", "SNM_CACHE to name one")
    return cache / kind / address.key


def local_copy(source: str | Path, select: Callable[[str], bool] = lambda _: True) -> Path:
    """The path of a folder, or of a local copy of a folder in a store.

    Args:
      source: a local path, which is returned, or an address in a store.
      select: object name relative to the folder -> whether to copy it. All objects of a run of
        `snm train` are copied.

    Raises:
      InputError: there is nothing at the address, or the local copy cannot be written.
      StoreError: the store cannot be read.
    """
    address = Address.of(source)
    if address is None:
        return Path(source)
    objects, home = Objects(address), address_cache_folder(address, "copies")
    gone: GoneError | None = None
    with locked(home / LOCK, str(address), wait=True):
        for _ in range(_COPIES):
            try:
                snapshot = newest(objects)
                if snapshot is None:
                    copy = _copy_listing(objects, select, home)
                elif snapshot.files:
                    copy = _copy_snapshot(objects, snapshot, home)
                else:
                    raise InputError(
                        str(address), "a run that has saved nothing yet", "a later one"
                    )
                _remove_old_copies(copy.parent)
                return copy
            except GoneError as error:  # an object was replaced: list again
                gone = error
    raise StoreError(f"{gone}, but listed: removed by hand, or changed faster than it is copied")


def _copy_snapshot(objects: Objects, snapshot: Snapshot, home: Path) -> Path:
    place = home / Path(snapshot.name).stem
    copy = place / objects.address.name
    if not place.exists():
        others = [folder for folder in home.iterdir() if folder.is_dir()]
        latest = max(others, key=lambda folder: folder.stat().st_mtime, default=None)
        have = None if latest is None else latest / objects.address.name
        with atomic_folder(str(objects.address), place, lasting=False) as temporary:
            download(objects, snapshot, temporary / copy.name, have)
    return copy


def _copy_listing(objects: Objects, select: Callable[[str], bool], home: Path) -> Path:
    """Copies objects without a snapshot: uploaded data, an export, or a copied run."""

    def selected() -> dict[str, ObjectInfo]:
        where = str(objects.address)
        return {
            safe_name(name, where): info
            for name, info in objects.list_objects().items()
            if select(name)
        }

    listing = selected()
    if not listing:
        raise InputError(str(objects.address), "nothing there", "a folder of the store")
    text = "".join(
        f"{name}\0{info.size}\0{info.version}\n" for name, info in sorted(listing.items())
    )
    place = home / hashlib.sha256(text.encode()).hexdigest()[:16]
    copy = place / objects.address.name
    if not place.exists():
        # Flushed to the disk: unlike a run, data have no checksums to detect a power cut.
        with atomic_folder(str(objects.address), place) as temporary:

            def download_object(name: str) -> None:
                path, size = temporary / copy.name / name, listing[name].size
                objects.fetch(name, path, lambda path: difference([size], [path.stat().st_size]))

            failed: StoreError | None = None
            try:
                objects.run_parallel(download_object, listing)
            except StoreError as error:
                failed = error
            if selected() != listing:
                raise GoneError(f"{objects.address}: another version took its place") from failed
            if failed is not None:
                raise failed
    return copy


def _remove_old_copies(place: Path) -> None:
    """Removes copies that were not used for a day and are not locked; marks this one as used."""
    with contextlib.suppress(OSError):
        os.utime(place)
        if place not in _used:
            with contextlib.ExitStack() as stack:
                stack.enter_context(file_lock(place, fcntl.LOCK_SH | fcntl.LOCK_NB))
                _used[place] = stack.pop_all()
        for other in [path for path in place.parent.iterdir() if path.is_dir() and path != place]:
            if time.time() - other.stat().st_mtime > _UNUSED:
                # A running server may still use it, and open it again.
                with contextlib.suppress(OSError), file_lock(other, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    disk.remove_tree(other)
