"""Measures how long a trained model takes to open at the size of Amazon-670K, and its memory.

    python -m benchmarks.prediction.open_time --out benchmarks/results/open-time.json

It writes an untrained run of 670,091 labels, 135,909 words and dim 512, with names and a
vectorizer, and exports it (`snm export --to npy`). Each figure is of a separate process that has
imported `snm` and initialized jax: seconds of `snm.load`, the least of several calls, which other
programs disturbed least; seconds of the first prediction, whose program is in the cache, and of the
next one; and memory as the kernel counts it. The files are in the page cache, or are removed from
it first. The run, and files outside the page cache, are loaded only once. Checksums are compared or
not. At last several processes open one export at the same time, as `snm serve --workers` does.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import snm
from benchmarks.command_line import make_parser, print_and_write
from benchmarks.trust.checksum_cost import drop_page_cache
from snm.bench.shapes import SHAPES
from snm.config.resolved import RESOLVED, ResolvedConfig, unresolved_values
from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Weighting
from snm.machine.versions import machine_record, versions
from snm.model.from_config import make_model
from snm.model.placement import init_state_on
from snm.runs.folder import RunFolder
from snm.runs.schema import RunOrigin
from snm.system.compilation_cache import enable_compilation_cache

_HELD = (2, 4)  # processes at a time
# Model, whether checksums are compared, and whether its files are in the page cache.
_CASES = [("export", verify, cached) for cached in (True, False) for verify in (False, True)]
_CASES += [("run", False, True)]


def main() -> None:
    """Prints the results, and writes them as JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--calls", type=int, default=5, help="of snm.load, from the page cache")
    parser.add_argument("--folder", type=Path, help="where the model is, or is written and stays")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--no-verify", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:
        run_child(args.child, verify=not args.no_verify, calls=args.calls)
        return
    found = measure(args.calls, args.folder)
    print_and_write(args.out, found)


def write_run(folder: Path, shape: str = "amazon670k") -> RunFolder:
    """Writes a run with its first checkpoint, of an untrained model."""
    sizes = SHAPES[shape]
    config = snm.preset("default")
    fixed = {"weighting": "tfidf", "members": 1, "members_at_once": 1, "seen": "keep",
             "label_text": "off", "memory": "off", "logit_adjustment": "off", "item_splits": 0,
             "sampled": sizes.sampled, "mined": 16, "input_dropout": 0.0, "feature_init": 1.0,
             "score_scale": 20.0, "learn_score_scale": False, "class_init": "random",
             "learning_rate": 1.0, "epochs": 1, "propensity_a": 0.55,
             "propensity_b": 1.5}  # fmt: skip
    assert set(fixed) == set(RESOLVED)
    resolved = ResolvedConfig(**unresolved_values(config), **fixed)
    assert resolved.dim == sizes.dim
    words = tuple(f"word{number}" for number in range(sizes.num_features))
    texts = folder / "words.json"
    Vectorizer("counts", sizes.num_features, vocabulary=words).write(texts)
    present = np.arange(1, sizes.num_features + 1)[::-1]
    origin = RunOrigin("no data", "0" * 64, sizes.num_features, sizes.num_labels, None)
    run = RunFolder(folder / "run")
    names = tuple(f"the name of label {number}" for number in range(sizes.num_labels))
    run.write(resolved, origin, Weighting.of_counts(sizes.num_points, present), names, texts)
    model = make_model(resolved, sizes.num_features, sizes.num_labels)
    state = init_state_on(model)
    about = {"data_sha256": origin.sha256, "seed": config.seed, "versions": versions()}
    run.checkpoints(1, about=about).save(1, state, {"step": 1}, None)
    return run


def export_model(place: Path, shape: str = "amazon670k") -> Path:
    """The folder of the exported model; writes it and its run if they do not exist."""
    if not (place / "export").exists():
        place.mkdir(parents=True, exist_ok=True)
        write_run(place, shape)
        export = [sys.executable, "-m", "snm", "export", str(place / "run"), "--to", "npy"]
        subprocess.run([*export, "--out", str(place / "export")], check=True)
    return place / "export"


def run_child(folder: Path, *, verify: bool, calls: int) -> None:
    """Opens a model, predicts, prints time and memory, and holds it until standard input ends."""
    texts = ["word3 word14 word159 word2653"]
    Vectorizer("counts", 1, vocabulary=("word",)).transform(["word"])  # imports scikit-learn
    from snm.export.load import load

    enable_compilation_cache()
    jax.block_until_ready(jax.numpy.zeros(1))
    before, seconds, model = memory()["Private_Dirty"], [], None
    for _ in range(calls):
        del model  # one at a time
        begun = time.monotonic()
        model = load(folder, verify=verify)
        seconds.append(time.monotonic() - begun)
    assert model is not None
    model = dataclasses.replace(model, block_rows=1)  # as the server answers one point
    begun = time.monotonic()
    labels, _ = model.predict(texts)
    assert model.label_names is not None and model.label_names[labels[0, 0]]
    first = time.monotonic()
    model.predict(texts)
    after = time.monotonic()
    row = {"load seconds": min(seconds), "every load": seconds, "first answer": first - begun,
            "next answer": after - first, "load average": os.getloadavg()[0]}  # fmt: skip
    print(json.dumps(row), flush=True)
    sys.stdin.readline()  # once all that are held at a time have answered
    print(json.dumps(memory() | {"before": before}), flush=True)
    sys.stdin.readline()


def memory() -> dict[str, float]:
    """MiB of this process: Pss counts a page by the processes that share it, the others whole."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    values = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
    return {name: values[name] for name in ("Pss", "Rss", "Private_Dirty")}


def hold_open(folder: Path, count: int, *, verify: bool, calls: int) -> list[dict[str, Any]]:
    """The results of `count` processes that hold a model at the same time."""
    command = [sys.executable, "-m", "benchmarks.prediction.open_time", "--child", str(folder)]
    command += ["--calls", str(calls), *([] if verify else ["--no-verify"])]
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for _ in range(count)
        ]
        found: list[dict[str, Any]] = [{} for _ in processes]
        for _ in range(2):  # times, then memory
            for row, process in zip(found, processes, strict=True):
                assert process.stdin is not None and process.stdout is not None
                row |= json.loads(process.stdout.readline())
            for process in processes:
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
        return found


def measure(calls: int, folder: Path | None = None) -> dict[str, Any]:
    """Writes the run and its export, and opens them."""
    with contextlib.ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        models = {"export": export_model(place), "run": place / "run"}
        opened, shared = [], []
        for what, verify, cached in _CASES:
            files = [file for file in models[what].rglob("*") if file.is_file()]
            for file in files:
                file.read_bytes()
            if not cached:
                drop_page_cache(models[what])
            (one,) = hold_open(
                models[what], 1, verify=verify, calls=calls if cached and what == "export" else 1
            )
            size = round(sum(file.stat().st_size for file in files) / 2**20)
            own = round(one["Private_Dirty"] - one["before"])
            about = {"model": what, "checksums": verify, "cached": cached, "MiB": size}
            opened.append({**about, **one, "own MiB": own})
            print(opened[-1], flush=True)
        for count in _HELD:
            pss = [one["Pss"] for one in hold_open(models["export"], count, verify=False, calls=1)]
            shared.append({"processes": count, "MiB": round(sum(pss)),
                           "of each": [round(one) for one in pss]})  # fmt: skip
            print(shared[-1], flush=True)
    shape = SHAPES["amazon670k"]
    return {**machine_record(), "labels": shape.num_labels, "features": shape.num_features,
            "dim": shape.dim, "calls": calls, "opened": opened, "shared": shared}  # fmt: skip


if __name__ == "__main__":
    main()
