"""Times one training step against the matrix products that no step can do without.

    python -m benchmarks.step [--shapes S M L] [--repeats N] [--json FILE]

`benchmarks/README.md` says what the columns mean and what was measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from snm.batches import Batch
from snm.columns import columns_of, count_frequent
from snm.head import HeadSpec
from snm.model import Model, init_state, train_step
from snm.rows import SparseRows
from snm.sampling import uniform_host

__all__ = ["SHAPES", "Shape", "floor_flop", "measure", "quartiles", "ratios"]

SEED = 0
FLOOR_COLUMNS = 4096  # of the product that the floor's rate is taken from
FLOOR_PRODUCTS = 3  # a measurement of that rate
BATCHES = 4  # in rotation, so that no step finds the rows of the last in the cache


@dataclasses.dataclass(frozen=True)
class Shape:
    """One data set's size and the paper's batch and sample for it.

    Attributes:
      name: S, M or L.
      num_features: d.
      num_labels: K.
      nonzeros: mean number of features a point.
      batch: points a step.
      sampled: B.
      mined: the k' to time; `sampled` is negative sampling.
      dim: of rows and queries.
    """

    name: str
    num_features: int
    num_labels: int
    nonzeros: int
    batch: int
    sampled: int
    mined: tuple[int, ...]
    dim: int = 512


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("S", 5_000, 3_993, 236, 256, 1024, (1, 16, 1024)),
        Shape("M", 203_882, 13_330, 71, 512, 1024, (1, 16, 1024)),
        Shape("L", 135_909, 670_091, 75, 512, 32_768, (1, 16, 256, 32_768)),
    )
}


def floor_flop(shape: Shape, mined: int) -> int:
    """Floating point operations of the products that a step needs: a multiply-add counts two.

    Scores of the sample once where the best are mined; three times (scores, gradient of the
    queries, gradient of the rows) where all count. The linear layer three times.
    """
    scores = shape.sampled * (3 if mined == shape.sampled else 1)
    return 2 * shape.batch * shape.dim * (scores + 3 * shape.dim)


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    low, middle, high = np.percentile(values, (25, 50, 75))
    return float(low), float(middle), float(high)


def ratios(steps: Sequence[float], others: Sequence[float]) -> tuple[float, float, float]:
    """Quartiles of the ratio of two timings of the same round, round by round."""
    return quartiles([step / other for step, other in zip(steps, others, strict=True)])


# -- what is timed -----------------------------------------------------------------------------


def model_of(shape: Shape, mined: int) -> Model:
    """The paper's model: relu encoder, BOWL hinge, one positive a point, SGD."""
    head = HeadSpec(num_labels=shape.num_labels, sampled=shape.sampled, mined=mined)
    return Model(
        head=head,
        num_features=shape.num_features,
        dim=shape.dim,
        encoder="relu",
        feature_init=1.0,
        score_scale=1.0,
        input_dropout=0.0,
        learning_rate=1.0,
        tower_learning_rate=0.01,
        tower_momentum=0.9,
        scale_learning_rate=0.0,
        schedule="constant",
        total_steps=1,
        seed=SEED,
    )


def batches_of(shape: Shape) -> list[Batch]:
    """Batches on the device, their entries ordered as the loader's are."""
    batches = [batch_of(shape, step) for step in range(BATCHES)]
    named = np.concatenate([batch.features.ids[: batch.features.starts[-1]] for batch in batches])
    frequent = count_frequent(np.bincount(named), BATCHES * shape.batch)
    return [
        jax.device_put(batch._replace(columns=columns_of(batch.features, frequent)))
        for batch in batches
    ]


def batch_of(shape: Shape, step: int) -> Batch:
    """A synthetic batch: Poisson numbers of features, Zipf-like features and positives."""
    rng = np.random.default_rng([SEED, step])
    feature_law, label_law = (
        _zipf(size, np.random.default_rng(SEED)) for size in (shape.num_features, shape.num_labels)
    )
    counts = np.maximum(rng.poisson(shape.nonzeros, shape.batch), 1)
    drawn = [
        np.sort(rng.choice(shape.num_features, count, replace=False, p=feature_law))
        for count in counts
    ]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    # All batches share a padded length, as the loader's do, and so one compiled step.
    mean = shape.batch * shape.nonzeros
    entries = int(mean + 8 * np.sqrt(mean))
    ids, values = np.zeros(entries, np.int32), np.zeros(entries, np.float32)
    ids[: starts[-1]] = np.concatenate(drawn)
    values[: starts[-1]] = np.repeat(1 / np.sqrt(counts), counts)
    positives = rng.choice(shape.num_labels, shape.batch, p=label_law)
    terms = SparseRows(
        jnp.asarray(positives, jnp.int32),
        jnp.full(shape.batch, 1 / shape.batch, jnp.float32),
        jnp.arange(shape.batch + 1, dtype=jnp.int32),
    )
    return Batch(
        features=SparseRows(ids, values, starts),
        terms=terms,
        known=None,
        sample=uniform_host(SEED, step, shape.num_labels, shape.sampled + 1),
        step=np.asarray(step, np.int32),
        key=np.asarray(jax.random.key_data(jax.random.key(SEED))),
    )


def _zipf(size: int, rng: np.random.Generator) -> np.ndarray:
    """Probabilities in proportion to 1 / rank, the ranks in random order."""
    law = rng.permutation(1 / np.arange(1, size + 1))
    return law / law.sum()


def timed(call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Milliseconds of a call until its result is there, and the result."""
    begin = time.perf_counter()
    result = jax.block_until_ready(call(*arguments))
    return (time.perf_counter() - begin) * 1e3, result


def copies_table(text: str, shape: Shape) -> bool:
    """Whether an optimised module copies an array of the shape of a table."""
    tables = "|".join(f"{n},{shape.dim}" for n in (shape.num_features, shape.num_labels))
    return re.search(rf"= f32\[(?:{tables})\]\S* copy\(", text) is not None


def measure(shape: Shape, repeats: int) -> list[dict[str, Any]]:
    """Times every arm of a shape, interleaved with each other and with the floor's product."""
    models = {mined: model_of(shape, mined) for mined in shape.mined}
    # Arms share their parameters: a state has the same shape for every k'.
    state = jax.jit(init_state, static_argnums=0)(models[shape.mined[0]])
    batches = batches_of(shape)
    step = jax.jit(train_step, static_argnums=0, donate_argnums=1)
    compiled = {
        mined: step.lower(model, state, batches[0]).compile() for mined, model in models.items()
    }
    left = jax.random.normal(jax.random.key(SEED), (shape.batch, shape.dim))
    right = jax.random.normal(jax.random.key(SEED + 1), (shape.dim, FLOOR_COLUMNS))
    product = jax.jit(jnp.matmul).lower(left, right).compile()
    product_flop = 2 * shape.batch * shape.dim * FLOOR_COLUMNS * FLOOR_PRODUCTS

    def floor_rate() -> float:
        """Operations a millisecond."""
        taken = [timed(product, left, right)[0] for _ in range(FLOOR_PRODUCTS)]
        return product_flop / sum(taken)

    for warm in compiled.values():
        state, metrics = warm(state, batches[0])
    floor_rate()

    steps: dict[int, list[float]] = {mined: [] for mined in shape.mined}
    floors: dict[int, list[float]] = {mined: [] for mined in shape.mined}
    draws = []
    for turn in range(repeats):
        before = floor_rate()
        for mined, run in compiled.items():
            taken, (state, metrics) = timed(run, state, batches[turn % BATCHES])
            after = floor_rate()
            steps[mined].append(taken)
            floors[mined].append(floor_flop(shape, mined) / ((before + after) / 2))
            before = after
        draws.append(timed(uniform_host, SEED, turn, shape.num_labels, shape.sampled + 1)[0])
        if not metrics.ok:
            raise FloatingPointError(f"shape {shape.name}: a step was not finite")

    rows = [
        {
            "shape": shape.name,
            "mined": "all" if mined == shape.sampled else mined,
            "step_ms": quartiles(steps[mined]),
            "floor_ms": quartiles(floors[mined]),
            "over_floor": ratios(steps[mined], floors[mined]),
            "over_negative_sampling": ratios(steps[mined], steps[shape.sampled]),
            "temporaries_mb": compiled[mined].memory_analysis().temp_size_in_bytes / 1e6,
            "copies_table": copies_table(compiled[mined].as_text(), shape),
        }
        for mined in shape.mined
    ]
    draw = {
        "shape": shape.name,
        "mined": "draw",
        "step_ms": quartiles(draws),
        "over_step_16": ratios(draws, steps[16]),
    }
    return [*rows, draw]


# -- what is shown -----------------------------------------------------------------------------


def described() -> dict[str, Any]:
    """The machine, the versions and the day."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = re.findall(r"model name\s*: (.*)", info.read_text())
        cpu = names[0] if names else cpu
    return {
        "device": jax.devices()[0].device_kind,
        "processor": cpu,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "date": datetime.date.today().isoformat(),
        "seed": SEED,
    }


def table_of(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="One training step: median (quartiles)")
    for name in ("shape", "k'", "step ms", "/ floor", "/ k' all", "temp MB", "copy"):
        table.add_column(name, justify="right", no_wrap=True)

    def shown(values: Sequence[float] | None, digits: int) -> str:
        if values is None:
            return ""
        low, middle, high = (f"{value:.{digits}f}" for value in values)
        return f"{middle} ({low}-{high})"

    for row in rows:
        if "over_step_16" in row:
            share = row["over_step_16"][1]
            cells = [shown(row["step_ms"], 2), f"{share:.1%} of k' 16", "", "", ""]
        else:
            cells = [
                shown(row["step_ms"], 1),
                shown(row["over_floor"], 2),
                shown(row["over_negative_sampling"], 2),
                f"{row['temporaries_mb']:.1f}",
                "yes" if row["copies_table"] else "no",
            ]
        table.add_row(row["shape"], str(row["mined"]), *cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--repeats", type=int, default=25, help="rounds of all arms")
    parser.add_argument("--json", type=Path, help="write the results here")
    options = parser.parse_args()
    rows = []
    for name in options.shapes:
        rows += measure(SHAPES[name], options.repeats)
    Console(width=100).print(table_of(rows))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        result = {**described(), "repeats": options.repeats, "rows": rows}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
