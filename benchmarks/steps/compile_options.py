"""Measures what compiler options cost and save for the programs of a training on a CPU.

    python -m benchmarks.steps.compile_options DATA ... --out FILE

Each program of a first run is compiled under each set of options, without a cache. The programs
then run in turns on the same arguments: initial parameters, a pass for centroids (of large tables),
training steps, and the best labels of a block of points. The chosen options are in
`snm.machine.compiler`.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import snm
from benchmarks.command_line import make_parser, write_results
from snm.batches.csr_blocks import make_block
from snm.config.resolve import resolve
from snm.data.weighting import Weighting
from snm.machine.versions import machine_record
from snm.model.model import init_state
from snm.model.train_step import centroid_step, train_step
from snm.prediction.point_blocks import ROWS
from snm.prediction.programs import jitted_queries, jitted_top
from snm.trainer.start.prepare import prepare
from snm.trainer.steps.programs import jitted_steps

_LEVEL: dict[str, Any] = {"xla_backend_optimization_level": 1}
_FUSION: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False}
_OPTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "level 1": _LEVEL,
    "no fusion emitters": _FUSION,
    "both": _LEVEL | _FUSION,
    "level 0": {"xla_backend_optimization_level": 0},
}
_PLAIN = "none"


class Program(NamedTuple):
    """A program to compile, and its arguments."""

    name: str
    lowered: Callable[[], Any]
    arguments: Callable[[], tuple[Any, ...]]  # new ones each time if the program donates them


def main() -> None:
    """Prints a line for each program and set of options, and writes all as JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("data", nargs="+", type=Path, help="folders of data sets")
    parser.add_argument("--presets", nargs="+", default=["fast", "default"])
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    # XLA's own values. Where the environment has some, `snm` sets none, and those below count.
    os.environ["XLA_FLAGS"] += (
        " --xla_backend_optimization_level=3 --xla_cpu_use_fusion_emitters=true"
    )
    found = []
    for data in args.data:
        for preset in args.presets:
            for program in programs_of(data, preset):
                for arm in measure(program, args.rounds):
                    found.append({"data": data.name, "preset": preset, **arm})
                    print(describe_arm(found[-1]), flush=True)
    about = {"machine": machine_record(), "rounds": args.rounds}
    write_results(args.out, {**about, "programs": found})


def describe_arm(arm: dict[str, Any]) -> str:
    """A line for the terminal."""
    return (
        f"{arm['data']:16} {arm['preset']:8} {arm['program']:9} {arm['options']:19} compiling "
        f"{arm['compiling']:5.2f} s, running {arm['running'] * 1e3:8.1f} ms = "
        f"{arm['ratio']:.2f} of none"
    )


def measure(program: Program, rounds: int) -> Iterator[dict[str, Any]]:
    """Seconds of compiling, and medians of running in turns, under each set of options."""
    compiling, compiled = {}, {}
    for name, options in _OPTIONS.items():
        lowered = program.lowered()
        begun = time.perf_counter()
        compiled[name] = lowered.compile(compiler_options=options)
        compiling[name] = time.perf_counter() - begun
    running: dict[str, list[float]] = {name: [] for name in compiled}
    for turn in range(rounds + 1):
        for name, run in compiled.items():
            arguments = jax.block_until_ready(program.arguments())
            begun = time.perf_counter()
            jax.block_until_ready(run(*arguments))
            if turn:  # the first call warms up
                running[name].append(time.perf_counter() - begun)
    for name in compiled:
        ratios = np.array(running[name]) / running[_PLAIN]
        yield {
            "program": program.name,
            "options": name,
            "compiling": compiling[name],
            "running": float(np.median(running[name])),
            "ratio": float(np.median(ratios)),
        }


def programs_of(data: Path, preset: str) -> Iterator[Program]:
    """The programs of a first run with a preset, with arguments."""
    points = snm.load_data(data)
    config = resolve(snm.preset(preset), points)
    weighting = Weighting.fit(config.weighting, points.train.features)
    prepared = prepare(config, points, weighting)
    model = prepared.model
    start = functools.partial(init_state, model, jnp.uint32(0))
    state = jax.jit(start)()

    yield Program("start", lambda: jax.jit(lambda: start()).lower(), tuple)

    for name, source, step in (
        ("centroids", prepared.source.for_centroids(), centroid_step),
        ("steps", prepared.source, train_step),
    ):
        count = min(prepared.steps_per_dispatch, source.steps_per_epoch)
        rest = source.resident_arrays(), source.stack(0, count)
        steps = jitted_steps(model, source, source.shape(0), None, step)
        yield Program(
            name,
            functools.partial(steps.lower, state, *rest),
            functools.partial(_with_copy, state, *rest),
        )

    rows = np.arange(min(ROWS, points.train.features.shape[0]))
    block = make_block(weighting.apply(points.train.features), rows)
    queries = jitted_queries(model, None)
    found = state, block, queries(state, block)
    answers = jitted_top(model, min(100, points.train.num_labels), None)
    yield Program("best", lambda: answers.lower(*found), lambda: found)
    yield Program("queries", lambda: queries.lower(state, block), lambda: (state, block))


def _with_copy(state: Any, *rest: Any) -> tuple[Any, ...]:
    return jax.tree.map(jnp.copy, state), *rest


if __name__ == "__main__":
    main()
