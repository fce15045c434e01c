"""A `HeadSpec` refuses what it would otherwise compute something else for."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from head_reference import QUICK, make_case, spec_of

import snm
from snm.errors import InputError
from snm.head.head import update_head
from snm.head.spec import HeadSpec
from snm.losses.sampled import LOSSES, HeadLoss, LossOptions, SampleSizes
from snm.losses.sampled.listwise import ListNet, RankCosine
from snm.losses.sampled.options import RANK_SHAPES, RankShape
from snm.losses.sampled.ranks import RankWeights
from snm.losses.surrogates import SURROGATES, Phi, hinge
from snm.losses.transformations import TRANSFORMATIONS, exponential, linear, sigmoid
from snm.tables.optimizers import ROW_OPTIMIZERS, SGD, RowOptimizer

SIZES = {"num_labels": 20, "sampled": 8, "mined": 2}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"loss": "bwol"}, "HeadSpec loss: found 'bwol', expected for example bowl"),
        ({"loss": None}, "HeadSpec loss: found None, expected one of "),
        ({"exclude": "Positive"}, "HeadSpec exclude: found 'Positive', expected "),
        ({"positives": True}, "HeadSpec positives: found True, expected one or all"),
        ({"positives": ["one"]}, "HeadSpec positives: found ['one'], expected for example one"),
        ({"loss": HeadLoss}, "HeadSpec loss: found <class 'snm.losses"),
        ({"mined": "4"}, "HeadSpec mined: found '4', expected a whole number"),
        ({"sampled": 8.0}, "HeadSpec sampled: found 8.0, expected a whole number"),
        ({"num_labels": True}, "HeadSpec num_labels: found True, expected a whole number"),
        ({"bias": "no"}, "HeadSpec bias: found 'no', expected True or False"),
        ({"options": {"phi": "hinge"}}, "HeadSpec options: found {'phi': 'hinge'}, expected a L"),
        ({"compute_dtype": "float16"}, "HeadSpec compute_dtype: found 'float16', expected "),
        ({"mined": 0}, "HeadSpec: found mined 0, sampled 8, 20 labels, expected 1 <= mined <= "),
        ({"mined": 9}, "HeadSpec: found mined 9, sampled 8, 20 labels"),
        ({"sampled": 20}, "HeadSpec: found mined 2, sampled 20, 20 labels"),
    ],
)
def test_a_wrong_setting_is_refused(changes, said):
    with pytest.raises(InputError) as error:
        HeadSpec(**{**SIZES, **changes})
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vartheta": "topp"}, "LossOptions vartheta: found 'topp', expected for example top"),
        ({"phi": "square"}, "LossOptions phi: found 'square', expected "),
        ({"weight_scale": "sum"}, "LossOptions weight_scale: found 'sum', expected mean or surr"),
        ({"temperature": "1"}, "LossOptions temperature: found '1', expected a number"),
        ({"retrieval_k": 1.5}, "LossOptions retrieval_k: found 1.5, expected a whole number"),
        ({"phi": ["hinge"]}, "LossOptions phi: found ['hinge'], expected a name"),
        ({"temperature": 0}, "LossOptions temperature: found 0, expected a finite number above 0"),
        ({"ramp_rho": -1.0}, "LossOptions ramp_rho: found -1.0, expected a finite number above 0"),
        (
            {"list_grade": np.nan},
            "LossOptions list_grade: found nan, expected a finite number a",
        ),
        (
            {"subsample_draws": 0},
            "LossOptions subsample_draws: found 0, expected a finite number of",
        ),
        (
            {"tail_epsilon": 1.5},
            "LossOptions tail_epsilon: found 1.5, expected 0.0 to 1.0",
        ),
        (
            {"negative_weight": -0.1},
            "LossOptions negative_weight: found -0.1, expected a finite number",
        ),
    ],
)
def test_a_wrong_option_of_a_loss_is_refused(changes, said):
    with pytest.raises(InputError) as error:
        LossOptions(**changes)
    assert str(error.value).startswith(said)


def test_options_beside_a_loss_object_are_refused():
    """They would change nothing: the object has its own parameters."""
    options = LossOptions(temperature=0.5, phi="logistic")
    with pytest.raises(InputError) as error:
        HeadSpec(**SIZES, loss=ListNet(), options=options)
    assert str(error.value) == (
        "HeadSpec options: found phi, temperature beside a loss object, "
        "expected none: the object of loss listnet has its own parameters"
    )
    with pytest.raises(InputError, match="beside a loss object"):
        spec = HeadSpec(**SIZES, options=LossOptions(phi="logistic"))
        dataclasses.replace(spec, loss=ListNet())
    HeadSpec(**SIZES, loss=ListNet(), options=LossOptions())


@pytest.mark.parametrize(
    ("loss", "options", "said"),
    [
        (
            "softmax",
            {"phi": "logistic"},
            "phi 'logistic' with loss softmax, expected none: it reads no others",
        ),
        (
            "smoothed-dcg",
            {"list_grade": 2.0},
            "list_grade 2.0 with loss smoothed-dcg, expected temperature: it reads no others",
        ),
        (
            "powl",
            {"power_alpha": 2.0},
            "power_alpha 2.0 with loss powl, expected none of it: vartheta top does not read it",
        ),
        (
            "bowl",
            {"ramp_rho": 2.0},
            "ramp_rho 2.0 with loss bowl, expected none of it: phi hinge does not read it",
        ),
    ],
)
def test_options_that_the_loss_does_not_read_are_refused(loss, options, said):
    """As a run refuses them: they would change nothing."""
    with pytest.raises(InputError) as error:
        HeadSpec(**SIZES, loss=loss, options=LossOptions(**options))
    assert str(error.value) == f"HeadSpec options: found {said}"


def test_retrieval_k_is_read_beside_any_loss():
    """By `snm bounds` and `snm compare`."""
    HeadSpec(**SIZES, loss="softmax", options=LossOptions(retrieval_k=3))


def test_right_ones_are_taken():
    for loss in LOSSES:
        HeadSpec(**SIZES, loss=loss)


@pytest.mark.parametrize("name", LOSSES)
def test_an_object_of_the_table_is_its_name(name):
    """It is a prototype, for no sample in particular: it is configured like one that is named."""
    read = {"phi": "logistic", "temperature": 0.5}
    read = {key: value for key, value in read.items() if key in LOSSES[name].option_names}
    options = LossOptions(**read)
    named, given = (HeadSpec(**SIZES, loss=x, options=options) for x in (name, LOSSES[name]))
    configured = LOSSES[name].configured(options, SampleSizes(20, 8, 2))
    assert named.head_loss == given.head_loss == configured


def test_a_loss_has_the_parameters_of_its_spec():
    ramp = spec_of(**SIZES, loss="powl", phi="ramp", ramp_rho=4.0).head_loss.phi
    assert float(ramp(jnp.float32(1))) == 0.75
    ranks = {
        "vartheta": "power-law", "weight_scale": "surrogate", "retrieval_k": 2,
        "power_alpha": 2.0, "negative_weight": 3.0,
    }  # fmt: skip
    found = spec_of(**SIZES, loss="bowl", phi="ramp", **ranks).head_loss.ranks
    assert found == RankWeights(LossOptions(**ranks), SampleSizes(20, 8, 2))
    for kind in (ListNet, RankCosine):
        name = kind.name
        spec = spec_of(**SIZES, loss=name, transformation="linear", temperature=0.5, list_grade=3)
        assert spec.head_loss == kind(linear, 0.5, 3, pytest.approx(1.1 * 3 / 0.5))


class _Constant(HeadLoss):
    name = "constant"

    def __init__(self, value: float) -> None:
        self.said = value

    def value(self, scores, draw=None):
        return jnp.float32(self.said) + 0 * jnp.sum(scores.positive)


def test_a_name_that_comes_to_mean_another_loss_is_another_spec(monkeypatch):
    """As in a notebook whose cell is run again: no compiled step of the old loss is used."""
    step = jax.jit(update_head, static_argnums=0, compiler_options=QUICK)
    losses = []
    for said in (1.0, 2.0):
        monkeypatch.setitem(LOSSES, "constant", _Constant(said))
        case = make_case(num_labels=20, sampled=8, mined=2, loss="constant", n=3, dim=4)
        _, found = step(case.spec, case.head, case.queries, case.batch, learning_rate=0.1)
        losses.append(found.loss)
    assert losses == [1.0, 2.0]


def test_a_name_that_comes_to_mean_another_surrogate_is_another_spec(monkeypatch):
    specs = []
    for slope in (1.0, 2.0):
        own = Phi(lambda margin, slope=slope: 1 - slope * margin)
        monkeypatch.setitem(SURROGATES, "own", own)
        specs.append(spec_of(**SIZES, loss="powl", phi="own"))
    assert specs[0] != specs[1] and specs[1] == spec_of(**SIZES, loss="powl", phi="own")
    ramps = [spec_of(**SIZES, loss="powl", phi="ramp", ramp_rho=rho) for rho in (2.0, 2.0, 3.0)]
    assert ramps[0] == ramps[1] != ramps[2] and hash(ramps[0]) == hash(ramps[1])


def test_a_surrogate_with_a_parameter_is_one_entry(monkeypatch):
    """It reads a parameter by naming it; no other file knows of it."""

    def tilted(margin, *, ramp_rho):
        return 1 - margin / ramp_rho

    monkeypatch.setitem(SURROGATES, "tilted", Phi(tilted, frozenset({"ramp_rho"})))
    specs = [spec_of(**SIZES, loss="bowl", phi="tilted", ramp_rho=rho) for rho in (2.0, 2.0, 4.0)]
    assert [float(spec.head_loss.phi(jnp.float32(1))) for spec in specs] == [0.5, 0.5, 0.75]
    assert specs[0] == specs[1] != specs[2] and hash(specs[0]) == hash(specs[1])
    assert snm.Config(loss="bowl", phi="tilted", ramp_rho=2.0).check().ramp_rho == 2.0
    with pytest.raises(InputError, match=r"with phi hinge, expected 1.0, or phi ramp or tilted"):
        snm.Config(loss="bowl", ramp_rho=2.0).check()


def test_a_function_in_the_table_of_surrogates_is_told(monkeypatch):
    monkeypatch.setitem(SURROGATES, "plain", hinge)
    with pytest.raises(InputError, match=r"phi: found plain, for which .* expected a Phi there"):
        LossOptions(phi="plain")


def test_a_name_that_comes_to_mean_another_transformation_is_another_spec(monkeypatch):
    specs = []
    for of in (exponential, sigmoid):
        monkeypatch.setitem(TRANSFORMATIONS, "own", of)
        specs.append(spec_of(**SIZES, loss="listnet", transformation="own"))
    assert specs[0] != specs[1] and specs[1] == spec_of(
        **SIZES, loss="listnet", transformation="own"
    )


@pytest.mark.parametrize(
    "value, found",
    [
        (lambda scores: scores.positive, r"float32\[\d+\]"),
        (lambda scores: (jnp.sum(scores.positive), 1), "tuple"),
        (lambda scores: jnp.int32(1), r"int32\[\]"),
        (lambda scores: None, "NoneType"),
    ],
)
def test_a_loss_is_a_float_scalar(value, found):
    class Wrong(_Constant):
        def value(self, scores, draw=None):
            return value(scores)

    case = make_case(num_labels=20, sampled=8, mined=2, loss=Wrong(0), n=3, dim=4)
    with pytest.raises(InputError, match=f"value of loss constant: found {found}, expected a fl"):
        jax.eval_shape(lambda: update_head(*case[:3], case.batch, learning_rate=0.1))


def test_a_new_object_under_a_name_is_another_spec(monkeypatch):
    """Programs are kept by spec: one of an old object would train as that did."""
    made = []
    for weight in (1.0, 2.0):
        shape = RankShape(lambda _, sizes, w=weight: np.full(sizes.mined, w))
        monkeypatch.setitem(RANK_SHAPES, "mine", shape)
        made.append(HeadSpec(**SIZES, options=LossOptions(vartheta="mine")))
        assert made[-1].head_loss.ranks.mined_weights.tolist() == [weight, weight]
    assert made[0] != made[1] and hash(made[0]) != hash(made[1])
    made = []
    for sign in (1.0, -1.0):
        rule = RowOptimizer(lambda accumulator, gradient, sign=sign: (sign * gradient, accumulator))
        monkeypatch.setitem(ROW_OPTIMIZERS, "mine", rule)
        made.append(HeadSpec(**SIZES, row_optimizer="mine"))
        assert made[-1].row_rule is rule
    assert made[0] != made[1] and hash(made[0]) != hash(made[1])
    assert HeadSpec(**SIZES) == HeadSpec(**SIZES)


def test_a_spec_trains_by_the_row_optimizer_that_it_was_made_with(monkeypatch):
    """It compares equal by that one, and so finds its programs."""
    small = dict(n=3, dim=4, **SIZES)
    quarter = RowOptimizer(lambda _, gradient: (gradient / 4, None), has_accumulator=False)
    monkeypatch.setitem(ROW_OPTIMIZERS, "mine", quarter)
    case = make_case(row_optimizer="mine", **small)
    monkeypatch.setitem(ROW_OPTIMIZERS, "mine", SGD)
    step = jax.jit(update_head, static_argnums=0, compiler_options=QUICK)
    got, _ = step(*case[:3], case.batch, learning_rate=0.4)
    plain = make_case(row_optimizer="sgd", **small)
    want, _ = step(*plain[:3], plain.batch, learning_rate=0.1)
    np.testing.assert_allclose(got.table.rows, want.table.rows, atol=1e-6)
    assert np.abs(got.table.rows - case.head.table.rows).max() > 1e-3
