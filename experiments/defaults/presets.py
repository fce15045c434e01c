"""Compares presets with other packages: test metrics, seconds of training and prediction, memory.

    python -m experiments.defaults.presets DATA ... --out FILE [--seeds 0 1 2]
        [--presets fast default] [--peers omikuji bonsai]

All train in turns, each in a separate process. `snm` compiles all of its programs, with an empty
cache. Its seconds are from the command to the stored model, without the evaluation on test points;
those of a package are of its own calls, which read its file and train. Runs in the output file are
not repeated. Let no other program run meanwhile.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import snm
from experiments.defaults.time_by_part import trained
from experiments.shared.command_line import run_command
from experiments.shared.kept_runs import KeptRuns
from experiments.shared.tables import averaged, print_groups
from snm.compare.peers.process import PeerOptions, run_peer
from snm.config.resolve import resolve

KEYS = ("P@1", "P@3", "P@5", "PSP@5")


def main(
    data: tyro.conf.Positional[list[Path]],
    out: Path,
    seeds: tuple[int, ...] = (0, 1, 2),
    presets: tuple[str, ...] = ("fast",),
    peers: tuple[str, ...] = ("omikuji",),
) -> None:
    """Runs all arms on every data set with every seed, and writes JSON after each run.

    Args:
      data: folders of data sets.
      out: JSON file to write; its runs are kept, and not repeated.
      seeds: of presets and packages.
      presets: of `snm train --preset`.
      peers: packages of `snm compare --peers`.
    """
    kept = KeptRuns(out, split="test", unit="seconds")
    arms = [(name, _ours) for name in presets] + [(name, _theirs) for name in peers]
    for seed in seeds:
        for folder in data:
            for name, run in arms:
                if kept.has(data=folder.name, seed=seed, name=name):
                    continue
                with tempfile.TemporaryDirectory() as place:
                    found = run(folder, seed, Path(place), name)
                # Of fewer than 5 labels there is no P@5.
                found["metrics"] = {k: v for k, v in found["metrics"].items() if k in KEYS}
                kept.add(data=folder.name, seed=seed, name=name, **found)
                shown = " / ".join(f"{value:.2f}" for value in found["metrics"].values())
                print(f"{folder.name:<18} {name:<11} seed {seed}  {shown}  "
                      f"{found['seconds']:.1f} s", flush=True)  # fmt: skip
    show(kept.rows)


def _ours(folder: Path, seed: int, place: Path, name: str) -> dict[str, Any]:
    """`snm train --preset NAME` in a process with an empty cache."""
    result = trained(folder, place / "run", "--preset", name, "--seed", str(seed))
    time = result["time"]
    return {
        "metrics": result["metrics"],
        "seconds": time["model"],
        "predict_seconds": time["parts"]["test points"],
        "parts": time["parts"],
        "peak_memory_bytes": result["peak_memory_bytes"],
        "memory": result.get("memory", {}).get("used", False),
    }


def _theirs(folder: Path, seed: int, place: Path, name: str) -> dict[str, Any]:
    """The package on the same files, with the same labels excluded from its predictions."""
    seen = resolve(snm.preset("fast"), snm.load_data(folder)).seen
    found = run_peer(name, str(folder), place / "peer.json", PeerOptions(seed=seed, seen=seen))
    names = ("metrics", "seconds", "predict_seconds", "version", "peak_memory_bytes")
    return {name: found[name] for name in names}


def show(runs: list[dict[str, Any]]) -> None:
    """Prints means over the seeds, and medians of the seconds."""
    print_groups(
        "test points, means of the seeds; medians of seconds",
        runs,
        by={"data": "data", "": "name"},
        columns={
            **{key: averaged("metrics", key) for key in KEYS},
            "seconds": averaged("seconds", form=".1f", average=np.median),
        },
        width=90,
    )


if __name__ == "__main__":
    run_command(main)
