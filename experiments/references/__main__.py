"""Measures the references: `python -m experiments.references DATA ... --out FILE`.

    python -m experiments.references DATA ... --out FILE [--names leml sleec] [--seen drop]
    python -m experiments.references DATA ... --out FILE --held-out --names leml/0 leml/1 leml/2

The second form scores a held-out fifth of train instead of test, to choose settings by. Each
reference has a process of its own, as the packages of `snm compare --peers` do, and gets the same
split, features and metric code. `processor_seconds` are those of the whole process on all cores;
other programs on the machine change them less than `seconds`. If the output file exists, its runs
are not repeated.
"""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

import tyro

from experiments.references.table import PEERS, REFERENCES
from experiments.shared.command_line import run_command
from snm.data.load import load
from snm.machine.versions import machine_record
from snm.runs.folder import read_json, write_json


def main(
    data: tyro.conf.Positional[list[str]],
    out: Path,
    names: tuple[str, ...] = tuple(REFERENCES),
    held_out: bool = False,
    seen: Literal["keep", "drop"] = "keep",
    minutes: float = 20,
) -> None:
    """Runs each reference on each data set, and writes JSON after each run.

    Args:
      data: folders of data sets.
      out: JSON file to write; its runs are kept, and not repeated.
      names: references, or NAME/I with the I-th of the settings that are tried.
      held_out: score a held-out fifth of train, not test.
      seen: `drop` removes labels that are among a point's own features from the answers.
      minutes: of processor time. A run that needs more is ended, and recorded without figures.
    """
    for folder in data:
        name = load(folder).name
        for reference in names:
            split = "held-out" if held_out else "test"
            key = {"data": name, "name": reference, "split": split, "seen": seen}
            runs = read_json(out)["runs"] if out.exists() else []
            if any(all(run.get(part) == key[part] for part in key) for run in runs):
                continue
            run = {**key, **_measured(reference, folder, held_out, seen, minutes)}
            before = read_json(out) if out.exists() else {"runs": []}  # others may write it too
            write_json(out, {**before, **machine_record(), "runs": [*before["runs"], run]})
            figures = run.get("metrics", {})
            text = [f"{at} {figures[at]:.2f}" for at in ("P@1", "P@3", "P@5") if at in figures]
            print(name, reference, *(text or [run["ended"]]), flush=True)


def _measured(
    reference: str, folder: str, held_out: bool, seen: str, minutes: float
) -> dict[str, Any]:
    before = _processor_seconds()
    with tempfile.TemporaryDirectory() as place:
        found = Path(place) / "result.json"
        command = [sys.executable, "-m", "snm.compare.peers.process",
                   f"experiments.references:{reference}", folder, str(found),
                   f"--seen={seen}"]  # fmt: skip
        limit = round(60 * minutes)
        with subprocess.Popen(command + ["--validation-fraction=0.2"] * held_out) as process:
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit, limit + 5))
        spent = _processor_seconds() - before
        if process.returncode == -signal.SIGXCPU:
            ended = f"not done in {minutes:g} minutes of processor time"
            return {"ended": ended, "settings": PEERS[reference].settings}
        if process.returncode:
            raise RuntimeError(f"{reference} failed on {folder}: {process.returncode}")
        result = read_json(found)
    keys = ("settings", "metrics", "seconds", "predict_seconds", "peak_memory_bytes",
            "memory_before_bytes")  # fmt: skip
    return {
        **{key: result[key] for key in keys},
        "sha256": result["data"]["sha256"],
        "processor_seconds": spent,
    }


def _processor_seconds() -> float:
    """Of all processes that this one started, which have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    run_command(main)
