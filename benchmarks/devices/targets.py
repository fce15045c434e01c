"""Counts the operations of steps and evaluations compiled for accelerators not in this machine.

python -m benchmarks.devices.targets --json benchmarks/results/targets.json    # all cases: an hour
python -m benchmarks.devices.targets --case "h100, step, amazon670k, k' 16"    # prints one
python -m benchmarks.devices.targets --plans --json benchmarks/results/target-plans.json # plans()

It needs the extras target-tpu and target-cuda. `--label` names the version that is counted; the
output file keeps the rows of other labels. `--plans` keeps the plans of other targets and shapes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command_line import read_results, write_results

STEPS = 4
CASES = [  # target, program, shape, k', settings of the head
    ("v5e", "step", "amazon670k", 16, {}),
    ("v5e", "step", "amazon670k", 256, {}),
    ("v5e", "step", "amazon670k", "all", {}),
    ("v5e", "evaluation", "amazon670k", 16, {}),
    ("v5e", "evaluation", "amazon670k", 16, {"matmul_precision": "tensorfloat32"}),
    ("v5e", "evaluation", "amazon3m", 16, {}),
    ("v5p", "step", "amazon670k", 16, {}),
    ("v5p", "evaluation", "amazon3m", 16, {}),
    ("h100", "step", "amazon670k", 16, {}),
    ("h100", "step", "amazon670k", 256, {}),
    ("h100", "step", "amazon670k", "all", {}),
    ("h100", "evaluation", "amazon3m", 16, {}),
]


def name_of(target: str, program: str, shape: str, mined: int | str, head: dict[str, Any]) -> str:
    """The name of a case."""
    k = f", k' {mined}" if program == "step" else ""
    return ", ".join([target, program, shape]) + k + "".join(f", {v}" for v in head.values())


def compiled(target: str, program: str, shape: str, mined: int | str, head: dict[str, Any]) -> Any:
    """Compiles a case."""
    from snm.bench.shapes import SHAPES, make_model, make_source
    from snm.targets.devices import make_devices
    from snm.targets.programs import compile_scoring, compile_training
    from snm.targets.table import TARGETS

    of = SHAPES[shape]
    count = of.sampled if mined == "all" else int(mined)
    model = make_model(of, count)
    model = dataclasses.replace(model, spec=dataclasses.replace(model.spec, **head))
    there, devices = TARGETS[target], make_devices(TARGETS[target], 1)
    if program == "evaluation":
        return compile_scoring(program, model, 1, 1 << 16, there, devices, (1, 1))
    source = make_source(of, count, STEPS * of.batch, resident=True)
    longest = of.sampled // 4 if count == 256 else 1024
    return compile_training(program, model, source, there, devices, (1, 1), STEPS, longest)


def row_of(found: Any, target: str) -> dict[str, Any]:
    """The counts of a program, each step's."""
    from snm.targets.report import estimate_seconds
    from snm.targets.table import TARGETS

    seconds, bound = estimate_seconds(found, TARGETS[target])
    return {
        "temporary_mib": round(found.temporaries / 2**20, 1),
        "aliased_mib": round(found.aliased / 2**20, 1),
        "moved_mib": round(found.account.moved / found.steps / 2**20, 1),
        "gflop": {k: round(n / found.steps / 1e9, 1) for k, n in found.account.operations.items()},
        "kilocycles_by_xla": round(found.account.cycles / found.steps / 1e3),
        "least_ms": round(1e3 * seconds, 3),
        "bound": bound,
        "faults": found.faults,
        "compile_seconds": round(found.seconds),
    }


# -- plans -------------------------------------------------------------------------------------

PLANNED = ("amazon670k", "amazon3m")


def make_dataset(shape: str) -> Any:
    """A data set of a shape: a few points, each as often as its number of points asks for.

    A compiled program depends on sizes alone: points, features and labels, and the longest batch.
    """
    from snm.bench.shapes import SHAPES, make_points
    from snm.data.dataset import Dataset, Points

    of = SHAPES[shape]
    some = 16 * of.batch
    rows = np.arange(of.num_points) % some
    features, labels = (matrix[rows] for matrix in make_points(of, some))
    return Dataset(shape, Points(features, labels), None, None, sha256=shape)


def plans(targets: list[str], shapes: list[str]) -> Iterator[dict[str, Any]]:
    """What `snm plan --preset paper --sampled B --target T --json` prints."""
    from snm.bench.shapes import SHAPES
    from snm.config.resolve import resolve
    from snm.config.settings import preset
    from snm.machine.platform import compiling_for
    from snm.targets.programs import compile_run
    from snm.targets.report import report
    from snm.targets.table import TARGETS

    for shape in shapes:
        dataset, of = make_dataset(shape), SHAPES[shape]
        for name in targets:
            target = TARGETS[name]
            asked = dataclasses.replace(
                preset("paper"), dim=of.dim, batch_size=of.batch, sampled=of.sampled
            )
            with compiling_for(target.backend, target.memory, target.on_chip):
                config = resolve(asked, dataset)
            programs, steps = compile_run(dataset, config, target)
            yield {"shape": shape, **report(target, config.mesh, programs, steps, target.usable)}


def write_plans(options: argparse.Namespace) -> None:
    """Prints plans, or writes each into the file as soon as it is made."""
    from snm.targets.table import TARGETS

    targets, shapes = options.target or list(TARGETS), options.shape or list(PLANNED)
    kept = read_results(options.json, {"plans": []})["plans"]
    for found in plans(targets, shapes):
        of = found["shape"], found["target"]
        kept = [one for one in kept if (one["shape"], one["target"]) != of] + [found]
        print(*of, json.dumps(found), flush=True)
        write_results(options.json, {"plans": kept})


def main() -> None:
    """Compiles the cases, and prints or writes their counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    parser.add_argument("--case", action="append", help="name of a case; default all")
    parser.add_argument("--label", default="after")
    parser.add_argument("--plans", action="store_true", help="plans in place of cases")
    parser.add_argument("--target", action="append", help="of the plans; default all")
    parser.add_argument("--shape", action="append", help=f"of the plans; default {PLANNED}")
    options = parser.parse_args()
    if options.plans:
        return write_plans(options)
    kept = read_results(options.json)
    for case in CASES:
        name = name_of(*case)
        if options.case and name not in options.case:
            continue
        row = row_of(compiled(*case), case[0])
        kept.setdefault(name, {})[options.label] = row
        print(name, json.dumps(row), flush=True)
        write_results(options.json, kept)


if __name__ == "__main__":
    main()
