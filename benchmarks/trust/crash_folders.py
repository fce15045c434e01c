"""Simulates power cuts while the cache is written, and during a comparison."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import snm
from benchmarks.trust.crash_bench import Bench
from benchmarks.trust.crash_model import Recorder, write_state
from snm.compare.records import read_record
from snm.data.dataset import Dataset
from snm.runs.folder import read_json

_RECORDS = ("plan.json", "decided.json")


def cuts_of_the_cache(bench: Bench, count: int, place: Path) -> dict[str, Any]:
    """Draws states of the cache, which is not synced: what is read is always what was parsed."""
    folder = place / "cache"
    folder.mkdir()
    with Recorder(folder).recording() as record:
        whole = content(snm.load_data(bench.source, cache=folder))
    distinct = used = 0
    for _, state in _different(record, count):
        distinct += 1
        write_state(folder, state)
        before = {path: path.stat().st_mtime_ns for path in folder.glob("*/*")}
        assert content(snm.load_data(bench.source, cache=folder)) == whole, "other data"
        after = {path: path.stat().st_mtime_ns for path in folder.glob("*/*")}
        used += bool(before) and before == after  # the entry was whole, and is not made anew
        again = snm.load_data(bench.source, cache=folder)
        assert content(again) == whole
    shutil.rmtree(folder)
    return {"what": "cache", "calls": len(record.calls), "states": count, "distinct": distinct,
            "complete": used, "failed": 0}  # fmt: skip


def _different(record: Recorder, count: int) -> Iterator[tuple[int, Any]]:
    """The states of `Recorder.states`, each once."""
    seen = set()
    for cut, state in record.states(count):
        key = hash(frozenset(state.items()))
        if key not in seen:
            seen.add(key)
            yield cut, state


def content(data: Dataset) -> list[bytes]:
    """All arrays of a data set."""
    assert data.test is not None
    matrices = [m for part in (data.train, data.test) for m in (part.features, part.labels)]
    arrays = [array for m in matrices for array in (m.data, m.indices, m.indptr)]
    return [np.ascontiguousarray(array).tobytes() for array in arrays]


def cuts_of_a_comparison(bench: Bench, count: int, place: Path) -> dict[str, Any]:
    """Draws states of a comparison's folder.

    Every record is whole or absent, and a result that was on the disk before the cut is there. Each
    kind of state goes on to its end, and has the metrics of a comparison without a cut.
    """
    folder = place / "compared"
    folder.mkdir()
    with Recorder(folder).recording() as record:
        bench.compare(folder / "out")
    whole = metrics(folder / "out")
    durable: list[tuple[int, str]] = []  # the number of calls after which a result is on the disk
    named: set[str] = set()
    for number, call in enumerate(record.calls, 1):
        path = Path(call.path)
        result = path.parent.name == "runs" and path.suffix == ".json"
        if call.what == "name" and result and ".task" not in path.name:
            named.add(call.path)
        if call.what == "sync" and path.name == "runs":
            durable += [(number, one) for one in sorted(named)]
            named.clear()
    distinct, kinds = 0, {}
    for cut, state in _different(record, count):
        distinct += 1
        write_state(folder, state)
        records = [path for path in folder.rglob("*.json") if path.parent.name == "runs"]
        records += [folder / "out" / name for name in _RECORDS if (folder / "out" / name).exists()]
        for path in records:
            read_record(path)
        missing = [path for number, path in durable if number <= cut and path not in state]
        assert not missing, f"{missing} was on the disk before call {cut}"
        kind = frozenset(str(path.relative_to(folder)) for path in folder.rglob("*")
                         if len(path.relative_to(folder).parts) <= 3)  # fmt: skip
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] == 1:
            bench.compare(folder / "out")
            assert metrics(folder / "out") == whole, f"other metrics after cut {cut}"
    shutil.rmtree(folder)
    return {"what": "comparison", "calls": len(record.calls), "states": count,
            "distinct": distinct, "taken to the end": len(kinds), "failed": 0}  # fmt: skip


def metrics(out: Path) -> list[Any]:
    """The metrics of a comparison, by arm and seed."""
    arms = read_json(out / "results.json")["arms"]
    return [[seed["metrics"] for seed in arm["seeds"]] for arm in arms]
