"""Measures the time of `snm train DATA`, from the command to the result, by part.

    python -m experiments.defaults.time_by_part DATA ... --out FILE [--seeds 0] [--again] [--turns]

Each run is a separate process with an empty cache, so that all programs are compiled. `--again`
also measures a second run, which finds the programs of the first in the cache, and `--turns` one
more whose members train one after the other. Runs on other data in FILE are kept. Let no other
program run meanwhile.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import tyro

from experiments.shared.command_line import run_command
from snm.machine.versions import machine_record
from snm.runs.folder import read_json, write_json

KEPT = ("P@1", "P@3", "P@5", "PSP@5")


def main(
    data: tyro.conf.Positional[list[Path]],
    out: Path,
    seeds: tuple[int, ...] = (0,),
    again: bool = False,
    turns: bool = False,
    flags: tuple[str, ...] = (),
) -> None:
    """Runs every data set, and writes JSON after each run.

    Args:
      data: folders of data sets.
      out: JSON file to write.
      seeds: seeds of the model.
      again: measure a second run too, which finds its programs in the cache.
      turns: measure a run too whose members take turns, with the programs of the cache.
      flags: of `snm train`, for every run.
    """
    names = {folder.name for folder in data}
    before = read_json(out)["runs"] if out.exists() else []
    runs: list[dict[str, Any]] = [run for run in before if run["data"] not in names]
    kinds: list[tuple[str, tuple[str, ...]]] = [("first", ())]
    kinds += [("later", ())] * again + [("turns", ("--members-at-once", "1"))] * turns
    for seed in seeds:
        for folder in data:
            with tempfile.TemporaryDirectory() as place:
                for kind, more in kinds:
                    run = Path(place) / kind
                    result = trained(folder, run, "--seed", str(seed), *flags, *more)
                    runs.append({
                        "data": folder.name, "seed": seed, "run": kind, **result["time"],
                        "peak_memory_bytes": result["peak_memory_bytes"],
                        "metrics": {key: result["metrics"][key] for key in KEPT},
                    })  # fmt: skip
                    write_json(out, {
                        **machine_record(),
                        "command": " ".join(["snm train DATA --run-dir RUN", *flags]),
                        "unit": "seconds", "runs": runs,
                    })  # fmt: skip
                    parts = sorted(runs[-1]["parts"].items(), key=lambda part: -part[1])
                    text = ", ".join(f"{name} {seconds:.1f}" for name, seconds in parts[:5])
                    print(
                        f"{folder.name:<18} {kind} {runs[-1]['whole']:6.1f} s: {text}", flush=True
                    )


def trained(data: Path, run: Path, *flags: str) -> dict[str, Any]:
    """The result of `snm train` with these flags, in a process whose cache is beside the run."""
    words = [sys.executable, "-m", "snm", "train", str(data), "--run-dir", str(run), *flags]
    environment = os.environ | {"SNM_CACHE": str(run.parent / "cache")}
    subprocess.run(words, check=True, env=environment, stdout=subprocess.DEVNULL)
    return read_json(run / "result.json")


if __name__ == "__main__":
    run_command(main)
