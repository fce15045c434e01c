"""Benchmarks prediction over all labels: the exact top-k of queries, and of raw points."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from snm.bench import peers
from snm.bench.contest import Contest, OwnContestant
from snm.bench.rates import MachineRates, Work
from snm.bench.shapes import Shape, make_model, make_points, make_queries, make_state
from snm.data.weighting import Weighting
from snm.machine.compiler import answer_options
from snm.prediction.predictor import Predictor
from snm.topk.blocks import LabelRows
from snm.topk.search import best_scores

__all__ = ["predict_contest", "retrieval_contest"]

_QUERIES = 512
_POINTS = 1024
_BEST = 5
_SLOW_LABELS = 500_000  # with more labels, a round takes seconds
_SLOW_ROUNDS = 7


def retrieval_contest(shape: Shape, machine: MachineRates) -> Iterator[Contest]:
    """The exact top 5 over all labels, as in evaluation: in float32, then in bfloat16."""
    table, queries = make_state(shape).head.table.rows, make_queries(shape, _QUERIES)

    def search(dtype: Any) -> Any:
        def best(queries: jax.Array, table: jax.Array) -> Any:
            return best_scores(queries, LabelRows(table), _BEST, compute_dtype=dtype)

        return jax.jit(best, compiler_options=answer_options())

    exact = np.asarray(search(jnp.float32)(queries, table).slots)
    work = Work(
        flop=2 * _QUERIES * shape.dim * shape.num_labels, bytes=4 * shape.dim * shape.num_labels
    )
    against = ("faiss flat",) if machine.platform == "cpu" else ("torch topk",)
    for dtype in ("float32", "bfloat16"):
        best = search(jnp.dtype(dtype))
        found = np.asarray(best(queries, table).slots)
        common = [len(np.intersect1d(*pair)) for pair in zip(exact, found, strict=True)]
        notes: dict[str, Any] = {"compute_dtype": dtype}
        if dtype == "bfloat16":
            notes["agreement"] = sum(common) / (_QUERIES * _BEST)
        yield Contest(
            "evaluate",
            shape.name,
            machine.of_factors(dtype),
            [
                OwnContestant(dtype, functools.partial(_done, best, queries, table), case=dtype,
                              work=work, against=against, notes=notes),
            ],
            lambda: peers.retrieval(table, queries, _BEST, machine.torch_device),
            max_rounds=_SLOW_ROUNDS if shape.num_labels > _SLOW_LABELS else None,
        )  # fmt: skip


def _done(program: Any, *arguments: Any) -> Any:
    """Runs a program, and waits for its results."""
    return jax.block_until_ready(program(*arguments))


def predict_contest(shape: Shape, machine: MachineRates) -> Iterator[Contest]:
    """From raw points to labels and scores on the host, as `snm predict` does for each block."""
    model = make_model(shape, 16)
    state = make_state(shape)
    features, _ = make_points(shape, _POINTS)
    predictor = Predictor(model, state, Weighting.fit("tfidf", features))
    distinct = len(np.unique(features.indices))
    on_cpu = machine.platform == "cpu"  # as the peer is
    work = Work(
        flop=2 * _POINTS * shape.dim * (shape.num_labels + shape.dim),
        bytes=4 * shape.dim * (shape.num_labels + distinct),
    )
    yield Contest(
        "predict",
        shape.name,
        machine,
        [
            OwnContestant("predict", lambda: predictor.predict(features, _BEST), work=work,
                          case=f"{_POINTS} points", against=("torch and faiss",) if on_cpu else ()),
        ],
        lambda: peers.prediction(shape, predictor, features, _BEST) if on_cpu else [],
        max_rounds=_SLOW_ROUNDS if shape.num_labels > _SLOW_LABELS else None,
    )  # fmt: skip
