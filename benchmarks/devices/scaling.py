"""Measures the communication of a step on many devices, and estimates its time on many GPUs.

python -m benchmarks.devices.scaling count    # compiles steps and counts their collectives: minutes
python -m benchmarks.devices.scaling time     # steps on a mesh against one device: minutes
python -m benchmarks.devices.scaling plan     # an estimate from the assumptions in `AssumedGpu`

Each prints tables of `benchmarks/devices/SCALING.md`.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import time
from collections.abc import Callable
from typing import Any

from snm.targets.account import Exchange, account
from snm.targets.module import Module

DIM = 512
MINED = 256
SAMPLED = 32_768
FEATURES_A_POINT = 50
LABELS_A_POINT = 5

# -- counting ----------------------------------------------------------------------------------

COUNTED = [  # labels, features, batch, mesh
    (100_000, 100_000, 256, "data=2,label=4"),
    (1_000_000, 100_000, 256, "data=2,label=4"),
    (10_000_000, 100_000, 256, "data=2,label=4"),
    (10_000_000, 10_000_000, 256, "data=2,label=4"),
    (1_000_000, 100_000, 256, "label=2"),
    (1_000_000, 100_000, 256, "label=8"),
    (1_000_000, 100_000, 256, "label=32"),
    (1_000_000, 100_000, 256, "data=8"),
    (1_000_000, 10_000_000, 256, "data=8"),
    (1_000_000, 100_000, 256, "data=8,label=4"),
    (1_000_000, 100_000, 1024, "data=8,label=4"),
]


def collectives(module: str) -> list[Exchange]:
    """The collectives in the text of a compiled module."""
    return account(Module(module)).exchanges


def model_and_source(labels: int, features: int, batch: int, data_parts: int) -> tuple[Any, Any]:
    """The model of the default preset, and batches whose points are cut into so many parts."""
    import snm
    from snm.batches.epoch_order import Order
    from snm.batches.sources.build import make_source
    from snm.config.resolve import resolve
    from snm.model.from_config import make_model

    data = snm.generate(
        points=batch, test_points=1, features=2000, labels=1000, seed=0,
        labels_per_point=LABELS_A_POINT, nonzeros_per_point=FEATURES_A_POINT,
    )  # fmt: skip
    config = dataclasses.replace(
        snm.preset("default"), dim=DIM, members=1, batch_size=batch, sampled=900, mined=MINED
    )
    config = dataclasses.replace(resolve(config, data), sampled=SAMPLED, score_scale=15.0)
    model = make_model(config, features, labels)
    matrices = data.train.features.copy(), data.train.labels.copy()
    for matrix, width in zip(matrices, (features, labels), strict=True):
        matrix.resize(matrix.shape[0], width)
    order = Order.of(batch, batch, 0, data_parts)
    source = make_source(model.spec, *matrices, order, data_parts=data_parts)
    return model, source


def compile_step(labels: int, features: int, batch: int, mesh_text: str) -> str:
    """Compiles one step of the default preset from abstract tables; returns the module's text."""
    from snm.batches.device_parts import spread_stack
    from snm.distributed.mesh import DATA, make_mesh
    from snm.model.placement import abstract_state_on
    from snm.trainer.steps.programs import jitted_steps

    mesh = make_mesh(mesh_text, labels, batch)
    assert mesh is not None
    model, source = model_and_source(labels, features, batch, mesh.shape[DATA])
    stack = spread_stack(source.stack(0, 1), mesh)
    step = jitted_steps(model, source, source.shape(0), mesh)
    return step.lower(abstract_state_on(mesh, model), (), stack).compile().as_text()


def count() -> None:
    """Prints the bytes that collectives gather, reduce and send in a step, per device."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 32)
    print("| labels | features | batch | mesh | collectives | gathered MiB | reduced MiB | largest "
          "MiB | sent a device, MiB | by formula |")  # fmt: skip
    print("|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|")
    for labels, features, batch, mesh in COUNTED:
        found = collectives(compile_step(labels, features, batch, mesh))
        gathered = sum(one.size for one in found if one.kind == "all-gather")
        reduced = sum(one.size for one in found if one.kind in ("all-reduce", "reduce-scatter"))
        parts = dict(part.split("=") for part in mesh.split(","))
        data, label = int(parts.get("data", 1)), int(parts.get("label", 1))
        formula = sum(sent_bytes(batch, data, label).values())
        cells = (gathered, reduced, max(one.size for one in found),
                 sum(one.sent for one in found), formula)  # fmt: skip
        shown = " | ".join(f"{cell / 2**20:.2f}" for cell in cells)
        print(f"| {labels:,} | {features:,} | {batch} | `{mesh}` | {len(found)} | {shown} |",
              flush=True)  # fmt: skip


# -- timing ------------------------------------------------------------------------------------

TIMED = {  # batch -> meshes, each against one device with that batch
    256: ("label=2", "label=8", "data=2,label=4", "data=8"),
    128: ("data=4",),
    64: ("data=2",),
}
TIMED_MINED = (16, 256)
TIMED_DATA = dict(points=1024, test_points=1, features=20_000, labels=50_000, seed=0,
                  labels_per_point=LABELS_A_POINT, nonzeros_per_point=FEATURES_A_POINT)  # fmt: skip
TIMED_SETTINGS = dict(dim=128, members=1, sampled=4096)
STEPS = 4  # steps per dispatch, as in training on a CPU
ROUNDS = 12
_CLOCKS = (time.perf_counter, time.process_time)


def make_stepper(data: Any, batch: int, mesh_text: str, mined: int) -> Callable[[], None]:
    """A function that takes `STEPS` steps of the default preset on a mesh; "" is one device."""
    import jax

    import snm
    from snm.batches.device_parts import spread_stack
    from snm.batches.sources.build import make_run_source
    from snm.config.resolve import resolve
    from snm.data.weighting import Weighting
    from snm.distributed.mesh import make_mesh
    from snm.model.from_config import make_model
    from snm.model.placement import init_state_on
    from snm.trainer.steps.programs import jitted_steps

    config = dataclasses.replace(
        snm.preset("default"), batch_size=batch, mined=mined, **TIMED_SETTINGS
    )
    train = data.train
    model = make_model(resolve(config, data), train.num_features, train.num_labels)
    mesh = make_mesh(mesh_text, train.num_labels, batch)
    unweighted = Weighting("none")
    source = make_run_source(
        resolve(config, data), model.spec, train, None, unweighted, mesh, seed=0
    )
    stack = spread_stack(source.stack(0, STEPS), mesh)
    state = init_state_on(model, mesh)
    step = jitted_steps(model, source, source.shape(0), mesh)

    def call() -> None:
        nonlocal state
        state, metrics = step(state, (), stack)
        jax.block_until_ready((state, metrics))

    return call


def time_interleaved(
    calls: dict[str, Callable[[], None]],
    rounds: int,
    clocks: tuple[Callable[[], float], ...] = _CLOCKS,
) -> dict[str, list[list[float]]]:
    """Times each call with each clock; every round runs all calls in turn.

    Returns:
      name -> for each clock, a list of the times of all rounds.
    """
    found: dict[str, list[list[float]]] = {name: [[] for _ in clocks] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begun = [clock() for clock in clocks]
            call()
            for numbers, clock, before in zip(found[name], clocks, begun, strict=True):
                numbers.append(clock() - before)
    return found


def time_steps() -> None:
    """Prints the time of steps on meshes, as ratios to the same steps on one device."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    from rich.console import Console

    import snm
    from snm.bench.contest import quartiles, ratios

    data = snm.generate(**TIMED_DATA)
    print(f"load average {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores; {ROUNDS} rounds\n")
    print(f"| {' | '.join(_TIMED)} |\n|---:|---:|---:|---|---:|---|---:|---|---:|")
    for mined in TIMED_MINED:
        for batch, meshes in TIMED.items():
            with Console(stderr=True).status(f"k' {mined}, batch {batch}"):
                calls = {name: make_stepper(data, batch, name, mined) for name in ("", *meshes)}
                time_interleaved(calls, 2)  # compiles, and warms up
                found = time_interleaved(calls, ROUNDS)
            for mesh in meshes:
                cells = []
                for mine, one in zip(found[mesh], found[""], strict=True):
                    low, middle, high = ratios(mine, one)
                    cells += [f"{middle:.2f}", f"{low:.2f} to {high:.2f}"]
                parts = int(dict(part.split("=") for part in mesh.split(",")).get("data", 1))
                alone = 1e3 * quartiles(found[""][0])[1] / STEPS
                print(f"| {mined} | {batch} | {batch // parts} | `{mesh}` | {' | '.join(cells)} "
                      f"| {alone:.0f} |", flush=True)  # fmt: skip
    print(f"\nload average {os.getloadavg()[1]:.1f} at the end")


_TIMED = ("k'", "batch", "points a part", "mesh", "time to one device's", "(quartiles)",
          "processor time", "(quartiles)", "one device, ms")  # fmt: skip


# -- estimates ---------------------------------------------------------------------------------


def sent_bytes(batch: int, data: int, label: int, *, products: bool = False) -> dict[str, float]:
    """Bytes that a device sends in a step over each axis (rings); independent of K and d.

    Args:
      batch: points.
      data: parts of the points.
      label: parts of the class rows.
      products: whether matrix products update the rows of the sample, as on TPUs, not pairs.
    """
    from snm.distributed.mesh import DATA, feature_axis

    own = batch / data
    vector = 4 * DIM
    by_data = feature_axis(data, label) == DATA
    across = (label - 1) / label
    over_label = across * (
        2 * own * vector  # gradients of queries: reduced
        + (0 if by_data else 2 * own * vector)  # sums of feature rows: reduced
        + 2 * own * LABELS_A_POINT * 4  # scores of positives: reduced
        + label * own * MINED * 8  # top-k candidates of each shard, scores and ids: gathered
    )
    across = (data - 1) / data
    over_data = across * (
        batch * vector * 2  # queries, gradients of feature sums: gathered
        + (batch * vector if by_data else 0)  # sums of feature rows: reduce-scattered
        + batch * (LABELS_A_POINT + FEATURES_A_POINT) * 8  # ids and values of updates
        + (
            2 * SAMPLED / label * (vector + 4)  # gradients of sampled rows and biases: reduced
            if products
            else batch * MINED * 8  # ids and values of the mined: gathered
        )
        + 2 * DIM * DIM * 4  # the dense layer's gradient: reduced
    )
    return {"label": over_label, "data": over_data}


@dataclasses.dataclass(frozen=True)
class AssumedGpu:
    """Assumptions about the GPUs; none of them was measured here."""

    memory: float = 80e9  # bytes per GPU
    used: float = 0.75  # fraction of the memory for tables
    streamed: float = 2.3e12  # bytes per second of sequential reads: 70% of an H100's 3.35e12
    scattered: float = 1.0e12  # bytes per second for rows of 2 KiB in random order
    products: float = 100e12  # TF32 operations per second for matrices of these shapes
    near: float = 300e9  # bytes per second that a GPU sends within a host of 8
    far: float = 40e9  # bytes per second between hosts: 80% of one 400 Gbit/s port per GPU
    near_wait: float = 15e-6  # smallest seconds of a collective within a host
    far_wait: float = 40e-6  # smallest seconds of a collective between hosts
    host: int = 8  # GPUs per host


COLLECTIVES = {"label": 5, "data": 9}  # per step; one more over the axis of the feature rows
SIZES = [  # labels, features, batch
    (3_000_000, 340_000, 1024),
    (100_000_000, 10_000_000, 4096),
    (1_000_000_000, 10_000_000, 4096),
]
POINTS_A_GPU = 128
GPUS = (8, 16, 32, 64, 128, 256)


def estimate_step(
    labels: int, features: int, batch: int, gpus: int, on: AssumedGpu
) -> dict[str, Any]:
    """Memory, bytes and seconds of a step, with as few label shards as fit into memory."""
    from snm.distributed.mesh import feature_axis

    def tables_of(data: int, label: int) -> float:
        return 4.0 * (labels * (DIM + 1) / label + features * DIM / max(data, label))

    label = 1
    while tables_of(gpus // label, label) > on.memory * on.used:
        label *= 2
    if label > gpus:
        return {"label": label, "data": 0, "tables": tables_of(0, label)}
    data = gpus // label
    own = batch / data
    row = 4 * DIM
    sampled = SAMPLED / label
    operations = 2 * own * sampled * DIM + 3 * 2 * own * DIM * DIM
    streamed = sampled * row + own * sampled * 4  # rows of the sample, and one pass over scores
    pairs = own * MINED * row / label  # mined rows, for the gradient of queries
    # Every device of a label shard updates the same rows, from the points of the whole batch.
    touched = min(batch * MINED, SAMPLED) / label * 2 * row
    # A device reads the feature rows of its shard: for its own points if features are sharded over
    # labels, for all points of the batch if they are sharded over data.
    features_read = own * FEATURES_A_POINT * row / (label if label >= data else 1)
    features_written = batch * FEATURES_A_POINT * 2 * row / max(data, label)
    scattered = pairs + touched + features_read + features_written
    sent = sent_bytes(batch, data, label)
    wait = 0.0
    for axis, parts, span in (("label", label, label), ("data", data, label * data)):
        if parts > 1:
            far = span > on.host
            rate, least = (on.far, on.far_wait) if far else (on.near, on.near_wait)
            count = COLLECTIVES[axis] + (feature_axis(data, label) == axis)
            wait += sent[axis] / rate + count * least * math.log2(parts)
    compute = operations / on.products
    memory = streamed / on.streamed + scattered / on.scattered
    return {
        "label": label, "data": data, "tables": tables_of(data, label), "batch": own * row * 6
        + own * label * MINED * 8 + batch * ((2 + (data > label)) * row + MINED * 8),
        "sent": sum(sent.values()),
        "compute": compute, "memory": memory, "network": wait,
        "step": compute + memory + wait, "rate": batch / (compute + memory + wait),
    }  # fmt: skip


def plan() -> None:
    """Prints the estimates for a fixed batch (strong scaling) and a fixed batch per GPU (weak)."""
    for title, per_gpu in (("Strong", 0), ("Weak", POINTS_A_GPU)):
        fixed = "a batch of 1,024 points for 3 M labels, of 4,096 beyond"
        print(f"{title} scaling: {f'{per_gpu} points a GPU' if per_gpu else fixed}\n")
        print(f"| {' | '.join(_PLANNED)} |\n|{'---:|' * len(_PLANNED)}")
        for labels, features, batch in SIZES:
            for gpus in GPUS:
                found = estimate_step(labels, features, per_gpu * gpus or batch, gpus, AssumedGpu())
                print(f"| {labels // 10**6:,} M | {gpus} | {' | '.join(_cells(found))} |")
        print()


_PLANNED = ("labels", "GPUs", "data x label", "tables, GB", "exchange, MB", "sent, MB",
            "products, ms", "memory, ms", "network, ms", "step, ms", "points/s")  # fmt: skip


def _cells(found: dict[str, Any]) -> list[str]:
    if not found["data"]:
        return [f"{found['label']} GPUs at least", *[""] * 8]
    times = [f"{1e3 * found[name]:.2f}" for name in ("compute", "memory", "network", "step")]
    return [
        f"{found['data']} x {found['label']}",
        f"{found['tables'] / 1e9:.1f}",
        f"{found['batch'] / 1e6:.0f}",
        f"{found['sent'] / 1e6:.1f}",
        *times,
        f"{found['rate']:,.0f}",
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("count", "time", "plan"))
    {"count": count, "time": time_steps, "plan": plan}[parser.parse_args().what]()
