"""Peers: the same jobs with other packages, written as an experienced user of them would.

Each package is imported where it is used. If it is not installed, its contestants are `Missing`,
with the command that installs it.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from scipy.sparse import csr_matrix, load_npz, save_npz

from snm.bench.contest import Contestant, Missing
from snm.bench.shapes import SEED, Shape
from snm.prediction.predictor import Predictor
from snm.sampling.sample import excluded_slots
from snm.text import first_line, pip_install

__all__ = ["array_files", "bags", "draws", "prediction", "readers", "retrieval", "scores", "steps"]

Peers = Sequence[Contestant | Missing]

_FLOAT32_ONLY = "float32 only"
_DENSE_BYTES = 3e9  # the largest tables for dense gradients, which need four copies of them


def _needs(
    names: Sequence[str],
    make: Callable[[], Iterable[Callable[[], Any]]],
    *modules: str,
    times: int = 1,
) -> Peers:
    """The contestants of these names, or `Missing`: a module is not installed, or broken.

    Args:
      names: of the contestants.
      make: their calls, made where all modules are there.
      *modules: the modules, of which the last one is at fault if `make` fails.
      times: jobs of a call.
    """
    # PyTorch's threads spin while they wait, which slows down the next contestant.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # it is not there, or it cannot be loaded
            reason = f"{module} does not work here: {first_line(error)}"
            if isinstance(error, ModuleNotFoundError) and error.name == module:
                reason = f"{module} is not installed: {pip_install('bench')}"
            return [Missing(name, reason) for name in names]
    try:
        calls = list(make())
    except (OSError, RuntimeError) as error:  # such as one that was built for another device
        reason = f"{modules[-1]} does not work here: {first_line(error)}"
        return [Missing(name, reason) for name in names]
    return [Contestant(name, call, times) for name, call in zip(names, calls, strict=True)]


def draws(num_labels: int, size: int) -> Peers:
    """Sampling without replacement as it is usually written, in O(K) per draw."""
    rng = np.random.default_rng(SEED)
    key, counts = jax.random.key(SEED), itertools.count()

    @jax.jit
    def choice(key: jax.Array, count: jax.Array) -> jax.Array:
        key = jax.random.fold_in(key, count)
        return jax.random.choice(key, num_labels, (size,), replace=False)

    return [
        Contestant("numpy permutation", lambda: rng.permutation(num_labels)[:size]),
        Contestant("jax.random.choice", lambda: jax.block_until_ready(choice(key, next(counts)))),
    ]


def bags(shape: Shape, blocks: Sequence[Any], steps: jax.Array, device: str) -> Peers:
    """`torch.nn.EmbeddingBag(sparse=True)` and its sparse SGD."""

    def make() -> list[Callable[[], Any]]:
        from snm.bench.peers_torch import TorchBag

        peer = TorchBag(shape, blocks, np.asarray(steps), device)
        return [peer.forward, peer.forward_and_update]

    return _needs(("torch forward", "torch forward and update"), make, "torch")


def scores(
    queries: jax.Array,
    table: jax.Array,
    samples: Sequence[jax.Array],
    counts: Sequence[int],
    device: str,
    compute_dtype: str = "float32",
) -> Peers:
    """A gather, a matrix product and `torch.topk`."""
    names = [f"torch best {count}" for count in counts]
    if device == "cpu" and compute_dtype == "bfloat16":
        return [Missing(name, f"{_FLOAT32_ONLY} on a CPU") for name in names]

    def make() -> list[Callable[[], Any]]:
        from snm.bench.peers_torch import best_of_sample

        drawn = [np.asarray(sample) for sample in samples]
        call = best_of_sample(np.asarray(queries), np.asarray(table), drawn, device, compute_dtype)
        return [functools.partial(call, count) for count in counts]

    return _needs(names, make, "torch")


def steps(shape: Shape, mined: int, batches: Sequence[Any], device: str, times: int = 1) -> Peers:
    """The whole step: two forms in PyTorch, and one in JAX with dense gradients and optax.

    Args:
      shape: the sizes.
      mined: k'.
      batches: those of our step.
      device: of PyTorch.
      times: steps of PyTorch before it waits for the device; the step with optax is one dispatch.
    """

    def make() -> list[Callable[[], Any]]:
        from snm.bench.peers_torch import TorchStep

        on: dict[str, Any] = {"device": device, "times": times}
        plain = TorchStep(shape, mined, batches, mine_first=False, **on)
        first = TorchStep(shape, mined, batches, mine_first=True, like=plain, **on)
        return [plain, first]

    half = shape.compute_dtype == "bfloat16"
    names = ("torch sparse", "torch sparse, mining first")
    torch: Peers
    if half and device == "cpu":
        torch = [Missing(name, f"{_FLOAT32_ONLY} on a CPU") for name in names]
    else:
        torch = _needs(names, make, "torch", times=times)
    name = "optax, dense gradients"
    if half:
        return [*torch, Missing(name, _FLOAT32_ONLY)]
    size = 4 * shape.dim * (shape.num_features + shape.num_labels)
    if size > _DENSE_BYTES:
        return [*torch, Missing(name, f"its gradients would fill {size / 1e9:.0f} GB more")]
    return [*torch, Contestant(name, _dense_step(shape, mined, batches))]


def _dense_step(shape: Shape, mined: int, batches: Sequence[Any]) -> Callable[[], None]:
    """A step with autodiff through whole tables and `optax.sgd`, the simplest implementation."""
    first, second, third = jax.random.split(jax.random.key(SEED), 3)

    def unit(rows: jax.Array) -> jax.Array:
        square = jnp.sum(rows * rows, axis=-1, keepdims=True)
        return rows * lax.rsqrt(jnp.maximum(square, 1e-12))

    params = {
        "features": unit(jax.random.normal(first, (shape.num_features, shape.dim))),
        "linear": jax.random.normal(second, (shape.dim, shape.dim)) / np.sqrt(shape.dim),
        "classes": unit(jax.random.normal(third, (shape.num_labels, shape.dim))),
    }
    optimizer = optax.sgd(1.0)

    def loss(params: Any, batch: Any) -> jax.Array:
        ids, values, starts = batch.features
        rows = jnp.repeat(jnp.arange(shape.batch), jnp.diff(starts.at[-1].set(len(ids))),
                          total_repeat_length=len(ids))  # fmt: skip
        sums = jax.ops.segment_sum(values[:, None] * params["features"][ids], rows, shape.batch)
        queries = unit(jax.nn.relu(sums) @ params["linear"])
        positives, sample = batch.terms.ids, batch.sample.ids
        positive = jnp.sum(queries * unit(params["classes"][positives]), axis=1)
        all_scores = queries @ unit(params["classes"][sample]).T
        slots = excluded_slots(batch.sample, positives)
        all_scores = all_scores.at[jnp.arange(shape.batch), slots].set(-jnp.inf)
        top, _ = lax.top_k(all_scores, mined)
        return jnp.mean(jax.nn.relu(1 - positive) + jnp.mean(jax.nn.relu(1 + top), axis=1))

    def step(params: Any, state: Any, batch: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, batch)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    compiled = jax.jit(step, donate_argnums=(0, 1))
    held = [params, optimizer.init(params)]
    turn = 0

    def call() -> None:
        nonlocal turn
        held[0], held[1], value = compiled(held[0], held[1], batches[turn % len(batches)])
        turn += 1
        jax.block_until_ready((held, value))

    return call


def retrieval(table: jax.Array, queries: jax.Array, best: int, device: str) -> Peers:
    """Exact k-NN search by FAISS; on a GPU a product and a top-k of PyTorch."""

    def on_gpu() -> list[Callable[[], Any]]:
        from snm.bench.peers_torch import best_of_all

        return [best_of_all(np.asarray(queries), np.asarray(table), best, device)]

    def on_cpu() -> list[Callable[[], Any]]:
        index = _flat(np.asarray(table))
        asked = np.asarray(queries)
        return [lambda: index.search(asked, best)]

    if device == "cpu":
        return _needs(("faiss flat",), on_cpu, "faiss")
    return _needs(("torch topk",), on_gpu, "torch")


def prediction(shape: Shape, predictor: Predictor, features: csr_matrix, best: int) -> Peers:
    """Embeddings by PyTorch, exact k-NN search by FAISS."""

    def make() -> list[Callable[[], Any]]:
        from snm.bench.peers_torch import embedder

        embed = embedder(shape, predictor)
        index = _flat(np.asarray(predictor.state.head.table.rows))
        return [lambda: index.search(embed(predictor.weighting.apply(features)), best)]

    return _needs(("torch and faiss",), make, "torch", "faiss")


def _flat(rows: np.ndarray) -> Any:
    import faiss

    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)
    return index


def readers(place: Path, features: csr_matrix, labels: csr_matrix) -> Peers:
    """scikit-learn's svmlight reader, a loop over lines in Python, and SciPy's binary format."""
    save_npz(place / "features.npz", features, compressed=False)
    save_npz(place / "labels.npz", labels, compressed=False)

    def load() -> None:
        load_npz(place / "features.npz")
        load_npz(place / "labels.npz")

    path = place / "train.txt"

    def make() -> list[Callable[[], Any]]:
        from sklearn.datasets import load_svmlight_file

        def parse() -> Any:
            with path.open("rb") as lines:
                lines.readline()  # the header, which svmlight does not have
                return load_svmlight_file(
                    lines, n_features=features.shape[1], dtype=np.float32, multilabel=True,
                    zero_based=True,
                )  # fmt: skip

        return [parse]

    return [
        *_needs(("scikit-learn",), make, "sklearn"),
        Contestant("python", lambda: _parsed_by_lines(path)),
        Contestant("scipy.sparse.load_npz", load),
    ]


def _parsed_by_lines(path: Path) -> tuple[csr_matrix, csr_matrix]:
    """Parses a file line by line in Python, as the scripts of most papers do."""
    ids: list[int] = []
    values: list[float] = []
    starts, labels, label_starts = [0], [], [0]
    with path.open() as lines:
        count, width, num_labels = map(int, next(lines).split())
        for line in lines:
            of_point, *pairs = line.rstrip("\n").split(" ")
            labels += [int(label) for label in of_point.split(",") if label]
            for pair in pairs:
                name, _, value = pair.partition(":")
                ids.append(int(name))
                values.append(float(value))
            starts.append(len(ids))
            label_starts.append(len(labels))
    ones = np.ones(len(labels), np.float32)
    return (
        csr_matrix((np.asarray(values, np.float32), ids, starts), shape=(count, width)),
        csr_matrix((ones, labels, label_starts), shape=(count, num_labels)),
    )


def array_files(path: Path, state: Any) -> Peers:
    """All arrays in one uncompressed NumPy archive."""
    arrays: dict[str, Any] = {
        str(n): np.asarray(leaf) for n, leaf in enumerate(jax.tree.leaves(state))
    }

    def save() -> None:
        with path.open("wb") as out:
            np.savez(out, **arrays)
            out.flush()
            os.fsync(out.fileno())

    def load() -> None:
        with np.load(path) as archive:
            jax.block_until_ready([jax.device_put(archive[name]) for name in archive.files])

    save()
    return [Contestant("numpy.savez", save), Contestant("numpy.load", load)]
