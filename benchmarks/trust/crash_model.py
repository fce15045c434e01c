"""Simulates what a file system may leave after a power cut.

`Recorder` replaces `snm.system.files.disk`, and records every rename, removal and sync in a
folder. It finds what other code (NumPy, orbax, the logs) writes there by comparing the folder
before each of these calls. Threads make these calls one at a time. `Recorder.states` draws the
possible states of the folder.
"""

import contextlib
import dataclasses
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from snm.system.files import disk

TORN = 512
"""Bytes of a block, which is written as a whole or not at all."""


@dataclasses.dataclass(frozen=True)
class Call:
    """One change or sync of a folder.

    Attributes:
      what: `write` (a file's content), `name` (a path gets a file or folder, or none), or `sync`.
      path: relative to the folder.
      node: the number of the file or folder, which stays when it is renamed; None for none.
      content: of a file that was written.
      source: the path that a renamed file or folder had.
    """

    what: str
    path: str
    node: int | None = None
    content: bytes | None = None
    source: str | None = None


class Recorder:
    """Records the calls of `snm.system.files.disk` in a folder.

    Args:
      folder: which must exist; what is in it at the beginning is on the disk.
      error: raised at call number `fail_at`.
      fail_at: a call of `disk`, counted from 0; None raises nothing.
    """

    def __init__(self, folder: Path, *, error: OSError | None = None, fail_at: int | None = None):
        self.folder, self.error, self.fail_at = folder.resolve(), error, fail_at
        self.calls: list[Call] = []
        self.count, self.failed = 0, ""
        self._alone = threading.RLock()
        self._seen: dict[str, tuple[int, bytes | None]] = {}
        self.record_changes()
        self.begun, self.calls = dict(self._seen), []

    def record_changes(self) -> None:
        """Records the changes since the last call, as writes without a sync."""
        found: dict[str, tuple[int, bytes | None]] = {}
        for root, folders, files in os.walk(self.folder):
            for name in (*folders, *files):
                path = Path(root) / name
                with contextlib.suppress(FileNotFoundError):
                    node = path.stat().st_ino
                    content = None if name in folders else path.read_bytes()
                    found[str(path.relative_to(self.folder))] = node, content
        seen = dict(self._seen)
        for path, (node, content) in sorted(found.items()):
            if path not in seen or seen[path][0] != node:
                sources = [old for old, (known, _) in seen.items() if known == node]
                source = sources[0] if sources else None
                empty = None if content is None else b""
                self.calls.append(Call("name", path, node, empty, source))
                if source is not None:  # what is in a folder goes with it
                    inside = [old for old in seen if old == source or old.startswith(f"{source}/")]
                    moved = {f"{path}{old[len(source) :]}": seen.pop(old) for old in inside}
                    seen |= moved
            if content is not None and seen.get(path) != (node, content):
                self.calls.append(Call("write", path, node, content))
        for path in sorted(seen.keys() - found.keys(), reverse=True):
            self.calls.append(Call("name", path, None))
        self._seen = found

    @contextlib.contextmanager
    def recording(self) -> Iterator["Recorder"]:
        """Within the block, the functions of `disk` are recorded, and may raise."""
        real = {name: getattr(disk, name) for name in disk.__all__}

        def wrapped(name):
            def call(path, *more):
                if self.folder in Path(path).resolve().parents or Path(path) == self.folder:
                    with self._alone:
                        self._recorded(name, real[name], path, *more)
                else:
                    real[name](path, *more)

            return call

        try:
            for name in real:
                setattr(disk, name, wrapped(name))
            yield self
            self.record_changes()
        finally:
            for name, function in real.items():
                setattr(disk, name, function)

    def _recorded(self, name: str, real: Callable[..., None], path: Path, *more: Any) -> None:
        """Makes a call of `disk` in the folder, or raises in its place."""
        self.record_changes()
        number, self.count = self.count, self.count + 1
        if number == self.fail_at and name == "remove_tree":
            self.fail_at += 1  # which ignores errors
        elif number == self.fail_at:
            self.failed = name
            if name == "write":  # half of it arrives
                Path(path).write_bytes(more[0][: len(more[0]) // 2])
            raise OSError(self.error.errno, self.error.strerror, str(path))
        real(path, *more)
        if name == "sync":
            relative = Path(path).resolve().relative_to(self.folder)
            self.calls.append(Call("sync", str(relative), Path(path).stat().st_ino))

    def states(self, count: int, seed: int = 0) -> Iterator[tuple[int, dict[str, bytes | None]]]:
        """Draws what a power cut may leave.

        Yields the number of calls before the cut, and path -> content, None for a folder.

        The cut comes after any number of calls. A name that a folder got or lost since the folder
        was synced may be there or not, each by itself: renames are reordered. Of a file written
        since it was synced, any blocks of 512 bytes may be old (zeros where there was nothing), and
        the end may be cut off.
        """
        rng = np.random.default_rng(seed)
        for _ in range(count):
            cut = int(rng.integers(len(self.calls) + 1))
            yield cut, self._state(cut, rng)

    def _state(self, cut: int, rng: np.random.Generator) -> dict[str, bytes | None]:
        root = -1
        # Folders: node -> name -> node on the disk, and the changes that may be there or not.
        names: dict[int, dict[str, int]] = {root: {}}
        pending: dict[int, list[tuple[str, int | None]]] = {}
        kept: dict[int, bytes | None] = {}
        written: dict[int, list[bytes]] = {}
        live: dict[str, int] = {}  # as the program sees it
        for path, (node, content) in sorted(self.begun.items()):
            parent = live.get(str(Path(path).parent), root)
            live[path] = node
            names[parent][Path(path).name] = node
            kept[node] = content
            if content is None:
                names[node] = {}
        for call in self.calls[:cut]:
            if call.what == "write":
                written.setdefault(call.node, []).append(call.content)
            elif call.what == "sync":
                node = root if call.path == "." else call.node
                if written.get(node):
                    kept[node] = written.pop(node)[-1]
                for name, inner in pending.pop(node, []):
                    _set(names[node], name, inner)
            else:
                parent, name = os.path.split(call.path)
                folder = live.get(parent, root) if parent else root
                if call.node is None:
                    live.pop(call.path, None)
                else:
                    live[call.path] = call.node
                    if call.source is not None:
                        live.pop(call.source, None)
                        for path in [p for p in live if p.startswith(f"{call.source}/")]:
                            live[f"{call.path}{path[len(call.source) :]}"] = live.pop(path)
                    elif call.node not in kept and call.node not in names:
                        kept[call.node] = call.content
                        if call.content is None:
                            names[call.node] = {}
                pending.setdefault(folder, []).append((name, call.node))
        for folder, changes in pending.items():
            for name, node in changes:
                if rng.random() < 0.7:
                    _set(names.setdefault(folder, {}), name, node)
        files = {node: _torn(kept.get(node) or b"", new, rng) for node, new in written.items()}
        found: dict[str, bytes | None] = {}

        def walk(folder: int, path: str) -> None:
            for name, node in names.get(folder, {}).items():
                where = f"{path}{name}"
                if node in files:
                    found[where] = files[node]
                elif kept.get(node) is not None:
                    found[where] = kept[node]
                elif where.count(os.sep) < 12:
                    found[where] = None
                    walk(node, where + os.sep)

        walk(root, "")
        return found


def _set(names: dict[str, int], name: str, node: int | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        for old in [n for n, inner in names.items() if inner == node]:
            del names[old]  # a rename takes the old name away in the same step
        names[name] = node


def _torn(old: bytes, writes: list[bytes], rng: np.random.Generator) -> bytes:
    """A possible content of a file that was written, but not synced."""
    new = writes[int(rng.integers(len(writes)))]
    fate = rng.random()
    if fate < 0.25:
        return old
    if fate < 0.5:
        return new
    blocks = []
    for start in range(0, len(new), TORN):
        block = new[start : start + TORN]
        before = old[start : start + TORN].ljust(len(block), b"\0")
        blocks.append(block if rng.random() < 0.5 else before)
    raw = b"".join(blocks)
    return raw[: int(rng.integers(len(raw) + 1))] if rng.random() < 0.5 else raw


def write_state(folder: Path, state: dict[str, bytes | None]) -> Path:
    """Makes a folder with the content of a state."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path, content in state.items():
        if content is None:
            (folder / path).mkdir(parents=True, exist_ok=True)
        else:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
    return folder
