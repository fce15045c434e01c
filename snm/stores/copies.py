"""Local copies of folders in object stores, in the cache folder: they are read like any other.

A copy belongs to what the store had: to a snapshot, where `snm train` wrote there, or else to the
names, sizes and versions of the objects. While these stay, the copy is used again.
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
from snm.stores.objects import Found, GoneError, Objects, StoreError, safe
from snm.stores.snapshots import Snapshot, download, newest
from snm.system import disk
from snm.system.cache_folder import folder as cache_folder
from snm.system.checksums import difference
from snm.system.files import atomic_folder, file_lock
from snm.system.locks import LOCK, locked

__all__ = ["home_of", "local"]

_UNUSED = 86400.0  # seconds after which another copy of the same folder is removed
_COPIES = 5  # tries, where the store changes meanwhile
_used: dict[Path, contextlib.ExitStack] = {}
"""Copies that this process has asked for, and what holds their locks until it ends."""


def home_of(address: Address, kind: str) -> Path:
    """The folder of the cache for what belongs to an address.

    Args:
      address: in a store.
      kind: name of a folder of the cache folder.

    Raises:
      InputError: there is no cache folder.
    """
    cache = cache_folder("default")
    if cache is None:
        raise InputError(str(address), "no cache folder to copy it to", "SNM_CACHE to name one")
    return cache / kind / address.key


def local(source: str | Path, wanted: Callable[[str], bool] = lambda _: True) -> Path:
    """A folder of this machine with what a folder has, as it is or in a store.

    Args:
      source: a path, which is returned, or an address in a store.
      wanted: name of an object below the folder -> whether to copy it. Of a run that `snm train`
        keeps in the store, everything is copied.

    Raises:
      InputError: there is nothing at the address, or the local disk refuses.
      StoreError: the store gave up.
    """
    address = Address.of(source)
    if address is None:
        return Path(source)
    objects, home = Objects(address), home_of(address, "copies")
    gone: GoneError | None = None
    with locked(home / LOCK, str(address), wait=True):
        for _ in range(_COPIES):
            try:
                found = newest(objects)
                if found is None:
                    copy = _of_listing(objects, wanted, home)
                elif found.files:
                    copy = _of_snapshot(objects, found, home)
                else:
                    raise InputError(
                        str(address), "a run that has saved nothing yet", "a later one"
                    )
                _forget_others(copy.parent)
                return copy
            except GoneError as error:  # it was replaced: look again
                gone = error
    raise StoreError(f"{gone}, but listed: removed by hand, or changed faster than it is copied")


def _of_snapshot(objects: Objects, snapshot: Snapshot, home: Path) -> Path:
    place = home / Path(snapshot.name).stem
    copy = place / objects.address.name
    if not place.exists():
        others = [one for one in home.iterdir() if one.is_dir()]
        latest = max(others, key=lambda one: one.stat().st_mtime, default=None)
        have = None if latest is None else latest / objects.address.name
        with atomic_folder(str(objects.address), place, lasting=False) as beside:
            download(objects, snapshot, beside / copy.name, have)
    return copy


def _of_listing(objects: Objects, wanted: Callable[[str], bool], home: Path) -> Path:
    """The objects as they are: data that somebody uploaded, an export, or a copied run."""

    def listed() -> dict[str, Found]:
        found = objects.listed()
        where = str(objects.address)
        return {safe(name, where): one for name, one in found.items() if wanted(name)}

    found = listed()
    if not found:
        raise InputError(str(objects.address), "nothing there", "a folder of the store")
    text = "".join(f"{name}\0{one.size}\0{one.version}\n" for name, one in sorted(found.items()))
    place = home / hashlib.sha256(text.encode()).hexdigest()[:16]
    copy = place / objects.address.name
    if not place.exists():
        # Synced: unlike a run, data have no checksums that would tell of a power cut.
        with atomic_folder(str(objects.address), place) as beside:

            def one(name: str) -> None:
                path, size = beside / copy.name / name, found[name].size
                path.parent.mkdir(parents=True, exist_ok=True)
                objects.fetch(name, path, lambda path: difference([size], [path.stat().st_size]))

            failed: StoreError | None = None
            try:
                objects.at_once(one, found)
            except StoreError as error:
                failed = error
            if listed() != found:
                raise GoneError(f"{objects.address}: another version took its place") from failed
            if failed is not None:
                raise failed
    return copy


def _forget_others(place: Path) -> None:
    """Removes copies that no process has asked for in a day, nor uses; marks this one as used."""
    with contextlib.suppress(OSError):
        os.utime(place)
        if place not in _used:
            with contextlib.ExitStack() as stack:
                stack.enter_context(file_lock(place, fcntl.LOCK_SH | fcntl.LOCK_NB))
                _used[place] = stack.pop_all()
        others = [one for one in place.parent.iterdir() if one.is_dir() and one != place]
        for other in others:
            if time.time() - other.stat().st_mtime > _UNUSED:
                # A server may hold it, which opens it once more.
                with contextlib.suppress(OSError), file_lock(other, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    disk.remove_tree(other)
