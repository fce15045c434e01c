"""Values of settings that no data make right, and types that they get."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest

import snm
from snm.config.settings import Config, preset, read_config
from snm.errors import InputError
from snm.losses.sampled import LOSSES, HeadLoss, LossOptions
from snm.losses.sampled.options import RANK_SHAPES, RankShape
from snm.losses.transformations import TRANSFORMATIONS
from snm.sampling.samplers import SAMPLERS
from snm.sampling.uniform import UniformSampler


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (dict(sampled=8, mined=9), "--mined: found 9 mined of 8 sampled labels"),
        (dict(dim=0), "--dim: found 0, expected 1 or more"),
        (dict(epochs=0), "--epochs: found 0"),
        (dict(mined=0), "--mined: found 0"),
        (dict(sampled=0), "--sampled: found 0"),
        (dict(seed=-1), "--seed: found -1, expected 0 or more"),
        (dict(input_dropout=1.0), "--input-dropout: found 1.0, expected 0.0 to 0.999"),
        (dict(tail_epsilon=5.0), "--tail-epsilon: found 5.0, expected 0.0 to 1.0"),
        (dict(tower_momentum=1.5), "--tower-momentum: found 1.5, expected 0.0 to 0.999"),
        (dict(learning_rate=0.0), "--learning-rate: found 0.0, expected a number above 0"),
        (dict(score_scale=-1.0), "--score-scale: found -1.0, expected a number above 0"),
        (dict(scale_learning_rate=-1.0), "--scale-learning-rate: found -1.0"),
        (dict(patience=2), "--patience: found no validation set"),
        (dict(refit=True), "--refit: found no validation set"),
        (dict(refit=True, validation_fraction=0.1), "--refit: found --patience 0"),
        (dict(validation_fraction=1.0), "--validation-fraction: found 1.0"),
        (
            dict(temperature=0.0, loss="listnet"),
            "--temperature: found 0.0, expected a finite number above 0",
        ),
        (
            dict(temperature=2.0),
            "--temperature: found 2.0 with --loss softmax, expected --loss listnet or listmle or "
            "rankcosine or smoothed-dcg, or --score-scale",
        ),
        (
            dict(transformation="cubic", loss="listnet"),
            "--transformation: found 'cubic', expected exponential or linear or sigmoid",
        ),
        (dict(transformation="sigmoid", loss="ranksvm"), "--transformation: found sigmoid with"),
        (
            dict(transformation="linear", loss="listnet"),
            "--transformation linear: found a learned bias, expected --no-bias: psi must stay pos",
        ),
        (
            dict(transformation="linear", loss="listnet", bias=False, learn_score_scale=True),
            "--transformation linear: found --learn-score-scale True",
        ),
        (
            dict(loss="listmle", phi="logistic"),
            "--phi: found logistic with --loss listmle, expected --loss bowl or powl, or hinge",
        ),
        (dict(retrieval_k=0), "--retrieval-k: found 0, expected a finite number of at least 1"),
        (dict(frequency_power=-0.5), "--frequency-power: found -0.5, expected 0.0 or more"),
        (
            dict(power_alpha=2.0),
            "--power-alpha: found 2.0 with --vartheta top, expected 1.0, or --v",
        ),
        (
            dict(loss="bowl", vartheta="subsample", tail_epsilon=0.1),
            "--tail-epsilon: found 0.1 with --vartheta subsample, expected 0.01, or --vartheta eps",
        ),
        (
            dict(loss="powl", subsample_draws=2),
            "--subsample-draws: found 2 with --vartheta top, ex",
        ),
        (
            dict(loss="bowl", ramp_rho=2.0),
            "--ramp-rho: found 2.0 with --phi hinge, expected 1.0, o",
        ),
        (
            dict(frequency_power=0.5),
            "--frequency-power: found 0.5 with --sampler uniform, expected",
        ),
        (
            dict(encoder="linear", tower_learning_rate=0.2),
            "--tower-learning-rate: found 0.2 with -",
        ),
        (
            dict(encoder="linear", tower_momentum=0.5),
            "--tower-momentum: found 0.5 with --encoder l",
        ),
        (
            dict(evaluate_every=5),
            "--evaluate-every: found 5 with --validation-fraction 0.0, expected 0, or --valida",
        ),
        (
            dict(monitor="P@3"),
            "--monitor: found P@3 with --validation-fraction 0.0, expected P@1, ",
        ),
        (dict(loss="softmax", phi="logistic"), "--phi: found logistic with --loss softmax"),
        (dict(loss="softmax", negative_weight=4.0), "--negative-weight: found 4.0 with --loss"),
        (dict(loss="softmax", weight_scale="surrogate"), "--weight-scale: found surrogate with"),
        (dict(loss="ranksvm", negative_weight=2.0), "--negative-weight: found 2.0 with --loss ra"),
        (dict(loss="rankcosine", vartheta="power-law"), "--vartheta: found power-law with --loss"),
        (
            dict(loss="smoothed-dcg", exclude="positive"),
            "--exclude: found positive with --loss smoothed-dcg and all positives, expected all",
        ),
    ],
)
def test_values_that_no_data_makes_right(values, message):
    with pytest.raises(InputError) as found:
        dataclasses.replace(preset("default"), **values).check()
    assert found.value.as_flags.startswith(message)


@pytest.mark.parametrize(
    "values",
    [
        dict(loss="bowl", vartheta="power-law", power_alpha=2.0),
        dict(loss="powl", vartheta="epsilon-tail", tail_epsilon=0.1),
        dict(loss="bowl", vartheta="subsample", subsample_draws=2),
        dict(loss="bowl", phi="ramp", ramp_rho=2.0),
        dict(sampler="frequency", frequency_power=0.5),
        dict(encoder="relu", tower_learning_rate=0.2, tower_momentum=0.5),
        dict(validation_fraction=0.1, evaluate_every=5, monitor="P@3"),
    ],
)
def test_values_that_are_read(tmp_path, values):
    config = Config(**values)
    assert config.check() == config
    # A file may hold them without the setting that reads them, which may be a flag.
    first = dict(list(values.items())[-1:])
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in first.items())
    file = tmp_path / "settings.toml"
    file.write_text(text)
    assert read_config(file) == Config(**first)


WRONG = [
    ({"loss": "foo"}, "loss: found 'foo', expected bowl or powl or softmax or"),
    ({"exclude": "foo"}, "exclude: found 'foo', expected positive or all"),
    ({"dim": 2.5}, "dim: found 2.5, expected a whole number"),
    ({"bias": None}, "bias: found None, expected true or false"),
]


@pytest.mark.parametrize(("values", "message"), WRONG)
def test_every_door_refuses_the_same(tmp_path, values, message):
    """`snm.train`, `snm.training`, the file and the estimator; the command line has its parser."""
    data = snm.generate(points=30, test_points=1, features=20, labels=20, seed=0)
    config = dataclasses.replace(preset("default"), **values)
    for train in (snm.train, lambda *words: list(snm.training(*words))):
        with pytest.raises(InputError, match=f"^{message}") as found:
            train(data, config, tmp_path / "run")
        assert found.value.as_flags.startswith("--")
    assert not (tmp_path / "run").exists()
    ((name, value),) = values.items()
    if value is not None:  # the preset's
        with pytest.raises(InputError, match=f"^{message}"):
            snm.SNMClassifier(**values).fit(data.train.features, data.train.labels)
        file = tmp_path / "settings.toml"
        file.write_text(f"{name} = {json.dumps(value)}\n")
        with pytest.raises(InputError, match=message):
            read_config(file)
    with pytest.raises(InputError, match=f"^{message}"):
        snm.SNMClassifier(settings=values).fit(data.train.features, data.train.labels)


def test_settings_get_their_own_types():
    config = dataclasses.replace(
        preset("default"), dim=np.int64(8), learning_rate=3, bias=np.bool_(False)
    ).check()
    found = (config.dim, config.learning_rate, config.bias)
    assert found == (8, 3.0, False)
    assert [type(value) for value in found] == [int, float, bool]


def test_a_loss_takes_the_options_that_it_reads():
    """Another setting decides on the rest, such as phi on ramp_rho."""
    others = dict(phi="logistic", vartheta="power-law", weight_scale="surrogate",
                  negative_weight=2.0, transformation="sigmoid", temperature=2.0)  # fmt: skip
    for loss, of in LOSSES.items():
        for name, value in others.items():
            config = dataclasses.replace(preset("default"), **{"loss": loss, name: value})
            if name in of.option_names:
                assert config.check() == config
            else:
                with pytest.raises(
                    InputError, match=f"^{name}: found {value} with loss {loss}, ex"
                ):
                    config.check()
    for field in dataclasses.fields(LossOptions):
        assert getattr(Config, field.name, field.default) == field.default


class _Own(HeadLoss):
    name = "own"

    def value(self, scores, draw=None):
        return jnp.sum(scores.positive)


def test_what_stands_in_the_table_of_losses_is_an_object(monkeypatch):
    monkeypatch.setitem(LOSSES, "own", _Own)
    with pytest.raises(InputError, match=r"LOSSES has <class .*, expected an object of a subclass"):
        dataclasses.replace(preset("default"), loss="own").check()
    monkeypatch.setitem(LOSSES, "own", _Own())
    assert dataclasses.replace(preset("default"), loss="own").check().loss == "own"
    monkeypatch.setitem(LOSSES, "other", _Own())
    with pytest.raises(InputError, match="has an object with the name own, expected its name"):
        dataclasses.replace(preset("default"), loss="other").check()


def test_lists_of_an_own_loss_have_no_label_twice(monkeypatch):
    class Lists(_Own):
        scores_per_point = True

    monkeypatch.setitem(LOSSES, "own", Lists())
    config = dataclasses.replace(preset("default"), loss="own")
    assert config.check() == config
    with pytest.raises(InputError, match="exclude: found positive with loss own and all positives"):
        dataclasses.replace(config, exclude="positive").check()


def test_an_own_object_goes_by_a_name():
    with pytest.raises(InputError, match="expected a name; add your own object to LOSSES"):
        dataclasses.replace(preset("default"), loss=_Own()).check()


def test_own_shapes_and_samplers_read_what_they_name(monkeypatch):
    shape = RankShape(lambda options, sizes: np.full(sizes.mined, options.power_alpha))
    monkeypatch.setitem(RANK_SHAPES, "flat", shape)
    config = Config(loss="bowl", vartheta="flat", power_alpha=2.0)
    with pytest.raises(InputError, match="with vartheta flat, expected"):
        config.check()
    reads = dataclasses.replace(shape, option_names=frozenset({"power_alpha"}))
    monkeypatch.setitem(RANK_SHAPES, "flat", reads)
    assert config.check().power_alpha == 2.0
    with pytest.raises(InputError, match="vartheta power-law or flat"):
        dataclasses.replace(config, vartheta="top").check()

    class Mine(UniformSampler):
        pass

    monkeypatch.setitem(SAMPLERS, "mine", Mine)
    config = Config(sampler="mine", frequency_power=0.5)
    with pytest.raises(InputError, match="with sampler mine, expected"):
        config.check()
    Mine.option_names = frozenset({"frequency_power"})
    assert config.check().frequency_power == 0.5


def test_what_an_option_is_read_by_must_be_read_itself(monkeypatch):
    """Ramp reads ramp_rho, but the loss that takes any phi does not pass it on."""

    class Plain(_Own):
        option_names = frozenset({"phi"})

    monkeypatch.setitem(LOSSES, "own", Plain())
    config = Config(loss="own", phi="ramp")
    assert config.check() == config
    with pytest.raises(
        InputError, match=r"^ramp_rho: found 2\.0 with loss own, expected 1\.0, or l"
    ):
        dataclasses.replace(config, ramp_rho=2.0).check()


def test_a_class_among_the_losses_reads_nothing(monkeypatch):
    monkeypatch.setitem(LOSSES, "own", _Own)
    with pytest.raises(
        InputError, match="phi: found ramp with loss softmax, expected loss bowl or"
    ):
        Config(phi="ramp").check()


def test_a_transformation_is_an_object_of_its_class(monkeypatch):
    monkeypatch.setitem(TRANSFORMATIONS, "mine", lambda a: None)
    config = Config(loss="listnet", transformation="mine")
    with pytest.raises(InputError, match="expected a TransformationFamily there"):
        config.check()
