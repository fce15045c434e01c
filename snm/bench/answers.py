"""Benchmarks prediction over all labels: the exact top-k of queries, and of raw points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from snm.bench import peers
from snm.bench.contest import Contest, Ours
from snm.bench.machine import Machine, Work
from snm.bench.shapes import Shape, model_of, points_of, queries_of, state_of
from snm.data.weighting import Weighting
from snm.machine.compiler import answer_options
from snm.prediction.predictor import Predictor
from snm.topk.search import best_scores

__all__ = ["predict_contest", "retrieval_contest"]

_QUERIES = 512
_POINTS = 1024
_BEST = 5
_SLOW_LABELS = 500_000  # with more labels, a round takes seconds
_SLOW_ROUNDS = 7


def retrieval_contest(shape: Shape, machine: Machine) -> Iterator[Contest]:
    """The exact top 5 over all labels, as in evaluation, in float32 and bfloat16."""
    table, queries = state_of(shape).head.table.rows, queries_of(shape, _QUERIES)

    def of(dtype: Any) -> tuple[Callable[[], Any], Any]:
        def search(queries: jax.Array, table: jax.Array) -> Any:
            return best_scores(queries, table, None, _BEST, compute_dtype=dtype)

        best = jax.jit(search, compiler_options=answer_options())
        return (lambda: jax.block_until_ready(best(queries, table))), best(queries, table)

    single, exact = of(jnp.float32)
    half, rounded = of(jnp.bfloat16)
    common = [
        len(np.intersect1d(*pair))
        for pair in zip(np.asarray(exact.slots), np.asarray(rounded.slots), strict=True)
    ]
    work = Work(
        flop=2 * _QUERIES * shape.dim * shape.num_labels, bytes=4 * shape.dim * shape.num_labels
    )
    against = ("faiss flat",) if machine.platform == "cpu" else ("torch topk",)
    yield Contest(
        "evaluate",
        shape.name,
        machine,
        [
            Ours("float32", single, case="float32", work=work, against=against),
            Ours("bfloat16", half, case="bfloat16", work=work, against=against,
                 notes={"agreement": sum(common) / (_QUERIES * _BEST)}),
        ],
        lambda: peers.retrieval(table, queries, _BEST, machine.torch_device),
        repeats=_SLOW_ROUNDS if shape.num_labels > _SLOW_LABELS else 10**9,
    )  # fmt: skip


def predict_contest(shape: Shape, machine: Machine) -> Iterator[Contest]:
    """From raw points to labels and scores on the host, as `snm predict` does for each block."""
    model = model_of(shape, 16)
    state = state_of(shape)
    features, _ = points_of(shape, _POINTS)
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
            Ours("predict", lambda: predictor.predict(features, _BEST), work=work,
                 case=f"{_POINTS} points", against=("torch and faiss",) if on_cpu else ()),
        ],
        lambda: peers.prediction(shape, predictor, features, _BEST) if on_cpu else [],
        repeats=_SLOW_ROUNDS if shape.num_labels > _SLOW_LABELS else 10**9,
    )  # fmt: skip
