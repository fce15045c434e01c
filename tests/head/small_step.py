"""A step of the head so small that loops in float64 check its parts; many scores are equal."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from head_reference import Case, make_case, negatives_of, row_of_term

from snm.distributed.collectives import Shard
from snm.head.state import Head
from snm.head.step_inputs import StepInputs, collect_inputs
from snm.tables.table import RowTable

N, DIM, K, S = 4, 8, 30, 24


def small_case(**options) -> Case:
    """Entries are multiples of 1/2, so that float32 scores are exact and ties are ties."""
    case = make_case(n=N, dim=DIM, **{"num_labels": K, "sampled": S - 1, "mined": 6, **options})
    rng = np.random.default_rng(1)
    head = case.head
    rows = jnp.asarray(rng.integers(-1, 2, head.table.rows.shape) / 2, jnp.float32)
    bias = head.bias
    if bias is not None:
        bias = jnp.asarray(rng.integers(-1, 2, bias.shape) / 2, jnp.float32)
    queries = jnp.asarray(rng.integers(-1, 2, case.queries.shape) / 2, jnp.float32)
    head = Head(RowTable(rows, head.table.accumulator), bias, jnp.zeros_like(head.log_scale))
    return case._replace(head=head, queries=queries)


def inputs_of(case: Case) -> StepInputs:
    shard = Shard.of(case.head.table.rows, case.spec.num_labels, None, None)
    return collect_inputs(case.spec, case.head, case.queries, case.batch, shard)


def slot_labels(case: Case) -> np.ndarray:
    """The label of each slot."""
    return np.arange(case.spec.num_labels) if case.sample is None else np.asarray(case.sample.ids)


def slot_scores(case: Case) -> np.ndarray:
    """float64 [n, slots], and -inf where `exclude="all"` masks a slot for the point."""
    rows = np.asarray(case.head.table.rows, np.float64)
    scores = np.asarray(case.queries, np.float64) @ rows.T
    if case.head.bias is not None:
        scores = scores + np.asarray(case.head.bias, np.float64)
    scores = scores[:, slot_labels(case)]
    if case.spec.exclude == "all":
        scores[~_allowed(case)] = -np.inf
    return scores


def _allowed(case: Case) -> np.ndarray:
    """bool [n, slots]; a point's terms all allow the same."""
    allowed = np.zeros((N, len(slot_labels(case))), bool)
    of_terms = negatives_of(case)[:, slot_labels(case)]
    for row, kept in zip(row_of_term(case)[::-1], of_terms[::-1], strict=True):
        allowed[row] = kept
    return allowed


def own_slots(case: Case) -> list[int]:
    """The slot that each term leaves out where `exclude="positive"`: its own, or the surplus."""
    labels = slot_labels(case).tolist()
    surplus = None if case.sample is None else int(case.sample.drop)
    return [labels.index(j) if j in labels else surplus for j in np.asarray(case.terms.ids)]


def positive_scores(case: Case) -> np.ndarray:
    """float64 [T]."""
    everything = case._replace(sample=None, spec=dataclasses.replace(case.spec, exclude="positive"))
    return slot_scores(everything)[row_of_term(case), np.asarray(case.terms.ids)]
