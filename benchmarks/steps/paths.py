"""Measures what each alternative path of a training step gains on common settings.

The step has several ways to compute the same result. For each way, and each setting that uses it,
this compiles the step with and without it, and times both in turns in one process. The ratio is the
time with the way over the time without it: the way pays if the ratio is below 1.

    python -m benchmarks.steps.paths --data path/to/sets --out benchmarks/results/paths.json

`--data` is the folder that holds `citeulike-t-14k`, `delicious` and `gowalla`. Takes some ten
minutes on two cores.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import jax

from snm.bench.shapes import SHAPES, make_model, make_source, make_state
from snm.config.resolve import resolve
from snm.config.settings import preset
from snm.data.load import load
from snm.data.weighting import Weighting
from snm.head import plan
from snm.machine.compiler import step_options
from snm.machine.versions import environment_record
from snm.model.placement import init_state_on, table_bytes
from snm.model.train_step import train_step
from snm.runs.folder import write_json
from snm.topk import parallel, search
from snm.trainer.start.prepare import prepare

_BATCHES = 4


def _without(module: Any, name: str, value: Any) -> Callable[[], Any]:
    """A patch that holds while a step is compiled."""
    return lambda: mock.patch.object(module, name, value)


WAYS = {
    "top-k on all cores": _without(parallel, "_num_parts", lambda _: 1),
    "candidates of blocks": _without(search, "choose_quota", lambda *_, **__: None),
    "folds of 16 scores": _without(search, "WIDTH", 1 << 20),
    "mining by threshold": _without(plan, "_uses_threshold", lambda *_: False),
    "whole lists, not mined": _without(plan, "_uses_whole_lists", lambda *_: False),
    "products": _without(plan, "pairs_are_cheaper", lambda *_: True),
    "pairs": _without(plan, "pairs_are_cheaper", lambda *_: False),
}
"""Name -> the step without it."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting that users meet: a data set or a shape, and what differs from its preset."""

    name: str
    data: str
    changes: tuple[tuple[str, Any], ...] = ()
    preset: str = "default"


def _settings() -> list[Setting]:
    found = [Setting(f"default on {data}", data) for data in REAL]
    for mined in (16, 64, 256, "all"):
        found.append(
            Setting(f"compare top-{mined} on citeulike", REAL[0], (("mined", mined),), "paper")
        )
    for vartheta in ("power-law", "epsilon-tail", "subsample"):
        changes = (("mined", 64), ("vartheta", vartheta))
        found.append(Setting(f"compare {vartheta} on citeulike", REAL[0], changes, "paper"))
    lists = (("loss", "listnet"), ("positives", "all"), ("exclude", "all"),
             ("score_scale", "auto"), ("learning_rate", "auto"), ("mined", "all"))  # fmt: skip
    found.append(Setting("compare listnet, all, on citeulike", REAL[0], lists, "paper"))
    for shape in ("eurlex", "amazoncat", "amazon670k"):
        for mined in SHAPES[shape].mined:
            found.append(Setting(f"shape {shape}, k' {mined}", shape, (("mined", mined),)))
    return found


REAL = ("citeulike-t-14k", "delicious", "gowalla")


def set_up(setting: Setting, folder: Path) -> tuple[Any, Any, list[Any]]:
    """Model, state and batches of a setting."""
    if setting.data in SHAPES:
        shape, mined = SHAPES[setting.data], dict(setting.changes)["mined"]
        source = make_source(shape, shape.sampled, _BATCHES * shape.batch, resident=False)
        model, state = make_model(shape, mined), make_state(shape)
    else:
        config = dataclasses.replace(preset(setting.preset), **dict(setting.changes))
        data = load(folder / setting.data)
        config = resolve(config, data)
        weighting = Weighting.fit(config.weighting, data.train.features)
        ready = prepare(config, data, weighting)
        source, model = ready.source, ready.model
        state = init_state_on(model)
    stacks = [jax.tree.map(lambda leaf: leaf[0], source.stack(i, 1)) for i in range(_BATCHES)]
    return model, state, [jax.device_put(stack) for stack in stacks]


def lowered(model: Any, state: Any, batch: Any) -> Any:
    """The step's program, traced anew, with the options of training for the compiler."""
    options = step_options(table_bytes(model))
    step = jax.jit(
        lambda state, batch: train_step(model, state, batch),
        donate_argnums=0,
        compiler_options=options,
    )
    return step.lower(state, batch)


def ratios(setting: Setting, folder: Path, repeats: int) -> dict[str, Any]:
    """Each way that changes this setting's program: the ratio with it to without it."""
    model, state, batches = set_up(setting, folder)
    step = lowered(model, state, batches[0])
    programs = {"as it is": step.compile()}
    for name, off in WAYS.items():
        jax.clear_caches()
        with off():
            other = lowered(model, state, batches[0])
        if other.as_text() != step.as_text():
            programs[name] = other.compile()
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(repeats + 2):
        for name, program in programs.items():
            begin = time.perf_counter()
            for batch in batches:
                state, metrics = program(state, batch)
            jax.block_until_ready((state, metrics))
            times[name].append((time.perf_counter() - begin) / len(batches))
    kept = {name: values[2:] for name, values in times.items()}
    base = kept.pop("as it is")
    return {
        "setting": setting.name,
        "step_ms": round(1e3 * statistics.median(base), 3),
        "ways": {
            name: round(statistics.median(a / b for a, b in zip(base, values, strict=True)), 3)
            for name, values in kept.items()
        },
    }


def main() -> None:
    """Measures, prints a table and writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--only", default="", help="settings whose name contains this")
    asked = parser.parse_args()
    found = []
    for setting in _settings():
        if asked.only in setting.name:
            one = ratios(setting, asked.data, asked.repeats)
            print(f"{one['setting']:<38} {one['step_ms']:8.1f} ms  {one['ways']}", flush=True)
            found.append(one)
    record = {"surroundings": environment_record(), "repeats": asked.repeats, "settings": found}
    write_json(asked.out, record)


if __name__ == "__main__":
    main()
