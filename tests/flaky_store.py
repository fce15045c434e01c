"""An object store in memory whose operations fail: before they take effect, after, or halfway."""

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from fsspec import register_implementation
from fsspec.implementations.memory import MemoryFileSystem

from snm.stores import objects
from snm.stores.address import KINDS, Kind


class KilledError(BaseException):
    """The process is gone: nothing catches this, and nothing is tried again."""


class FlakyStore(MemoryFileSystem):
    """A store of bytes; the class attributes say what goes wrong, in all instances."""

    protocol = "flaky"
    cachable = False
    content: ClassVar[dict[str, bytes]] = {}
    share = 0.0  # of operations that fail
    broken = ""  # a part of the names whose operations all fail
    rng = random.Random(0)
    before: Callable[[str, str], None] = staticmethod(lambda kind, name: None)
    cut: ClassVar[list[str]] = []  # parts of names: the first write of each is cut off
    failed = 0
    wrong: ClassVar[list[Exception]] = []

    @classmethod
    def reset(cls) -> None:
        cls.content, cls.share, cls.broken, cls.failed, cls.wrong = {}, 0.0, "", 0, []
        cls.cut, cls.rng = [], random.Random(0)
        cls.before = staticmethod(lambda kind, name: None)

    @contextlib.contextmanager
    def _operation(self, kind, name):
        """Fails before the block, after it, or (of a write) lets it see that it is to be short."""
        name = self._strip_protocol(name)
        try:
            type(self).before(kind, name)
        except OSError:
            raise
        except Exception as error:  # what a reader finds wrong: the writer tries again
            self.wrong.append(error)
            raise
        if self.broken and self.broken in name:
            raise ConnectionError("503 the store is down")
        how = self.rng.choice(["before", "after", "short"]) if self._fails() else ""
        if how == "before" or (how == "short" and kind != "put"):
            raise ConnectionError(f"{kind} was refused")
        yield how == "short"
        if how == "after":  # a short write looks like any other
            raise TimeoutError(f"no answer to {kind}")

    def _fails(self):
        fails = self.rng.random() < self.share
        type(self).failed += fails
        return fails

    def find(self, path, detail=True, **_):
        with self._operation("list", path):
            root = self._strip_protocol(path) + "/"
            there = {name: raw for name, raw in list(self.content.items()) if name.startswith(root)}
            return {name: {"name": name, "size": len(raw), "type": "file", "etag": hash(raw)}
                    for name, raw in there.items()}  # fmt: skip

    def pipe_file(self, path, value, **_):
        with self._operation("put", path) as short:
            raw, name = bytes(value), self._strip_protocol(path)
            for part in [part for part in self.cut if part in name]:
                self.cut.remove(part)
                short = True
            self.content[self._strip_protocol(path)] = raw[: len(raw) // 2] if short else raw

    def put_file(self, lpath, rpath, **_):
        self.pipe_file(rpath, Path(lpath).read_bytes())

    def cat_file(self, path, **_):
        with self._operation("get", path):
            return self._there(path)

    def get_file(self, rpath, lpath, **_):
        raw = self.cat_file(rpath)
        Path(lpath).write_bytes(raw)

    def info(self, path, **_):
        with self._operation("info", path):
            return {"size": len(self._there(path))}

    def rm_file(self, path):
        with self._operation("remove", path):
            self.content.pop(self._strip_protocol(path), None)

    def _there(self, path):
        try:
            return self.content[self._strip_protocol(path)]
        except KeyError:
            raise FileNotFoundError(path) from None


@pytest.fixture
def flaky(monkeypatch, tmp_path):
    """The store under `flaky://`, empty; the cache folder is one of the test."""
    register_implementation("flaky", FlakyStore, clobber=True)
    monkeypatch.setitem(KINDS, "flaky", Kind("fsspec", "none"))
    monkeypatch.setattr(objects, "_pause", lambda tried: 0.0)
    # One operation at a time, so that a seed decides what fails.
    monkeypatch.setattr(objects, "_NUM_THREADS", 1)
    monkeypatch.setenv("SNM_CACHE", str(tmp_path / "cache"))
    FlakyStore.reset()
    yield FlakyStore
    wrong = FlakyStore.wrong
    FlakyStore.reset()
    assert not wrong, wrong
