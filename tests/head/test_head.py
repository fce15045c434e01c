"""`update_head` against dense float64 autodiff: loss, gradients and updated parameters."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from devices import need
from head.steps import K, check, compiled, same_bits, stepped
from head_reference import QUICK, derivatives_of, make_case, reference

from snm.distributed.mesh import Axes
from snm.losses.sampled.listwise import ListMLE, ListNet, RankCosine, SmoothedDCG
from snm.losses.transformations import linear, sigmoid
from snm.sampling.frequency import FrequencySampler
from snm.sampling.in_batch import in_batch
from snm.sampling.sample import Sample


def logq_sample(size):
    return FrequencySampler(np.arange(K)[::-1], 0.5, size=size).on_host(0)


def batch_sample(size):
    """Draws the first `size` of the distinct positives; some slots may be unused."""

    def sample(labels):
        slots = np.full(size, K, np.int32)
        distinct = np.unique(labels[labels < K])[:size]
        slots[: distinct.size] = distinct
        return in_batch(slots, num_labels=K)

    return sample


ALL = K - 1
LISTS = dict(positives="all", exclude="all")
SLOW = {  # whose form of mining, of updates and of the loss another case has
    "bowl epsilon-tail",
    "powl hinge pairs, all known left out",
    "softmax mined, in-batch",
    "threshold bowl of all labels",
    "bowl of all in-batch, own left out",
    "bowl in-batch, k' 12 of fewer",
    "powl of all in-batch, all terms",
    "softmax all in-batch, known left out",
    "listmle many mined",
    "rankcosine of all labels, linear",
    "smoothed-dcg of all labels, mined",
}
CASES = {
    # bowl: pairs, products of mined pairs, products of everything
    "bowl hinge pairs": dict(sampled=200, mined=3),
    "bowl logistic many mined, all terms": dict(
        sampled=200, mined=40, phi="logistic", positives="all", row_optimizer="adagrad"
    ),
    "bowl hinge negative sampling, bias": dict(sampled=200, mined=200, bias=True),
    "bowl squared all labels, all known left out": dict(
        sampled=ALL, mined=ALL, phi="squared_hinge", exclude="all", positives="all"
    ),
    "bowl hinge pairs of all labels, surrogate": dict(
        sampled=ALL, mined=4, weight_scale="surrogate", retrieval_k=100, row_optimizer="adagrad"
    ),
    "bowl epsilon-tail": dict(
        sampled=200, mined=5, vartheta="epsilon-tail", tail_epsilon=0.3, bias=True, exclude="all"
    ),
    "powl hinge pairs, all known left out": dict(
        loss="powl", sampled=200, mined=3, exclude="all", positives="all", bias=True
    ),
    "powl logistic all labels": dict(
        loss="powl", sampled=ALL, mined=ALL, phi="logistic", row_optimizer="adagrad"
    ),
    "powl squared power-law": dict(
        loss="powl", sampled=200, mined=30, phi="squared_hinge", vartheta="power-law",
        negative_weight=0.5,
    ),
    "powl epsilon-tail, all terms": dict(
        loss="powl", sampled=200, mined=2, phi="logistic", vartheta="epsilon-tail",
        tail_epsilon=0.1, positives="all",
    ),
    "softmax pairs, all terms": dict(loss="softmax", sampled=ALL, mined=3, positives="all"),
    "softmax all sampled, logQ": dict(
        loss="softmax", sampled=150, mined=150, sample=logq_sample(150), bias=True, positives="all"
    ),
    "softmax mined, in-batch": dict(
        loss="softmax", sampled=12, mined=6, sample=batch_sample(12), row_optimizer="adagrad"
    ),
    # many mined with one weight: by thresholds
    "threshold softmax, all terms, logQ, known left out": dict(
        loss="softmax", sampled=150, mined=60, sample=logq_sample(150), bias=True,
        row_optimizer="adagrad", **LISTS,
    ),
    "threshold bowl of all labels": dict(sampled=ALL, mined=90, exclude="all", positives="all"),
    "threshold powl": dict(loss="powl", sampled=200, mined=40, phi="logistic"),
    # a batch's own positives: more than B, or fewer than k'
    "bowl of all in-batch, B 6": dict(
        sampled=6, mined=6, sample=batch_sample(24), positives="all", exclude="all", bias=True
    ),
    "bowl of all in-batch, own left out": dict(
        sampled=6, mined=6, sample=batch_sample(24), row_optimizer="adagrad"
    ),
    "bowl in-batch, k' 12 of fewer": dict(
        sampled=20, mined=12, sample=batch_sample(24), phi="logistic", exclude="all"
    ),
    "bowl epsilon-tail in-batch": dict(
        sampled=20, mined=4, vartheta="epsilon-tail", tail_epsilon=0.3, sample=batch_sample(24),
        exclude="all", bias=True,
    ),
    "powl power-law in-batch": dict(
        loss="powl", sampled=20, mined=10, vartheta="power-law", phi="logistic",
        sample=batch_sample(24), positives="all",
    ),
    "powl of all in-batch, all terms": dict(
        loss="powl", sampled=6, mined=6, phi="logistic", sample=batch_sample(24), positives="all"
    ),
    "softmax all in-batch, known left out": dict(
        loss="softmax", sampled=12, mined=12, sample=batch_sample(12), exclude="all"
    ),
    # with labels that are no negatives though they are not known
    "softmax pairs, seen left out": dict(
        loss="softmax", sampled=200, mined=3, seen=True, bias=True, **LISTS
    ),
    "threshold softmax of all labels, seen left out": dict(
        loss="softmax", sampled=ALL, mined=40, seen=True, **LISTS
    ),
    "bowl of few, of which some points have seen none": dict(
        sampled=4, mined=2, seen=True, exclude="all", positives="one"
    ),
    # lists: pairs, products, the whole sample, all labels; one positive or all of a point's
    "listnet pairs, bias": dict(
        loss=ListNet(grade=2.0, temperature=0.5),
        sampled=200, mined=3, bias=True, **LISTS,
    ),
    "listmle many mined": dict(
        loss=ListMLE(sigmoid), sampled=200, mined=40,
        row_optimizer="adagrad", **LISTS,
    ),
    "listmle of the whole sample": dict(
        loss=ListMLE(), sampled=150, mined=150, bias=True, **LISTS
    ),
    "rankcosine of all labels, linear": dict(
        loss=RankCosine(linear, grade=2.0, offset=2.2),
        sampled=ALL, mined=ALL, **LISTS,
    ),
    "rankcosine, one positive, its own left out": dict(
        loss=RankCosine(grade=2.0), sampled=200, mined=5
    ),
    "smoothed-dcg of the whole sample, one positive": dict(
        loss=SmoothedDCG(temperature=0.3),
        sampled=200, mined=200, bias=True,
    ),
    "smoothed-dcg of all labels, mined": dict(
        loss=SmoothedDCG(), sampled=ALL, mined=4, **LISTS
    ),
    "listnet of few in-batch candidates": dict(
        loss=ListNet(sigmoid), sampled=12, mined=8,
        sample=batch_sample(12), **LISTS,
    ),
}  # fmt: skip


@functools.cache
def named(name):
    """The case, and the derivatives that its reference is made of, compiled once."""
    case = make_case(num_labels=K, **CASES[name])
    return case, derivatives_of(case)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CASES],
)
def test_step_is_the_dense_step(name):
    case, derivatives = named(name)
    check(case, stepped(case), derivatives=derivatives)


BACKWARDS = {
    "pairs": "bowl hinge pairs",
    "products": "powl logistic all labels",
    "softmax": "softmax pairs, all terms",
}


@pytest.mark.parametrize("name", BACKWARDS.values(), ids=BACKWARDS.keys())
def test_queries_that_are_not_finite_and_queries_of_zero(name):
    case, derivatives = named(name)
    # The last point may be padding: its terms weigh 0, but 0 * NaN would reach the rows.
    for row, value in [(1, np.nan), (1, np.inf), (-1, np.nan), (-1, -np.inf)]:
        head, step = stepped(case._replace(queries=case.queries.at[row, 3].set(value)))
        assert not step.ok
        same_bits(head, case.head)

    zero = case._replace(queries=case.queries.at[2].set(0))
    check(zero, stepped(zero), derivatives=derivatives)


def test_a_term_of_weight_zero_changes_nothing():
    case, _ = named("bowl hinge pairs")
    _, step = stepped(case)
    assert float(case.terms.values[-1]) == 0
    np.testing.assert_array_equal(step.query_gradient[-1], 0)


@pytest.mark.parametrize("name", ["bowl hinge pairs", "powl logistic all labels"])
def test_bfloat16_is_close(name):
    case, derivatives = named(name)
    spec = dataclasses.replace(case.spec, compute_dtype="bfloat16")
    got = stepped(case._replace(spec=spec))
    assert got[0].table.rows.dtype == got[1].query_gradient.dtype == jnp.float32
    want = reference(case, derivatives=derivatives)
    np.testing.assert_allclose(got[1].loss, want.loss, rtol=1e-2)
    np.testing.assert_allclose(got[1].query_gradient, want.grad_queries, atol=2e-2)


def on_two_shards(case):
    """The head and the step of two shards, and what each says of the replicated parts."""
    need(2)
    mesh = jax.make_mesh((2,), ("label",), axis_types=(jax.sharding.AxisType.Auto,))
    labels = jax.tree.map(
        lambda x: jax.P("label", *[None] * (x.ndim - 1)) if x.ndim else jax.P(), case.head
    )
    spec, *arrays = case

    def on_shard(*args):
        head, step = compiled(spec, Axes("label"))(*args)
        replicated = (step, head.log_scale)
        return head, step, jax.tree.map(lambda x: x[None], replicated)

    run = jax.shard_map(
        on_shard,
        mesh=mesh,
        in_specs=(labels, *[jax.P()] * 6),
        out_specs=(labels, jax.P(), jax.P("label")),
        check_vma=False,
    )
    return jax.jit(run, compiler_options=QUICK)(*arrays, jax.random.key(0))


@pytest.mark.parametrize(
    "name",
    [
        "bowl hinge pairs",
        pytest.param("softmax pairs, all terms", marks=pytest.mark.slow),
        "powl epsilon-tail, all terms",
        pytest.param("softmax all sampled, logQ", marks=pytest.mark.slow),
        pytest.param("bowl squared all labels, all known left out", marks=pytest.mark.slow),
        pytest.param("listmle of the whole sample", marks=pytest.mark.slow),
        "softmax pairs, seen left out",
        pytest.param("rankcosine of all labels, linear", marks=pytest.mark.slow),
    ],
)
def test_two_shards_are_one_device(name):
    case, derivatives = named(name)
    head, step, replicated = on_two_shards(case)
    check(case, (head, step), derivatives=derivatives)
    for x in jax.tree.leaves(replicated):
        np.testing.assert_array_equal(x[0], x[1])


def test_a_shard_that_holds_most_of_a_sample():
    """More than the search of a shard has room for: 381 of 401 labels are in the first half."""
    rng = np.random.default_rng(0)
    halves = [rng.choice(500, 381, replace=False), 500 + rng.choice(500, 20, replace=False)]
    sample = Sample(np.sort(np.concatenate(halves)).astype(np.int32), np.int32(7))
    case = make_case(num_labels=1000, sampled=400, mined=3, sample=sample, seed=1)
    check(case, on_two_shards(case)[:2])
