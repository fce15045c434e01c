"""`update_head` against dense float64 autodiff: loss, gradients and updated parameters."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from head_reference import (
    LEARNING_RATE,
    QUICK,
    SCALE_RATE,
    Case,
    csr,
    derivatives_of,
    loss_of,
    make_case,
    reference,
)

from snm.head import by_pairs
from snm.head.head import update_head
from snm.head.state import Head
from snm.losses import rank_weights as weights
from snm.losses.sampled.listwise import ListLoss
from snm.sampling.frequency import FrequencySampler
from snm.sampling.in_batch import in_batch
from snm.tables.table import RowTable
from snm.topk import block_quotas as quotas
from snm.topk import search as scoring

K = 302  # even: two shards have as many rows


@functools.cache
def compiled(spec, axis_name=None):
    return jax.jit(
        lambda head, queries, terms, sample, known, seen, key: update_head(
            spec,
            head,
            queries,
            terms,
            sample,
            learning_rate=LEARNING_RATE,
            scale_learning_rate=SCALE_RATE,
            known=known,
            seen=seen,
            key=key,
            axis_name=axis_name,
        ),
        compiler_options=None if axis_name else QUICK,  # nested in another jit there
    )


def stepped(case: Case, key=None):
    spec, *arrays = case
    return compiled(spec)(*arrays, jax.random.key(0) if key is None else key)


def check(case: Case, got, *, atol: float = 2e-6, **options) -> None:
    head, step = got
    want = reference(case, **options)
    assert step.ok
    np.testing.assert_allclose(step.loss, want.loss, rtol=2e-5)
    scale = np.abs(want.grad_queries).max()
    np.testing.assert_allclose(step.query_gradient, want.grad_queries, atol=atol * max(1, scale))
    np.testing.assert_allclose(head.table.rows, want.table, atol=atol)
    np.testing.assert_allclose(head.log_scale, want.log_scale, atol=2e-5)
    if want.accumulator is not None:
        np.testing.assert_allclose(head.table.accumulator, want.accumulator, rtol=1e-4, atol=1e-8)
    if want.bias is not None:
        np.testing.assert_allclose(head.bias, want.bias, atol=atol)


def logq_sample(size):
    return FrequencySampler(np.arange(K)[::-1], 0.5, size=size).on_host(0)


def batch_sample(size):
    return lambda labels: in_batch(labels, size, K)


ALL = K - 1
LISTS = dict(positives="all", exclude="all")
SLOW = {  # few of the in-batch cases are enough to begin with
    "bowl of all in-batch, own left out",
    "bowl in-batch, k' 12 of fewer",
    "powl of all in-batch, all terms",
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
    "threshold softmax, all terms, known left out": dict(
        loss="softmax", sampled=200, mined=40, exclude="all", positives="all", bias=True
    ),
    "threshold softmax, logQ": dict(
        loss="softmax", sampled=150, mined=60, sample=logq_sample(150), positives="all",
        exclude="all", row_optimizer="adagrad",
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
        positives="all", exclude="all",
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
        loss=ListLoss("listnet", grade=2.0, temperature=0.5),
        sampled=200, mined=3, bias=True, **LISTS,
    ),
    "listmle many mined": dict(
        loss=ListLoss("listmle", "sigmoid"), sampled=200, mined=40,
        row_optimizer="adagrad", **LISTS,
    ),
    "listmle of the whole sample": dict(
        loss=ListLoss("listmle"), sampled=150, mined=150, bias=True, **LISTS
    ),
    "rankcosine of all labels, linear": dict(
        loss=ListLoss("rankcosine", "linear", grade=2.0, offset=2.2),
        sampled=ALL, mined=ALL, **LISTS,
    ),
    "rankcosine, one positive, its own left out": dict(
        loss=ListLoss("rankcosine", grade=2.0), sampled=200, mined=5
    ),
    "smoothed-dcg of the whole sample, one positive": dict(
        loss=ListLoss("smoothed-dcg", temperature=0.3),
        sampled=200, mined=200, bias=True,
    ),
    "smoothed-dcg of all labels, mined": dict(
        loss=ListLoss("smoothed-dcg"), sampled=ALL, mined=4, **LISTS
    ),
    "listnet of few in-batch candidates": dict(
        loss=ListLoss("listnet", "sigmoid"), sampled=12, mined=8,
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


@pytest.mark.parametrize(
    "options",
    [
        dict(loss="powl", phi="logistic"),
        pytest.param(dict(loss="powl", vartheta="power-law"), marks=pytest.mark.slow),
        dict(loss="softmax", positives="all", exclude="all", bias=True),
    ],
    ids=["own left out", "ordered", "known left out"],
)
def test_many_mined_of_several_blocks(monkeypatch, options):
    """Each block gives a share, found by counting; only a loss of ranks puts them in order."""
    monkeypatch.setattr(scoring, "_CPU_BLOCK", 160)
    monkeypatch.setitem(by_pairs.PAIRS_LIMIT, "cpu", 1)
    joins = []
    monkeypatch.setattr(
        scoring,
        "merge_candidates",
        lambda *args, **named: joins.append(named) or quotas.merge_candidates(*args, **named),
    )
    case = make_case(num_labels=1000, sampled=800, mined=64, **options)
    check(case, stepped(case))
    assert joins == [{"ordered": "vartheta" in options}]


def test_subsampled_ranks_are_those_of_the_key():
    case = make_case(
        num_labels=K, sampled=200, mined=8, vartheta="subsample", loss="powl", phi="logistic",
        subsample_draws=6, positives="all",
    )  # fmt: skip
    key = jax.random.key(5)
    vartheta = np.full(8, 1 / 8)
    ranks, _ = weights.subsample(key, vartheta, 6, shape=case.terms.ids.shape)
    check(case, stepped(case, key), ranks=np.asarray(ranks))


@pytest.mark.parametrize(
    ("num_labels", "options"),
    [
        (2, dict(sampled=1, mined=1, vartheta="power-law", exclude="all")),
        (2, dict(sampled=1, mined=1, loss="powl", positives="all", bias=True)),
        (20, dict(sampled=18, mined=18, loss="powl", positives="all")),
    ],
)
def test_few_labels(num_labels, options):
    """Blocks are longer than the table, and some terms have no negative left."""
    case = make_case(num_labels=num_labels, **options)
    check(case, stepped(case))


def test_a_sample_smaller_than_the_mined():
    """Five slots, none of them surplus, for k' = 8: what is left takes the first weights."""
    case = make_case(
        num_labels=K,
        sampled=12,
        mined=8,
        vartheta="power-law",
        sample=lambda labels: in_batch(labels[:5], 5, K),
    )
    assert int(case.sample.drop) == 5
    check(case, stepped(case))


def test_ties_go_to_the_lowest_label():
    """Equal rows score the same: the mined one, and so the updated one, is the first."""
    case = make_case(num_labels=20, n=1, dim=4, sampled=19, mined=1, learn_scale=False)
    rows = jnp.tile(jnp.array([0.5, 0.5, 0.5, 0.5]), (20, 1))
    case = case._replace(
        head=Head(RowTable(rows), None, jnp.float32(0)), terms=csr([4], [1.0], [0, 1])
    )
    head, _ = stepped(case)
    moved = np.flatnonzero(np.abs(head.table.rows - rows).max(axis=1) > 1e-6)
    np.testing.assert_array_equal(moved, [0, 4])


def test_query_gradient_is_the_finite_difference():
    case = make_case(num_labels=K, sampled=200, mined=3, phi="logistic", loss="powl")
    _, step = stepped(case)
    with jax.enable_x64(True):
        at = [np.asarray(x, np.float64) for x in (case.head.table.rows, case.queries)]
        loss = jax.jit(
            lambda q: loss_of(case, jnp.asarray(at[0]), jnp.zeros(K), q, np.log(2.0)),
            compiler_options=QUICK,
        )
        for i, j in [(0, 0), (2, 5), (6, 31)]:
            move = np.zeros_like(at[1])
            move[i, j] = 1e-5
            slope = (loss(at[1] + move) - loss(at[1] - move)) / 2e-5
            np.testing.assert_allclose(step.query_gradient[i, j], slope, atol=1e-6)


def test_projected_step_is_the_step_of_the_normalised_row_to_first_order():
    """Rows kept at unit length against rows normalised in the forward pass.

    With w = u / |u| at |u| = 1 the gradient with respect to u is the tangent part g - (g.w) w.
    Projecting w - a g gives w - a (g - (g.w) w) + O(a^2): the same step, up to O(a^2).
    """
    case = make_case(num_labels=K, sampled=200, mined=3, learn_scale=False)
    rows = np.asarray(case.head.table.rows, np.float64)
    gradient = reference(case).grad_rows
    radial = np.sum(gradient * rows, axis=1, keepdims=True)
    tangent = gradient - radial * rows
    assert np.abs(radial).max() > 0.01

    gaps = []
    for rate in (0.1, 0.05):
        projected = rows - rate * gradient
        projected /= np.linalg.norm(projected, axis=1, keepdims=True)
        stepped_on_tangent = rows - rate * tangent
        stepped_on_tangent /= np.linalg.norm(stepped_on_tangent, axis=1, keepdims=True)
        gaps.append(np.abs(projected - stepped_on_tangent).max())
    np.testing.assert_allclose(gaps[0] / gaps[1], 4, rtol=0.1)  # half the rate, a quarter the gap

    # And the tangent part is the gradient through the normalisation.
    with jax.enable_x64(True):
        queries, log_scale = np.asarray(case.queries, np.float64), np.log(2.0)

        def loss(rows):
            unit = rows / jnp.linalg.norm(rows, axis=1, keepdims=True)
            return loss_of(case, unit, jnp.zeros(K), jnp.asarray(queries), log_scale)

        of_free_rows = jax.jit(jax.grad(loss), compiler_options=QUICK)(jnp.asarray(rows))
    np.testing.assert_allclose(of_free_rows, tangent, atol=1e-6)


def same_bits(got, want) -> None:
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(np.asarray(x).view(np.uint32), np.asarray(y).view(np.uint32))


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


def test_nothing_is_written_where_the_loss_of_all_negatives_overflows():
    """In `bowl` the negatives' loss is known after the walk that writes, so a bound must do."""
    case = make_case(num_labels=K, sampled=ALL, mined=ALL, phi="exponential", n=3)
    case = case._replace(head=dataclasses.replace(case.head, log_scale=jnp.float32(np.log(1e4))))
    head, step = stepped(case)
    assert not step.ok
    same_bits(head, case.head)


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
    mesh = jax.make_mesh((2,), ("label",), axis_types=(jax.sharding.AxisType.Auto,))
    labels = jax.tree.map(
        lambda x: jax.P("label", *[None] * (x.ndim - 1)) if x.ndim else jax.P(), case.head
    )
    spec, *arrays = case

    def on_shard(*args):
        head, step = compiled(spec, "label")(*args)
        replicated = (step, head.log_scale)
        return head, step, jax.tree.map(lambda x: x[None], replicated)

    run = jax.shard_map(
        on_shard,
        mesh=mesh,
        in_specs=(labels, *[jax.P()] * 6),
        out_specs=(labels, jax.P(), jax.P("label")),
        check_vma=False,
    )
    head, step, replicated = jax.jit(run, compiler_options=QUICK)(*arrays, jax.random.key(0))
    check(case, (head, step), derivatives=derivatives)
    for x in jax.tree.leaves(replicated):
        np.testing.assert_array_equal(x[0], x[1])
