"""Parameters of the estimator are settings of its fits."""

import numpy as np
import pytest
from estimator.small_fits import SMALL
from scipy.sparse import csr_matrix, hstack

from snm import InputError, SNMClassifier
from snm.estimator import fit_mixin
from snm.estimator.parameters import check_flags, for_one_pass

OTHERS = dict(loss="bowl", phi="logistic", exclude="positive", positives="one", encoder="relu",
              bias=False, score_scale=3.0, row_optimizer="adagrad", compute_dtype="bfloat16",
              input_dropout=0.25, random_state=7)  # fmt: skip


@pytest.fixture
def no_training(monkeypatch):
    """A fit fails when its settings are resolved, so that no program is compiled."""
    monkeypatch.setattr(fit_mixin, "fit_members", lambda *_, **__: 1 / 0)


def test_every_parameter_is_a_setting_of_the_fit(data, no_training):
    model = SNMClassifier(**{**SMALL, **OTHERS}, epochs=1)
    with pytest.raises(ZeroDivisionError):
        model.fit(data.train.features, data.train.labels)
    found = {name: getattr(model.config_, name) for name in OTHERS if name != "random_state"}
    assert {**found, "random_state": model.config_.seed} == OTHERS


def test_each_pass_of_partial_fit_draws_anew(data, monkeypatch):
    seeds = []
    fit = fit_mixin.fit_members
    monkeypatch.setattr(
        fit_mixin,
        "fit_members",
        lambda inputs, *a, **k: seeds.append(inputs.config) or fit(inputs, *a, **k),
    )
    model = SNMClassifier(**{**SMALL, "schedule": "cosine"}, random_state=7)
    for _ in range(2):
        model.partial_fit(data.train.features, data.train.labels)
    assert len({one.seed for one in seeds}) == 2
    assert {(one.epochs, one.schedule) for one in seeds} == {(1, "constant")}


def test_rates_of_one_pass(data):
    """The mean rates of the last epoch after a fit, and the share of a batch of few points."""
    X, Y = data.train.features, data.train.labels
    params = {**SMALL, "schedule": "linear", "epochs": 4, "learning_rate": 8.0}
    config = SNMClassifier(**params).fit(X, Y).config_
    assert config.batch_size == 16 and config.tower_learning_rate == 0.1
    for num_points, after_fit, rate in (
        (16, False, 8),
        (4, False, 2),
        (99, True, 1),
        (4, True, 0.25),
    ):
        found = for_one_pass(config, num_points, part=1, after_fit=after_fit)
        assert found.learning_rate == pytest.approx(rate)
        assert found.tower_learning_rate == pytest.approx(0.1 * rate / 8)
        assert found.scale_learning_rate == pytest.approx(config.scale_learning_rate * rate / 8)


@pytest.mark.parametrize(
    ("name", "value"), [("threshold", "often"), ("threshold", 1.5), ("labels_per_point", 0)]
)
def test_a_wrong_parameter_of_predict_is_refused_before_the_fit(data, name, value):
    with pytest.raises(InputError, match=f"^{name}: found .*{value}"):
        SNMClassifier(**SMALL, **{name: value}).fit(data.train.features, data.train.labels)


def test_a_feature_in_another_unit_is_warned_of(data, no_training):
    price = csr_matrix(np.full((data.train.num_points, 1), 300, np.float32))
    others = csr_matrix((data.train.num_points, 100))  # so sparse that it is not standardized
    mixed = hstack([data.train.features, others, price], format="csr")
    said = r"feature 130 makes up .* of the squared length"
    with pytest.raises(ZeroDivisionError), pytest.warns(UserWarning, match=said) as told:
        SNMClassifier(**SMALL, epochs=1).fit(mixed, data.train.labels)
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("early_stopping", "yes", "True or False"),
        ("early_stopping", 1, "True or False"),
        ("verbose", "no", "True, False, or a number of at least 0"),
        ("verbose", -1, "True, False, or a number of at least 0"),
        ("verbose", None, "True, False, or a number of at least 0"),
    ],
)
def test_a_flag_is_no_text(data, name, value, expected):
    X, Y = data.train.features, data.train.labels
    model = SNMClassifier(**SMALL, **{name: value})
    with pytest.raises(InputError, match=f"^{name}: found {value!r}, expected {expected}$"):
        model.fit(X, Y)


def test_flags_of_numpy_and_numbers_of_verbose():
    check_flags(early_stopping=np.bool_(False), verbose=np.bool_(False))
    check_flags(early_stopping=True, verbose=2)
