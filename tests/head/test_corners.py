"""`update_head` at its corners: few labels, ties, blocks, overflow, and what its gradient is."""

import dataclasses

import head_reference
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from devices import cpu_only
from head.steps import K, check, same_bits, stepped
from head_reference import QUICK, csr, loss_of, make_case, reference

from snm.head import plan
from snm.head.head import update_head
from snm.head.state import Head, HeadBatch
from snm.losses import rank_weights as weights
from snm.losses.sampled import HeadLoss
from snm.losses.surrogates import SURROGATES, Phi
from snm.sampling.in_batch import in_batch
from snm.tables.table import RowTable, SparseRows
from snm.topk import block_quotas as quotas
from snm.topk import search as scoring


@cpu_only
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
    monkeypatch.setitem(plan.PAIRS_LIMIT, "cpu", 1)
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
        sample=lambda labels: in_batch(labels[:5], num_labels=K),
    )
    assert int(case.sample.drop) == 5
    check(case, stepped(case))


def test_more_pairs_than_slots():
    """130 points mine three of 201 slots each: some slots are of several points."""
    case = make_case(num_labels=K, n=130, sampled=200, mined=3)
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


def test_the_step_is_that_of_normalized_rows_to_first_order():
    """Rows kept at unit length against rows normalized in the forward pass.

    With w = u / |u| at |u| = 1 the gradient with respect to u is the tangent part g - (g.w) w.
    Projecting w - a g gives w - a (g - (g.w) w) + O(a^2): the same step, up to O(a^2).
    """
    case = make_case(num_labels=K, sampled=200, mined=3, learn_scale=False)
    rows = np.asarray(case.head.table.rows, np.float64)
    with jax.enable_x64(True):
        queries = jnp.asarray(np.asarray(case.queries, np.float64))

        def loss(rows):
            unit = rows / jnp.linalg.norm(rows, axis=1, keepdims=True)
            return loss_of(case, unit, jnp.zeros(K), queries, np.log(2.0))

        tangent = np.asarray(jax.jit(jax.grad(loss), compiler_options=QUICK)(jnp.asarray(rows)))
    radial = np.sum(reference(case).grad_rows * rows, axis=1)
    assert np.abs(radial).max() > 0.01  # the projection is not void

    @jax.jit
    def moved(rate):
        head, _ = update_head(*case[:3], case.batch, learning_rate=rate)
        return head.table.rows

    gaps = []
    for rate in (0.2, 0.1):
        expected = rows - rate * tangent
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        gaps.append(np.abs(moved(rate) - expected).max())
    np.testing.assert_allclose(gaps[0] / gaps[1], 4, rtol=0.2)  # half the rate, a quarter the gap


@pytest.mark.parametrize(
    ("positives", "over"), [("one", "scale"), ("all", "scale"), ("all", "bias")]
)
def test_nothing_is_written_where_the_loss_of_all_negatives_overflows(positives, over):
    """In `bowl` the negatives' loss is known after the walk that writes, so a bound must do."""
    case = make_case(
        num_labels=K, sampled=K - 1, mined=K - 1, phi="exponential", n=3, bias=True,
        positives=positives,
    )  # fmt: skip
    head = case.head
    if over == "scale":
        head = dataclasses.replace(head, log_scale=jnp.float32(np.log(1e4)))
    else:
        assert head.bias is not None
        head = dataclasses.replace(head, bias=head.bias.at[7].set(1e4))
    case = case._replace(head=head)
    head, step = stepped(case)
    assert not step.ok
    same_bits(head, case.head)


class NewLoss(HeadLoss):
    name = "new"

    def value(self, scores, draw=None):
        return jnp.sum(scores.weights * scores.positive)


@pytest.mark.parametrize("per_point", [False, True])
def test_a_loss_without_a_reference_is_not_compared_with_that_of_another(per_point, monkeypatch):
    monkeypatch.setattr(NewLoss, "scores_per_point", per_point)
    case = make_case(num_labels=20, sampled=9, mined=4, loss=NewLoss())
    with pytest.raises(KeyError, match="no reference of the loss new among"):
        reference(case)


@pytest.mark.parametrize(
    "options",
    [
        dict(loss="bowl", mined=40),
        dict(loss="powl", mined=40),
        dict(loss="powl", mined=8, vartheta="epsilon-tail", positives="all", exclude="all"),
    ],
    ids=["bowl", "powl", "tail"],
)
def test_a_surrogate_that_grows_is_not_taken_of_masked_scores(options, monkeypatch):
    """However many scores there are: phi(1e30) of this one is infinite."""
    monkeypatch.setitem(SURROGATES, "square", Phi(lambda u: jnp.square(1 - u)))
    monkeypatch.setitem(head_reference.PHI, "square", lambda u: (1 - u) ** 2)
    monkeypatch.setattr(plan, "MAX_HELD_SCORES", 0)
    case = make_case(num_labels=60, sampled=40, phi="square", **options)
    check(case, stepped(case))


@pytest.mark.parametrize("highest, ok", [(60.0, True), (100.0, False)])
@pytest.mark.parametrize("phi, sign", [("exponential", 1), ("rising", -1)])
@pytest.mark.parametrize("large", [False, True], ids=["whole matrix", "blocks"])
def test_a_step_is_refused_for_its_loss_and_not_for_a_bound_of_it(
    highest, ok, large, phi, sign, monkeypatch
):
    """Exponentials of scores up to 100 overflow; of those that occur, e^60 does not.

    A surrogate of one's own may rise instead, so that a score of -100 overflows.

    How a large batch is computed must not decide that.
    """
    monkeypatch.setitem(SURROGATES, "rising", Phi(jnp.exp))
    if large:
        monkeypatch.setattr(plan, "MAX_HELD_SCORES", 0)
    case = make_case(num_labels=20, sampled=19, mined=19, n=2, dim=4, phi=phi,
                     learn_scale=False)  # fmt: skip
    rows = np.zeros((20, 4), np.float32)
    rows[:, 1] = 1  # all scores are 0, but one
    rows[7] = [sign * highest / 100, 0, 0, np.sqrt(1 - (highest / 100) ** 2)]
    head = dataclasses.replace(case.head, table=RowTable(jnp.asarray(rows), None),
                               log_scale=jnp.log(jnp.float32(100)))  # fmt: skip
    queries = jnp.tile(jnp.array([1.0, 0, 0, 0]), (2, 1))
    terms = SparseRows(jnp.array([3, 5]), jnp.array([0.5, 0.5]), jnp.arange(3))
    update = jax.jit(update_head, static_argnums=0, compiler_options=QUICK)
    _, step = update(case.spec, head, queries, HeadBatch(terms), learning_rate=1e-30)
    assert bool(step.ok) is ok
    if ok:
        expected = 1 + (18 + np.exp(np.float64(highest))) / 19  # phi(0) of the positive is 1
        assert float(step.loss) == pytest.approx(expected, rel=1e-5)
