"""Losses of sampled lists against the losses of whole lists, rax, and their gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rax
from head_reference import QUICK
from jax.test_util import check_grads
from losses.listwise_losses import LISTWISE

from snm.errors import InputError
from snm.head.spec import HeadSpec
from snm.losses import ordered as losses
from snm.losses.sampled import LOSSES, LossOptions, SampleSizes
from snm.losses.sampled.listwise import ListMLE, ListNet, RankCosine, SmoothedDCG
from snm.losses.sampled.protocol import TermScores
from snm.losses.softmax import sampled_softmax
from snm.losses.transformations import exponential, linear, sigmoid

pytestmark = pytest.mark.usefixtures("in_float64")


# Seed 5: four lists of 2, 1, 0 and 3 positives, one term of padding, and 5 negatives of which some
# are masked; the second list has none left.
rng = np.random.default_rng(5)
COUNTS = (2, 1, 0, 3)
ROWS = np.array([0, 0, 1, 3, 3, 3, 3])
WEIGHTS = np.array([0.3, 0.3, 0.5, 0.2, 0.2, 0.2, 0.0])
POSITIVE = rng.uniform(-1, 1, 7)
NEGATIVE = rng.uniform(-1, 1, (4, 5))
WHERE = rng.random((4, 5)) < 0.7
WHERE[1] = False


def lists(positive=POSITIVE, negative=NEGATIVE):
    return TermScores(
        jnp.asarray(positive), ROWS, jnp.asarray(WEIGHTS), jnp.asarray(negative), WHERE
    )


KINDS = (ListNet, ListMLE, RankCosine, SmoothedDCG)
FORMS = [
    kind(transformation, temperature=0.7, grade=1.3, offset=2.0)
    for kind in KINDS
    for transformation in (exponential, linear, sigmoid)
    if kind is not SmoothedDCG or transformation is exponential
]


@pytest.mark.parametrize("loss", FORMS, ids=lambda loss: f"{loss.name} {loss.transformation.name}")
def test_a_sampled_list_is_the_whole_list_of_its_entries(loss):
    found, expected = jax.jit(lambda: (loss.value(lists()), of_whole_lists(loss)))()
    assert float(found) == pytest.approx(float(expected), rel=1e-12)


def of_whole_lists(loss):
    """The sum over the lists, each by the loss of whole lists."""
    total = 0.0
    for i, count in enumerate(COUNTS):
        mine = np.flatnonzero((i == ROWS) & (WEIGHTS != 0))
        assert len(mine) == count
        if not count:
            continue
        # Best positive first: ListMLE takes equal grades as they stand.
        best_first = np.sort(POSITIVE[mine])[::-1]
        scores = np.r_[best_first, NEGATIVE[i, WHERE[i]]]
        relevant = np.arange(len(scores)) < count
        weight = WEIGHTS[mine].sum()
        if loss.name == "smoothed-dcg":
            value = LISTWISE[loss.name](scores, relevant, sigma=0.7)
        elif loss.name == "listmle":
            # The whole list's likelihood over that of the negatives' own order.
            whole = LISTWISE[loss.name](scores, 2.0 * relevant, transformation=loss.psi)
            value = whole
            if len(scores) > count:
                rest = np.zeros(len(scores) - count)
                value -= LISTWISE[loss.name](scores[count:], rest, transformation=loss.psi)
            weight /= count
        else:
            value = LISTWISE[loss.name](scores, 1.3 * relevant, transformation=loss.psi)
        total += weight * value
    return total


@pytest.mark.parametrize(
    "loss",
    [form for form in FORMS if form.transformation is exponential or isinstance(form, ListNet)],
    ids=lambda loss: f"{loss.name} {loss.transformation.name}",
)
def test_gradients(loss):
    of_scores = jax.jit(lambda *scores: loss.value(lists(*scores)))
    check_grads(of_scores, (POSITIVE, NEGATIVE), order=1, modes=["rev"])
    of_positive, of_negative = jax.grad(of_scores, argnums=(0, 1))(POSITIVE, NEGATIVE)
    assert of_positive[-1] == 0  # padding
    assert (np.asarray(of_negative)[~WHERE] == 0).all()
    assert (np.asarray(of_negative)[2] == 0).all()  # a list without a positive


def test_listmle_of_one_positive_is_the_sampled_softmax():
    one = TermScores(
        jnp.asarray(POSITIVE[:4]), np.arange(4), jnp.ones(4), jnp.asarray(NEGATIVE), WHERE
    )
    softmax = sampled_softmax(POSITIVE[:4], NEGATIVE, where=WHERE, reduce_fn=jnp.sum)
    assert float(jax.jit(ListMLE().value)(one)) == pytest.approx(float(softmax), rel=1e-12)


def test_listnet_of_sure_grades_is_the_softmax_loss_of_rax():
    """With grades far apart the target is uniform over the positives: rax's, over their number."""
    loss = ListNet(grade=200.0)
    for i in (0, 3):
        mine = np.flatnonzero((i == ROWS) & (WEIGHTS != 0))
        scores = np.r_[POSITIVE[mine], NEGATIVE[i]]
        labels = (np.arange(len(scores)) < len(mine)).astype(float)
        where = np.r_[np.ones(len(mine), bool), WHERE[i]]
        theirs = jax.jit(rax.softmax_loss)(scores, labels, where=where) / len(mine)
        one = TermScores(
            jnp.asarray(POSITIVE[mine]),
            np.zeros(len(mine), int),
            np.full(len(mine), 1 / len(mine)),
            jnp.asarray(NEGATIVE[i : i + 1]),
            WHERE[i : i + 1],
        )
        assert float(jax.jit(loss.value)(one)) == pytest.approx(float(theirs), rel=1e-12)


def test_ranksvm_is_powl_of_every_positive():
    """Sum over the pairs of two grades: POWL with weights 1, which the head divides by k'."""
    for i in (0, 3):
        mine = np.flatnonzero((i == ROWS) & (WEIGHTS != 0))
        scores = np.r_[POSITIVE[mine], NEGATIVE[i]]
        labels = (np.arange(len(scores)) < len(mine)).astype(float)

        pairs = LISTWISE["ranksvm"](scores, labels)
        negative = np.broadcast_to(NEGATIVE[i], (len(mine), 5))
        powl = losses.sampled_powl(POSITIVE[mine], negative, vartheta=np.ones(5), reduce_fn=jnp.sum)
        assert float(powl) == pytest.approx(float(pairs), rel=1e-12)


def test_ranksvm_takes_no_setting_of_powl():
    sizes = dict(num_labels=20, sampled=8, mined=3)
    of_powl = LossOptions(phi="logistic", vartheta="power-law", weight_scale="surrogate",
                          negative_weight=2.0)  # fmt: skip
    plain = HeadSpec(loss="powl", **sizes).head_loss
    found = HeadSpec(loss="ranksvm", **sizes).head_loss
    assert (found.name, found.phi, found.ranks) == ("ranksvm", plain.phi, plain.ranks)
    assert LOSSES["ranksvm"].configured(of_powl, SampleSizes(20, 8, 3)) == found
    with pytest.raises(InputError, match="phi 'logistic' with loss ranksvm, expected none: it re"):
        HeadSpec(loss="ranksvm", **sizes, options=of_powl)


@pytest.mark.parametrize("kind", KINDS)
def test_extreme_scores_and_empty_lists_stay_finite(kind):
    of_scores = functools.partial(_float32, kind(grade=10.0))
    both = jax.jit(jax.value_and_grad(of_scores), compiler_options=QUICK)
    for scale in (0.0, 1e3):
        value, slopes = both((np.float32(scale * POSITIVE), np.float32(scale * NEGATIVE)))
        assert np.isfinite(value) and all(np.isfinite(slope).all() for slope in slopes)
    nothing = TermScores(jnp.zeros(3), np.zeros(3, int), jnp.zeros(3), jnp.zeros((2, 0)),
                    np.zeros((2, 0), bool))  # fmt: skip
    assert float(jax.jit(kind().value)(nothing)) == 0


def _float32(loss, scores):
    return loss.value(TermScores(scores[0], ROWS, jnp.float32(WEIGHTS), scores[1], WHERE))
