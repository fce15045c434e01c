"""Simulates power cuts and disk errors at every call, and checks that commands recover.

    python -m benchmarks.trust.crash_states --states 10000
        --out benchmarks/results/crash-states.json

It records a training run, an import, a fetch, an export, a grown run, a file of predictions, the
cache and a comparison. For each, it draws states that a power cut may leave, and checks them: `out`
is complete or absent; a run resumes from its newest complete checkpoint, which is not older than
the last one that was on the disk before the cut; the cache has the data of the source; a comparison
has every result that was on the disk. Each kind of state of a run and of a comparison is continued
to its end, which must have the same bits, or the same metrics, as without a cut. Then a disk error
is injected into each call in turn.
"""

import contextlib
import errno
import functools
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import snm
from benchmarks.command_line import make_parser, write_results
from benchmarks.trust.crash_bench import CONFIG, STEPS, Bench, arrays, same, tree
from benchmarks.trust.crash_folders import cuts_of_a_comparison, cuts_of_the_cache
from benchmarks.trust.crash_model import Recorder, write_state
from snm.checkpoints.manifest import DamagedError
from snm.errors import InputError
from snm.runs.events import Saved
from snm.runs.folder import RunFolder
from snm.runs.manifest import read_manifest
from snm.trainer.result import run_origin

# -- power cuts ------------------------------------------------------------------------------


def cuts_of_a_verb(
    bench: Bench, verb: str, count: int, place: Path, *, synced: bool = True
) -> dict[str, Any]:
    """Draws states of a verb's folder: its output is absent, or as it was written.

    Without `synced`, no sync is recorded: then some state must be wrong, or this shows nothing.
    """
    folder = place / verb
    folder.mkdir()
    out, run = bench.verbs(folder)[verb]
    with Recorder(folder).recording() as record:
        run()
    if not synced:
        record.calls = [call for call in record.calls if call.what != "sync"]
    whole, seen, there = tree(out), set(), 0
    for cut, state in record.states(count):
        files = {path: raw for path, raw in state.items()
                 if raw is not None and Path(path).parts[0] == "out"}  # fmt: skip
        seen.add(hash(frozenset(state.items())))
        if "out" in state or files:
            found = {path.removeprefix("out").lstrip("/"): raw for path, raw in files.items()}
            assert found == whole, f"{verb}: half of it is left after call {cut}"
            there += 1
        assert "out" in state or files or cut < len(record.calls), f"{verb}: it is lost"
    # The next command removes what is left, and makes the same.
    shutil.rmtree(folder)
    for cut, state in record.states(3, seed=7):
        write_state(folder, {p: c for p, c in state.items() if Path(p).parts[0] != "out"})
        bench.verbs(folder)[verb][1]()
        assert [path.name for path in folder.iterdir()] == ["out"], f"{verb}: cut {cut} stays"
        if verb != "grow":  # whose result has times
            assert tree(out) == whole
        shutil.rmtree(folder)
    return {"what": verb, "calls": len(record.calls), "states": count, "distinct": len(seen),
            "complete": there, "failed": 0}  # fmt: skip


def cuts_of_a_run(
    bench: Bench, count: int, place: Path, start: Path | None = None
) -> dict[str, Any]:
    """Draws states of a run's folder; see the module."""
    folder, what = place / "run", "train" if start is None else "train on"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir() if start is None else shutil.copytree(start, folder)
    with Recorder(folder).recording() as record:
        bench.train(folder)
    complete = [
        (number, call.path)
        for number, call in enumerate(record.calls, 1)
        if call.what == "sync" and Path(call.path).name.isdigit()
        and any(c.path == f"{call.path}/manifest.json" for c in record.calls[:number])
    ]  # fmt: skip
    kinds: dict[Any, int] = {}
    damaged = 0
    seen = set()
    for cut, state in record.states(count):
        seen.add(hash(frozenset(state.items())))
        write_state(folder, state)
        safe: dict[str, int] = {}
        for number, path in complete:
            if number <= cut:
                safe[str(Path(path).parent)] = int(Path(path).name)
        kind, names = _goes_on(bench, folder, safe)
        damaged += names
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] == 1:
            bench.train(folder)
            assert same(arrays(folder), bench.arrays), f"{kind}: other bits after cut {cut}"
            result = RunFolder(folder).read_result()
            assert result["metrics"] == bench.result["metrics"]
    return {"what": what, "calls": len(record.calls), "states": count, "distinct": len(seen),
            "trained to the end": len(kinds), "with a damaged checkpoint": damaged,
            "failed": 0}  # fmt: skip


def _goes_on(bench: Bench, path: Path, safe: dict[str, int]) -> tuple[Any, bool]:
    """What the next command finds: the step from which each member goes on, and the files.

    Args:
      bench: with the settings.
      path: the run folder.
      safe: folder of checkpoints -> step of the last that was complete on the disk.

    Returns:
      a description that many states share; and whether a checkpoint is named as damaged.
    """
    folder, names = RunFolder(path), False
    data = bench.data
    folder.check(bench.config, run_origin(data, None, None))
    steps = []
    for phase, where in (("train", "checkpoints"), ("member-2", "checkpoints/member-2")):
        store, newest = folder.checkpoints(2, phase), 0
        for step in sorted(store._steps(), reverse=True):
            try:
                store.verify(step)
            except DamagedError as error:
                assert "\n" not in str(error)
                names = True
                continue
            newest = step
            break
        assert newest >= safe.get(where, 0), f"{where}: {newest} is left of {safe[where]}"
        steps.append((newest, tuple(store._steps())))
    here = frozenset(one.name for one in path.iterdir() if one.suffix in (".json", ".toml"))
    manifest = read_manifest(path)
    finished = manifest is not None and manifest.finished is not None
    return (tuple(steps), finished, here), names


# -- errors ----------------------------------------------------------------------------------


def errors(bench: Bench, place: Path, every: int = 1) -> list[dict[str, Any]]:
    """Injects an error into each call of `disk` in turn: one line, then the same end."""
    found = []
    for verb in (*bench.verbs(place), "train"):
        folder, calls, failed = place / f"error-{verb}", 0, 0
        while True:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            trains = functools.partial(bench.train, folder / "out")
            call = trains if verb == "train" else bench.verbs(folder)[verb][1]
            number = (errno.EIO, errno.ENOSPC)[calls % 2]
            error = OSError(number, os.strerror(number))
            with Recorder(folder, error=error, fail_at=calls).recording() as record:
                try:
                    call()
                except (InputError, OSError) as raised:  # the command line says either in a line
                    assert "\n" not in str(raised)
                    assert os.strerror(number).lower() in str(raised).lower(), str(raised)
                    failed += 1
            if not record.failed:
                break
            if verb != "train":  # the output is there as a whole, or not at all
                left = [path.name for path in folder.iterdir()]
                assert left in ([], ["out"]), f"{verb}: {left} after call {calls}"
                shutil.rmtree(folder / "out", ignore_errors=True)
                (folder / "out").unlink(missing_ok=True)
            call()
            if verb == "train":
                assert same(arrays(folder / "out"), bench.arrays)
            calls += every
        found.append({"what": verb, "errors": -(-calls // every), "one line": failed})
    return found


def measure(states: int, every: int = 1, report: Callable[[Any], None] = print) -> dict[str, Any]:
    """Everything: so many states, most of them of runs, and an error at every `every`-th call."""
    begun = time.monotonic()
    # The inodes of a file system in memory are never used again, so that they tell files apart.
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as name:
        place = Path(name)
        bench = Bench(place)
        rows = [cuts_of_a_verb(bench, verb, states // 12, place) for verb in bench.verbs(place)]
        rows.append(cuts_of_the_cache(bench, states // 12, place))
        rows.append(cuts_of_a_comparison(bench, states // 12, place))
        rows.append(cuts_of_a_run(bench, states // 6, place))
        report(rows)
        half = place / "half"
        with contextlib.suppress(StopIteration):
            events = snm.training(bench.data, CONFIG, half)
            while not isinstance(event := next(events), Saved) or event.step < STEPS:
                pass
            events.close()
        rest = states - sum(row["states"] for row in rows)
        rows.append(cuts_of_a_run(bench, rest, place, half))
        report(rows[-1])
        found = {"states": rows, "errors": errors(bench, place, every)}
    report(found["errors"])
    ends = sum(row.get("trained to the end", row.get("taken to the end", 0)) for row in rows)
    return {
        "total": sum(row["states"] for row in rows),
        "failed": 0,
        "taken to the end": ends,
        **found,
        "an error at every": every,
        "seconds": round(time.monotonic() - begun),
    }


def main() -> None:
    """Prints the results, and writes them as JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--states", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=1, help="inject an error at every n-th call")
    args = parser.parse_args()
    found = measure(args.states, args.every)
    write_results(args.out, found)


if __name__ == "__main__":
    main()
