"""Results of Lan et al. (2009): factors against derivatives and simulation, Tables 1-3 by hand."""

import itertools
import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snm.errors import InputError
from snm.losses.listwise import listmle, listnet_permutations, rankcosine
from snm.losses.transformations import TransformationFamily, exponential, linear, sigmoid
from snm.theory import listwise, listwise_tables

properties = settings(max_examples=200, deadline=None, derandomize=True)
PSI = {
    "linear": lambda a, b: (linear(a, b), lambda x: a * x + b),
    "exponential": lambda a, b: (exponential(a), lambda x: np.exp(a * x)),
    "sigmoid": lambda a, b: (sigmoid(a), lambda x: 1 / (1 + np.exp(-a * x))),
}
LOSS = {
    name: jax.jit(loss, static_argnames=("transformation", "reduce_fn"))
    for name, loss in (
        ("listmle", listmle), ("listnet", listnet_permutations), ("rankcosine", rankcosine)
    )
}  # fmt: skip


@properties
@given(st.sampled_from(sorted(PSI)), st.floats(0.1, 3), st.floats(0.1, 4), st.floats(0.01, 5))
def test_slopes_on_a_grid(name, a, reach, room):
    psi, f = PSI[name](a, a * reach + room)
    x = np.linspace(-reach, reach, 20_001)
    steepest = (np.diff(f(x)) / np.diff(x)).max()
    assert listwise.slope(psi, reach) == pytest.approx(steepest, rel=2e-3)
    assert listwise.slope(psi, reach, "printed") >= listwise.slope(psi, reach) * (1 - 1e-12)


@properties
@given(
    st.sampled_from(sorted(PSI)),
    st.floats(0.1, 3),
    st.floats(0.1, 4),
    st.floats(0.01, 5),
    st.integers(3, 9),
)
def test_factors_by_theorem_2(name, a, reach, room, m):
    psi, f = PSI[name](a, a * reach + room)
    low, high = f(-reach), f(reach)
    mle = 2 / (low * (math.log(m) + math.log(high / low)))
    c = {each: math.exp(listwise.log_factor(each, psi, reach, m)) for each in LOSS}
    assert c["listmle"] == pytest.approx(mle, rel=1e-9)
    assert c["listnet"] == pytest.approx(math.factorial(m) * mle, rel=1e-9)
    assert c["rankcosine"] == pytest.approx(math.sqrt(m) / (2 * low), rel=1e-9)


@pytest.mark.parametrize("name", PSI)
def test_normalized_losses_lie_in_0_to_1(name):
    psi, _ = PSI[name](1.3, 4.0)
    reach, m = 2.0, 4
    rng = np.random.default_rng(0)
    scores = rng.uniform(-reach, reach, (400, m))
    scores[0], labels = [-reach, reach, reach, reach], rng.uniform(-reach, reach, (400, m))
    labels[0] = [reach, -reach, -reach, -reach]
    with jax.enable_x64(True):
        for algorithm, loss in LOSS.items():
            values = np.asarray(loss(scores, labels, transformation=psi, reduce_fn=None))
            most = math.exp(listwise.log_normalizer(algorithm, psi, reach, m))
            assert (values >= -1e-12).all() and (values <= most).all()


@pytest.mark.parametrize("name", PSI)
def test_theorem_2_bounds_the_complexity_of_the_loss_class(name):
    """One feature, w on a grid of [-B, B], every sign of six queries."""
    reach, m, n = 1.5, 3, 6
    psi, _ = PSI[name](1.0, 2.0)
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (n, m))  # M = 1
    y = rng.uniform(-reach, reach, (n, m))
    w = np.linspace(-reach, reach, 201)
    signs = np.array(list(itertools.product([-1, 1], repeat=n)))
    with jax.enable_x64(True):
        for algorithm, loss in LOSS.items():
            scores = w[:, None, None] * x
            values = loss(scores, np.broadcast_to(y, scores.shape), transformation=psi,
                          reduce_fn=None)  # fmt: skip
            z = math.exp(listwise.log_normalizer(algorithm, psi, reach, m))
            average = (signs @ (np.asarray(values) / z).T).max(axis=1).mean() / n
            # One linear class per position in the list; the theorem uses the same for all.
            inner = max(np.abs(signs @ x[:, j]).mean() * reach / n for j in range(m))
            assert inner <= listwise.rademacher_linear(reach, n)
            assert average <= listwise.factor(algorithm, psi, reach, m) * inner + 1e-12


def test_bounds_by_hand_and_beyond_the_range_of_numbers():
    complexity, tail = listwise.listwise_bound("rankcosine", exponential(1), 1.0, 4, 100, 0.1)
    assert complexity == pytest.approx(2 * math.e**2 * 0.1)  # C N = (2 e / 2) e
    assert tail == pytest.approx(math.sqrt(0.02 * math.log(20)))
    assert listwise.listwise_bound("listnet", exponential(1), 1.0, 500, 100)[0] == math.inf
    big = listwise.log_factor("listnet", exponential(1), 1.0, 500)
    assert big == pytest.approx(math.lgamma(501) + math.log(2) + 1 - math.log(math.log(500) + 2))
    # Slopes may overflow, too; C of the sigmoid is 2 (1 + e^800) / (log m + 800).
    for psi in (exponential(1.0), sigmoid(1.0)):
        assert listwise.slope(psi, 800.0, "printed") == math.inf
        assert listwise.factor("listmle", psi, 800.0, 5) == math.inf
    assert listwise.slope(sigmoid(1.0), 800.0) == pytest.approx(0.25)
    assert listwise_tables.table_1(1.0, 801.0, 800.0, 5)["exponential"]["C listmle"] == math.inf
    assert [claim.exact for claim in listwise_tables.table_3(1.0, 801.0, 800.0, 5)] == [True] * 3
    with pytest.raises(InputError, match="b of the linear"):
        listwise.factor("listmle", linear(1, 0.5), 1.0, 4)


def test_table_1_by_hand():
    """a = 1, b = 3, BM = 1, m = 10: the table's own formulas."""
    e, found = math.e, listwise_tables.table_1(1.0, 3.0, 1.0, 10)
    log = math.log(10)
    assert found["linear"]["C listmle"] == pytest.approx(2 / (2 * (log + math.log(2))))
    assert found["exponential"]["C listmle"] == pytest.approx(2 * e / (log + 2))
    assert found["sigmoid"]["C listmle"] == pytest.approx(2 * (1 + e) / (log + 1))
    assert found["linear"]["C rankcosine"] == pytest.approx(math.sqrt(10) / 4)
    assert found["exponential"]["C rankcosine"] == pytest.approx(math.sqrt(10) * e / 2)
    assert found["sigmoid"]["C rankcosine"] == pytest.approx(math.sqrt(10) * (1 + e) / 2)
    assert [found[name]["N"] for name in PSI] == pytest.approx([1, e, 0.25])
    assert found["sigmoid"]["N printed"] == pytest.approx(e / (1 + 1 / e) ** 2)


numbers = (st.floats(0.05, 3), st.floats(0.05, 4), st.floats(1e-4, 6))


@properties
@given(*numbers)
def test_table_2_follows_from_the_printed_slope(a, reach, room):
    for claim in listwise_tables.table_2(a, a * reach + room, reach):
        assert claim.claimed == claim.printed, claim.text


@properties
@given(*numbers, st.integers(3, 10_000))
def test_table_3_follows_from_the_printed_slope(a, reach, room, m):
    k = math.exp(-a * reach)
    b = a * reach + room + k * k * (1 + k)
    for claim in listwise_tables.table_3(a, b, reach, m):
        assert claim.claimed == claim.printed, claim.text


@properties
@given(*numbers, st.integers(3, 10_000))
def test_with_the_exact_slope_the_sigmoid_always_beats_the_exponential(a, reach, room, m):
    b = a * reach + room
    assert listwise_tables.table_2(a, b, reach)[2].exact
    k = math.exp(-a * reach)
    assert listwise_tables.table_3(a, b + k * k * (1 + k), reach, m)[2].exact
    # RankCosine: the linear transformation needs a larger b - aBM than Table 2 says.
    threshold = 4 / (1 + math.exp(a * reach))
    if abs(room - threshold) > 1e-9:
        assert listwise_tables.table_2(a, b, reach)[1].exact == (room > threshold)
    assert threshold > k * k * (1 + k)


def test_the_disagreements_with_the_paper():
    # a = 1, BM = 1, b = 1.6: linear is first by Table 2, sigmoid with exact slopes.
    claims = {c.text: c for c in listwise_tables.table_2(1.0, 1.6, 1.0)}
    claim = claims["linear before sigmoid"]
    assert claim.claimed and claim.printed and not claim.exact and not claim.agrees
    # The example of section 3.3.2 at m = 1000 contradicts Table 3 and agrees with exact slopes.
    example = {c.text: c for c in listwise_tables.table_3(1.0, 11.0, 10.0, 1000)}
    assert example["linear before sigmoid"].claimed and example["linear before sigmoid"].exact
    claim = example["sigmoid before exponential"]
    assert not claim.claimed and not claim.printed and claim.exact
    # The relation of section 3.3.2: 1 + e^-u, not 1 + e^u.
    u = 1.7
    ratio = listwise.factor("rankcosine", exponential(1), u, 5, "printed") / listwise.factor(
        "rankcosine", sigmoid(1), u, 5, "printed"
    )
    assert ratio == pytest.approx(1 + math.exp(-u))


@properties
@given(st.sampled_from(sorted(PSI)), *numbers, st.integers(3, 60))
def test_when_listmle_beats_rankcosine(name, a, reach, room, m):
    psi, _ = PSI[name](a, a * reach + room)
    computed, claimed = listwise_tables.listmle_beats_rankcosine(psi, reach, m)
    assert computed == claimed


def test_a_transformation_that_the_paper_does_not_have():
    """psi(x) = 3 exp(a x): a factor of psi is one of N and of 1 / C, and no claim is known."""
    tripled = TransformationFamily(
        "tripled", lambda u: u + math.log(3), lambda u: u + math.log(3), lambda u: u + math.log(3)
    )
    for kind in ("exact", "printed"):
        found = listwise.factor("rankcosine", tripled(2.0), 1.5, 4, kind)
        assert found == pytest.approx(listwise.factor("rankcosine", exponential(2.0), 1.5, 4))
    assert listwise_tables.listmle_beats_rankcosine(tripled(1.0), 1.0, 6) == (True, True)
    with pytest.raises(InputError, match="found tripled, expected one of linear, exponential, sig"):
        listwise_tables.listmle_beats_rankcosine(tripled(1.0), 1.0, 5)


def test_factors_are_monotone_in_the_length_of_lists():
    psi = exponential(1.0)
    for algorithm, sign in (("listmle", -1), ("listnet", 1), ("rankcosine", 1)):
        logs = [listwise.log_factor(algorithm, psi, 1.0, m) for m in range(3, 300)]
        assert (sign * np.diff(logs) > 0).all()
