"""Where the time of `snm train DATA` goes, from the command to the result, by part.

    python -m experiments.time_by_part DATA ... --out FILE [--seeds 0] [--again]

Each run is a process of its own with an empty cache, so that all programs are compiled. `--again`
also measures a second run, which finds the programs of the first. Let nothing else run meanwhile.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import tyro

from snm.runs.folder import read_json, write_json
from snm.system.versions import machine

KEPT = ("P@1", "P@3", "P@5", "PSP@5")


def main(
    data: tyro.conf.Positional[list[Path]],
    out: Path,
    seeds: tuple[int, ...] = (0,),
    again: bool = False,
    flags: tuple[str, ...] = (),
) -> None:
    """Runs every data set, and writes JSON after each run.

    Args:
      data: folders of data sets.
      out: JSON file to write.
      seeds: seeds of the model.
      again: measure a second run too, which finds its programs in the cache.
      flags: of `snm train`, for every run.
    """
    runs: list[dict[str, Any]] = []
    for seed in seeds:
        for folder in data:
            with tempfile.TemporaryDirectory() as place:
                for cached in (False, True)[: 1 + again]:
                    run = Path(place) / f"run-{cached}"
                    given = [str(folder), "--run-dir", str(run), "--seed", str(seed), *flags]
                    result = _train(given, Path(place))
                    runs.append({
                        "data": folder.name, "seed": seed, "cached": cached, **result["time"],
                        "peak_memory_bytes": result["peak_memory_bytes"],
                        "metrics": {key: result["metrics"][key] for key in KEPT},
                    })  # fmt: skip
                    write_json(out, {
                        **machine(), "command": " ".join(["snm train DATA --run-dir RUN", *flags]),
                        "unit": "seconds", "runs": runs,
                    })  # fmt: skip
                    parts = sorted(runs[-1]["parts"].items(), key=lambda part: -part[1])
                    told = ", ".join(f"{name} {seconds:.1f}" for name, seconds in parts[:5])
                    print(f"{folder.name:<18} {runs[-1]['whole']:6.1f} s: {told}", flush=True)


def _train(given: list[str], cache: Path) -> dict[str, Any]:
    words = [sys.executable, "-m", "snm", "train", *given]
    environment = os.environ | {"SNM_CACHE": str(cache / "cache")}
    subprocess.run(words, check=True, env=environment, stdout=subprocess.DEVNULL)
    return read_json(Path(given[2]) / "result.json")


if __name__ == "__main__":
    tyro.cli(main)
