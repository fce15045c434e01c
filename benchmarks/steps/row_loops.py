"""Measures loops over rows that are one kernel: training steps on a CPU, and their compilation.

    python -m benchmarks.steps.row_loops DATA ... --out benchmarks/results/row-loops.json

XLA reads the flag once per process (`snm.machine.xla_flags`). So processes take turns, with the
value that `import snm` sets and with the default of XLA. Each compiles the training steps of a
preset without a cache, and runs them. A program runs one step.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax

from benchmarks.command_line import make_parser, write_results
from benchmarks.steps.compile_options import programs_of
from snm.machine.versions import machine_record

_ARMS = {
    "whole": "",  # what `import snm` sets
    "by operation": "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1024",
}
_WARM = 2  # runs that do not count


def main() -> None:
    """Prints a line for each data set and preset, and writes all as JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("data", nargs="+", type=Path, help="folders of data sets")
    parser.add_argument("--presets", nargs="+", default=["fast", "default"])
    parser.add_argument("--turns", type=int, default=5, help="processes of each arm")
    parser.add_argument("--runs", type=int, default=100, help="steps that a process takes")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(_measured(args.data[0], args.presets[0], args.runs)))
        return
    found = []
    for data in args.data:
        for preset in args.presets:
            turns = [_turn(data, preset, args.runs) for _ in range(args.turns)]
            found.append({"data": data.name, "preset": preset, **_summary(turns), "turns": turns})
            print(_described(found[-1]), flush=True)
    write_results(args.out, {"machine": machine_record(), "runs": args.runs, "steps": found})


def _turn(data: Path, preset: str, runs: int) -> dict[str, dict[str, float]]:
    """One process of each arm, one after the other."""
    command = [sys.executable, "-m", "benchmarks.steps.row_loops", "--child", str(data)]
    command += ["--presets", preset, "--runs", str(runs)]
    turn = {}
    for arm, flags in _ARMS.items():
        env = {**os.environ, "XLA_FLAGS": flags, "JAX_ENABLE_COMPILATION_CACHE": "false"}
        out = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
        turn[arm] = json.loads(out.stdout.splitlines()[-1])
    return turn


def _measured(data: Path, preset: str, runs: int) -> dict[str, float]:
    """Seconds of compiling, and the median of running."""
    program = next(one for one in programs_of(data, preset) if one.name == "steps")
    begun = time.perf_counter()
    run = program.lowered().compile()
    compiling, running = time.perf_counter() - begun, []
    state, *rest = jax.block_until_ready(program.arguments())
    for _ in range(runs + _WARM):
        begun = time.perf_counter()
        state, _ = jax.block_until_ready(run(state, *rest))  # in place, as in a training
        running.append(time.perf_counter() - begun)
    return {"compiling": compiling, "step": statistics.median(running[_WARM:])}


def _summary(turns: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """The lowest of the turns, and their ratio, whole to by operation.

    A shared machine is slower by two fifths for a whole process now and then, in either arm.
    """
    whole, apart = _ARMS
    summary: dict[str, Any] = {}
    for what in ("compiling", "step"):
        lowest = {arm: min(turn[arm][what] for turn in turns) for arm in _ARMS}
        summary[what] = {**lowest, "ratio": lowest[whole] / lowest[apart]}
    return summary


def _described(found: dict[str, Any]) -> str:
    step, compiling = found["step"], found["compiling"]
    return (
        f"{found['data']:16} {found['preset']:8} step {step['whole'] * 1e3:6.2f} ms = "
        f"{step['ratio']:.2f} of loops by operation, compiling {compiling['whole']:.2f} s = "
        f"{compiling['ratio']:.2f}"
    )


if __name__ == "__main__":
    main()
