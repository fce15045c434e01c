"""Compares two ways to keep label embeddings at unit length: normalization and projection.

The paper only says that each class is a normalized vector. If rows are normalized in the forward
pass, their gradient is tangential, so every step makes the stored row longer, and the same step
then turns it less. Projection after each update keeps rows at unit length: the learning rate keeps
its meaning, and the stored rows are the exported ones.

Both variants are trained with automatic differentiation over whole tables and plain SGD at constant
learning rates, with negative sampling and with mining, and scored on a held-out fifth of train. The
code shares only data, sampling and metrics with the trainer, so it also serves as a reference.

    python -m experiments.mining.row_norms DATA --out experiments/results/row-norms-NAME.json

Takes about 15 minutes on 2 cores.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

import snm
from experiments.shared.command_line import run_command
from snm.data.weighting import Weighting
from snm.evaluation.metrics import Metrics
from snm.runs.folder import write_json
from snm.sampling.sample import excluded_slots
from snm.sampling.uniform import uniform_host

RATES = (3.0, 10.0, 30.0, 100.0)
BATCH, DIM, SAMPLED = 256, 128, 4096


@functools.partial(jax.jit, static_argnames=("mined", "project"), donate_argnums=0)
def step(
    params: dict[str, jax.Array],
    inputs: jax.Array,
    positives: jax.Array,
    sample: Any,
    rate: float,
    *,
    mined: int,
    project: bool,
) -> dict[str, jax.Array]:
    """One SGD step of the BOWL with hinge on the `mined` highest scores of the sample."""

    def loss(params: dict[str, jax.Array]) -> jax.Array:
        queries = snm.normalize(inputs @ params["features"])
        classes = params["classes"] if project else snm.normalize(params["classes"])
        positive = jnp.sum(queries * classes[positives], axis=1)
        negative = queries @ classes[sample.ids].T
        slots = excluded_slots(sample, positives)
        negative = negative.at[jnp.arange(len(positives)), slots].set(-jnp.inf)
        hardest, _ = jax.lax.top_k(negative, mined)
        return jnp.mean(1 - positive) + jnp.mean(1 + hardest)

    grads = jax.grad(loss)(params)
    params = jax.tree.map(lambda p, g: p - rate * g, params, grads)
    if project:
        params["classes"] = snm.normalize(params["classes"])
    return params


def train(parts: snm.Dataset, rate: float, mined: int, project: bool, epochs: int) -> float:
    """Trains for `epochs` passes and returns P@1 on the held-out part."""
    assert parts.test is not None
    weighting = Weighting.fit("tfidf", parts.train.features)
    inputs, labels = weighting.apply(parts.train.features), parts.train.labels
    num_labels = labels.shape[1]
    sampled = min(SAMPLED, num_labels - 1)
    keys = jax.random.split(jax.random.key(0))
    sizes = {"features": inputs.shape[1], "classes": num_labels}
    params = {
        name: snm.normalize(jax.random.normal(key, (size, DIM)))
        for key, (name, size) in zip(keys, sizes.items(), strict=True)
    }
    rng, number = np.random.default_rng(0), 0
    counts = np.diff(labels.indptr)
    for _ in range(epochs):
        order = rng.permutation(np.flatnonzero(counts))
        for first in range(0, len(order) - BATCH + 1, BATCH):
            points = order[first : first + BATCH]
            entries = labels.indptr[points] + (rng.random(BATCH) * counts[points]).astype(int)
            sample = uniform_host(0, number, num_labels=num_labels, size=sampled + 1)
            params = step(
                params,
                inputs[points].toarray(),
                labels.indices[entries],
                sample,
                rate,
                mined=min(mined, sampled),
                project=project,
            )
            number += 1
    classes = snm.normalize(params["classes"])
    found = Metrics.start(num_labels, ks=(1,))
    held_out = weighting.apply(parts.test.features)
    for first in range(0, held_out.shape[0], 1024):
        rows = slice(first, first + 1024)
        queries = snm.normalize(held_out[rows].toarray() @ params["features"])
        best = np.asarray(jnp.argmax(queries @ classes.T, axis=1))[:, None]
        found = found.update(best, parts.test.labels[rows])
    return float(found.result()["P@1"])


def main(data: tyro.conf.Positional[str], out: Path, epochs: int = 4) -> None:
    """Trains both variants at every learning rate and writes JSON.

    Args:
      data: folder of a data set.
      out: JSON file to write.
      epochs: passes over four fifths of train.
    """
    dataset = snm.load_data(data)
    parts = dataset.split(0.2, seed=0)
    table = Table(title=f"{dataset.name}: P@1 on a held-out fifth, {epochs} epochs")
    for column in ("negatives", "rows", *(f"rate {rate:g}" for rate in RATES)):
        table.add_column(column, justify="left" if column in ("negatives", "rows") else "right")
    rows = []
    for name, mined in (("all sampled", SAMPLED), ("top-8", 8)):
        for project in (True, False):
            how = "projected" if project else "normalized in the forward pass"
            found = [round(train(parts, rate, mined, project, epochs), 2) for rate in RATES]
            rows.append({"negatives": name, "rows": how, "rates": RATES, "P@1": found})
            print(rows[-1], flush=True)
            table.add_row(name, how, *(f"{value:.2f}" for value in found))
            sizes = {"epochs": epochs, "dim": DIM, "sampled": SAMPLED, "batch": BATCH}
            write_json(out, {"data": dataset.name, "sha256": dataset.sha256, **sizes, "arms": rows})
    Console().print(table)


if __name__ == "__main__":
    run_command(main)
