"""Benchmarks whole training steps, and the training loop around them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from snm.bench import peers
from snm.bench.contest import Contest, Contestant, Missing, OwnContestant
from snm.bench.rates import MachineRates, Work
from snm.bench.shapes import Shape, make_model, make_source, make_state
from snm.checkpoints.store import Checkpoints
from snm.machine.compiler import step_options
from snm.model.train_step import train_step, train_steps
from snm.runs.events import Counters, Stepped
from snm.trainer.start.prepare import steps_per_dispatch
from snm.trainer.steps.loop import LoopPlan, run_steps
from snm.trainer.steps.programs import Stage, StepPrograms

__all__ = [
    "StepContestants",
    "copies_table",
    "epoch_contest",
    "growth_contest",
    "step_contest",
    "step_work",
]

_BATCHES = 4  # used in rotation, so that a step does not find the previous step's rows cached
_STEPS_PER_CALL = {"cpu": 1, "gpu": 32}  # on an accelerator one dispatch, as in training
_EPOCH_STEPS = 32  # per call; at most one dispatch of them was finished before the clock started
_EPOCH_BATCHES = 64  # batches of data
_LOOP_STEPS = 10**9  # never reached
_GROWN = (13_000, 200_000, 3_000_000)  # labels


def step_work(shape: Shape, mined: int, rows_touched: float = 0.0) -> Work:
    """The minimal work of a step.

    With mining, the product of queries and sampled rows is computed once; with k' = B three times
    (scores, gradient of the queries, gradient of the rows). The linear layer takes three products.
    Sampled rows are read once; rows with a gradient are read again and written, counted as if all
    points had different mined labels, up to all that are sampled. If they share some, a step can do
    less. Feature rows are read twice and written once.

    Args:
      shape: the sizes.
      mined: k'.
      rows_touched: the number of distinct feature rows of a batch.
    """
    mines_all = mined == shape.sampled
    scores = shape.sampled * (3 if mines_all else 1)
    written = shape.sampled if mines_all else min(shape.sampled, shape.batch * (mined + 1))
    rows = shape.sampled + 2 * written + 3 * rows_touched
    return Work(
        flop=2 * shape.batch * shape.dim * (scores + 3 * shape.dim),
        bytes=4 * shape.dim * rows,
    )


class StepContestants:
    """Compiled steps of one shape that share one state.

    Args:
      shape: the sizes.
      machine: the machine that they run on.
    """

    def __init__(self, shape: Shape, machine: MachineRates):
        self._shape, self._machine = shape, machine
        on_device = machine.platform != "cpu"
        source = make_source(shape, shape.sampled, _BATCHES * shape.batch, resident=on_device)
        self._times = _STEPS_PER_CALL[machine.platform]
        resident = source.resident_arrays()
        entries = source.shape(0)
        one = [source.stack(step, 1) for step in range(_BATCHES)]
        if on_device:
            stacks = [jax.tree.map(lambda *leaves: np.concatenate(leaves), *one)]
            repeated = self._times // _BATCHES
            self._stacks = [jax.tree.map(lambda leaf: np.concatenate([leaf] * repeated), stacks[0])]
        else:
            self._stacks = [jax.tree.map(lambda leaf: leaf[0], stack) for stack in one]
        self._stacks = [jax.device_put(stack) for stack in self._stacks]
        self._materialize = functools.partial(source.materialize, resident, shape=entries)
        self._turn = itertools.cycle(self._stacks)
        # All k' share these parameters, whose shapes do not depend on k'.
        self._state = make_state(shape)
        features = source.features
        order, _ = source.order.epoch(0)
        self._touched = float(
            np.mean([len(np.unique(features[rows[rows >= 0]].indices)) for rows in order])
        )

    @property
    def times(self) -> int:
        """Steps of a call."""
        return self._times

    def batches(self) -> list[Any]:
        """The batches in the form of the CPU loader, for peers."""
        if self._machine.platform == "cpu":
            return self._stacks
        source = make_source(self._shape, self._shape.sampled, _BATCHES * self._shape.batch)
        one = [jax.tree.map(lambda leaf: leaf[0], source.stack(s, 1)) for s in range(_BATCHES)]
        return [jax.device_put(batch) for batch in one]

    def ours(self, mined: int, against: tuple[str, ...] = ()) -> OwnContestant:
        """A step with k' = `mined`; each call uses the next batch."""
        shape = self._shape
        model = make_model(shape, mined)
        if self._machine.platform == "cpu":
            run = functools.partial(train_step, model)
        else:
            run = functools.partial(train_steps, model, materialize=self._materialize)
        step = jax.jit(run, donate_argnums=0, compiler_options=step_options())
        compiled = step.lower(self._state, self._stacks[0]).compile()

        def call() -> None:
            self._state, metrics = compiled(self._state, next(self._turn))
            jax.block_until_ready(metrics)
            if not np.all(metrics.ok):
                raise FloatingPointError(f"shape {shape.name}: a step was not finite")

        shown: int | str = "all" if mined == shape.sampled else mined
        memory = compiled.memory_analysis()
        notes = {"temporary_bytes": None if memory is None else int(memory.temp_size_in_bytes),
                 "copies_table": copies_table(compiled.as_text() or "", shape)}  # fmt: skip
        return OwnContestant(
            f"k' {shown}",
            call,
            self._times,
            sampled=shape.sampled,
            mined=shown,
            work=step_work(shape, mined, self._touched),
            points=shape.batch,
            against=against,
            notes=notes,
        )


def step_contest(shape: Shape, machine: MachineRates) -> Iterator[Contest]:
    """Top-k' SNM for several k', negative sampling, and the peers."""
    steps = StepContestants(shape, machine)
    peer_names = ("k' all", "torch sparse", "torch sparse, mining first", "optax, dense gradients")
    ours = [
        steps.ours(mined, peer_names if mined == 16 else peer_names[:1]) for mined in shape.mined
    ]
    ours.append(steps.ours(shape.sampled))
    for contestant in ours:
        contestant.notes["negative_sampling"] = contestant.mined == "all"

    def find_peers() -> Sequence[Contestant | Missing]:
        if 16 not in shape.mined:
            return []
        if shape.samples_all:
            return [Missing(name, "needs a sample of the labels") for name in peer_names[1:]]
        return peers.steps(shape, 16, steps.batches(), machine.torch_device, steps.times)

    yield Contest("step", shape.name, machine, ours, find_peers)


def growth_contest(shape: Shape, machine: MachineRates) -> Iterator[Contest]:
    """The same step (k' = 16) for increasing numbers of labels; its time must not increase."""
    ours = []
    first = f"K {_GROWN[0]:,}"
    for labels in _GROWN:
        grown = dataclasses.replace(shape, num_labels=labels, sampled=min(shape.sampled, 8192))
        contestant = StepContestants(grown, machine).ours(16)
        contestant.name = contestant.case = f"K {labels:,}"
        contestant.against = () if labels == _GROWN[0] else (first,)
        contestant.notes |= {"labels": labels, "class_row_bytes": 4 * labels * shape.dim}
        ours.append(contestant)
    yield Contest("growth", shape.name, machine, ours, has_peaks=False)


def epoch_contest(shape: Shape, machine: MachineRates) -> Iterator[Contest]:
    """The training loop with its loader, dispatches and losses, without checkpoints."""
    for mined in shape.loop_mined:
        yield from _loop_contest(shape, machine, mined)


def _loop_contest(shape: Shape, machine: MachineRates, mined: int) -> Iterator[Contest]:
    resident = machine.platform != "cpu"
    source = make_source(shape, mined, _EPOCH_BATCHES * shape.batch, resident=resident)
    with tempfile.TemporaryDirectory() as folder:
        events = run_steps(
            StepPrograms([Stage(0, 1.0, make_model(shape, mined), source)]),
            make_state(shape),
            Counters(),
            LoopPlan(_LOOP_STEPS, steps_per_dispatch()),
            Checkpoints(Path(folder) / "checkpoints"),
        )
        steps = _EPOCH_STEPS if machine.platform == "cpu" else 128
        done, taken = 0, 0.0

        def run_some_steps() -> None:
            nonlocal done, taken
            begin, stop = time.perf_counter(), done + steps
            while done < stop:
                event = next(events)
                done = event.step if isinstance(event, Stepped) else done
            taken = (time.perf_counter() - begin) / steps

        loop = OwnContestant(
            "loop",
            run_some_steps,
            steps,
            sampled=shape.sampled,
            mined=mined,
            case="a step within the loop",
            work=step_work(shape, mined),
            points=shape.batch,
            against=("step alone",),
            # A dispatch is still running, and the loader prefetches.
            settle=lambda: time.sleep(6 * taken),
            notes={"points": shape.num_points,
                   "steps_per_epoch": -(-shape.num_points // shape.batch)},
        )  # fmt: skip
        yield Contest(
            "epoch", shape.name, machine, [loop], lambda: [_step_alone(shape, machine, mined)]
        )


def _step_alone(shape: Shape, machine: MachineRates, mined: int) -> Contestant:
    """The compiled step without the training loop."""
    step = StepContestants(shape, machine).ours(mined)
    return Contestant("step alone", step.call, step.times)


def copies_table(text: str, shape: Shape) -> bool:
    """Whether an optimized HLO module copies an array of the shape of a table."""
    tables = "|".join(f"{n},{shape.dim}" for n in (shape.num_features, shape.num_labels))
    return re.search(rf"= f32\[(?:{tables})\]\S* copy\(", text) is not None
