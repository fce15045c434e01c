"""What `auto` becomes, and settings that do not fit the data."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix, hstack

import snm
from snm.config import auto as rules
from snm.config import auto_epochs
from snm.config.evidence import evidence_lost, neighbors_lost
from snm.config.resolve import resolve
from snm.config.settings import Config, preset
from snm.data.dataset import Dataset, Points
from snm.errors import InputError
from snm.losses.sampled import LOSSES, LossOptions, SampleSizes
from snm.losses.sampled.ordered import Powl
from snm.losses.surrogates import hinge
from snm.model.from_config import head_spec
from snm.sampling.protocol import Sampler
from snm.sampling.samplers import SAMPLERS
from snm.sampling.uniform import UniformSampler


def test_auto_size_grows_and_stays_below_k():
    sizes = [rules.auto_sampled(k) for k in range(2, 70_000, 37)]
    assert sizes == sorted(sizes)
    assert all(b < k for b, k in zip(sizes, range(2, 70_000, 37), strict=True))
    assert rules.auto_sampled(2**31 - 1) == 8192
    with pytest.raises(ValueError, match="at least 2"):
        rules.auto_sampled(1)


def test_auto_becomes_what_the_rules_say():
    data = snm.generate(points=3000, test_points=0, features=60, labels=50, seed=0,
                        labels_per_point=2, nonzeros_per_point=5)  # fmt: skip
    found = resolve(preset("default"), data)
    assert found.epochs == auto_epochs.auto_epochs(3000, 5, more=True) == 30
    assert found.class_init == "centroid"
    assert found.score_scale == rules.auto_score_scale(50)
    assert (found.sampled, found.mined) == (49, "all")
    assert (found.members, found.dim) == (3, 512)
    # 3000 points of 2 labels: 120 of each of 50.
    assert data.train.labels.nnz / 50 >= 100
    lost = evidence_lost(data.train)
    assert 0.04 < lost < 0.16  # few features, of which one decides
    assert (
        found.input_dropout == rules.auto_input_dropout(120, lost, neighbors_lost(data.train)) < 0.3
    )
    assert found.learn_score_scale is True
    assert resolve(preset("paper"), data).input_dropout == 0
    rare = snm.generate(points=1000, test_points=0, features=60, labels=50, seed=0,
                        labels_per_point=2, nonzeros_per_point=5)  # fmt: skip
    assert rare.train.labels.nnz / 50 < 100
    few = resolve(preset("default"), rare)
    # Of 1000 points, 100 thousand visits are still 100 passes.
    assert (few.class_init, few.epochs) == ("centroid", 30)
    random = resolve(dataclasses.replace(preset("default"), class_init="random"), rare)
    assert (random.class_init, random.epochs) == ("random", 30)
    assert resolve(preset("paper"), rare).class_init == "random"
    lost = evidence_lost(rare.train), neighbors_lost(rare.train)
    assert few.input_dropout == rules.auto_input_dropout(60, *lost) < 0.5
    assert few.learn_score_scale is False
    alone = resolve(dataclasses.replace(preset("default"), members=1), data)
    assert (alone.members, alone.dim) == (1, 512)
    small = resolve(dataclasses.replace(preset("default"), dim=8), data)
    assert (small.members, small.dim) == (3, 8)
    # A positive at 1 against K - 1 others at 0 has e / (e + 1 - 1 / K) of the softmax.
    weights = np.exp(found.score_scale * np.r_[1.0, np.zeros(49)])
    assert weights[0] / weights.sum() == pytest.approx(math.e / (math.e + 1 - 1 / 50))
    other = resolve(dataclasses.replace(preset("default"), loss="bowl", epochs=2, mined=8), data)
    assert (other.score_scale, other.epochs, other.mined) == (1.0, 2, 8)
    assert other.learn_score_scale is False  # no exponentials
    # What the user says stands: a number is not moved from, unless learning is asked for.
    for asked, learned in [
        (dict(score_scale=5.0), False),
        (dict(score_scale=5.0, learn_score_scale=True), True),
        (dict(learn_score_scale=False), False),
    ]:
        told = resolve(dataclasses.replace(preset("default"), **asked), data)
        assert told.learn_score_scale is learned
    assert resolve(found, data) == found


def test_no_dropout_where_only_many_features_together_decide():
    digits = np.random.default_rng(0).integers(3, size=(3000, 6))
    classes = digits[:, [0, 1, 4, 5]] @ [1, 3, 9, 27]
    train = Points(np.eye(3)[digits].reshape(3000, 18), np.eye(81)[classes])
    data = Dataset("digits", train, None, None, "")
    config = dataclasses.replace(preset("default"), weighting="tfidf")
    assert rules.auto_input_dropout(37, evidence_lost(train), 0.0) == 0.5
    assert resolve(config, data).input_dropout == 0


@pytest.mark.parametrize(("which", "name"), [("train", "training"), ("test", "test")])
def test_tfidf_of_negative_values_is_refused_before_training(which, name):
    data = snm.generate(points=60, test_points=20, features=60, labels=9, seed=0,
                        labels_per_point=2, nonzeros_per_point=5)  # fmt: skip
    getattr(data, which).features.data[3] *= -1
    found = f"^weighting tfidf: found a negative value of a {name} point, expected counts"
    with pytest.raises(InputError, match=found):
        resolve(dataclasses.replace(preset("default"), weighting="tfidf"), data)
    assert resolve(preset("default"), data).weighting == "l2"


def with_prices(data, largest):
    """The points of a data set, with one more feature that all of them have."""
    prices = csr_matrix(np.linspace(1, largest, data.train.num_points, dtype=np.float32)[:, None])
    features = hstack([data.train.features, prices], format="csr")
    return dataclasses.replace(
        data, train=dataclasses.replace(data.train, features=features), test=None
    )


@pytest.mark.parametrize(
    ("features", "largest", "expected"),
    [
        (35, 1000, "standard"),  # a sixth of the values, and a price
        (35, 1, "tfidf"),
        (20, 1, "standard"),  # a quarter of the values
        (90, 1000, "tfidf"),  # a fifteenth: standardized points would be far longer
    ],
)
def test_features_with_a_number_in_another_unit_are_standardized(features, largest, expected):
    data = snm.generate(points=200, test_points=0, features=features, labels=9, seed=0,
                        labels_per_point=2, nonzeros_per_point=5)  # fmt: skip
    found = resolve(preset("default"), with_prices(data, largest))
    assert found.weighting == expected
    assert expected != "standard" or found.input_dropout == 0


def test_a_price_changes_little_where_features_are_standardized(tmp_path):
    data = snm.generate(points=600, test_points=0, features=30, labels=9, seed=0,
                        labels_per_point=1, nonzeros_per_point=5)  # fmt: skip
    settings = dataclasses.replace(preset("fast"), members=1, dim=16, epochs=8, memory="off")
    found = {}
    for weighting in ("auto", "tfidf"):
        config = dataclasses.replace(settings, weighting=weighting)
        parts = with_prices(data, 1e6).split(0.3, seed=0)
        found[weighting] = snm.train(parts, config, tmp_path / weighting)["metrics"]["P@1"]
    plain = snm.train(data.split(0.3, seed=0), settings, tmp_path / "plain")["metrics"]["P@1"]
    assert found["tfidf"] < plain - 10 < found["auto"]


@pytest.mark.parametrize("loss", [name for name in LOSSES if LOSSES[name].listwise])
def test_what_a_listwise_loss_is_trained_with(loss):
    data = snm.generate(points=100, test_points=0, features=60, labels=50, seed=0,
                        labels_per_point=2, nonzeros_per_point=5)  # fmt: skip
    found = resolve(dataclasses.replace(preset("default"), loss=loss, mined=8), data)
    configured = LOSSES[loss].configured(LossOptions(), SampleSizes(50, 8, 8))
    assert found.learning_rate == configured.auto_learning_rate
    assert found.score_scale == (1.0 if loss == "ranksvm" else rules.auto_score_scale(50))
    spec = head_spec(found, 50)
    if loss == "ranksvm":
        # POWL of single terms, with the hinge and equal weights.
        assert isinstance(spec.head_loss, Powl) and not spec.head_loss.scores_per_point
        assert spec.head_loss.phi is hinge
        assert spec.head_loss.ranks.mined_weights == pytest.approx(np.full(8, 1 / 8))
        return
    grade = 1.0 if loss == "smoothed-dcg" else found.score_scale  # which does not read it
    assert spec.head_loss.name == loss and spec.head_loss.grade == grade
    # Of a linear psi every score in [-1, 1] times the multiplier is above -offset.
    if loss != "smoothed-dcg":
        other = dataclasses.replace(found, transformation="linear", bias=False, temperature=2.0,
                                    score_scale="auto")  # fmt: skip
        psi = head_spec(resolve(other, data), 50).head_loss.psi
        assert (psi.a, psi.b) == (0.5, pytest.approx(0.55))


def test_the_fast_preset_trains_a_small_model_beside_a_memory():
    def data(points: int):
        return snm.generate(points=points, test_points=0, features=600, labels=50, seed=0,
                            labels_per_point=2, nonzeros_per_point=5)  # fmt: skip

    found = resolve(preset("fast"), data(3000))
    assert (found.members, found.dim, found.input_dropout) == (1, 256, 0.0)
    assert found.epochs == auto_epochs.few_epochs(3000, 5) == 1
    assert found.memory == "on"
    assert resolve(preset("fast"), data(1300)).epochs == 8
    # Too few points to choose a memory: the preset trains without, and who asks is told.
    few = data(190)
    assert (resolve(preset("fast"), few).memory, resolve(preset("fast"), few).epochs) == ("off", 30)
    with pytest.raises(InputError, match="memory on"):
        resolve(dataclasses.replace(preset("fast"), memory="on"), few)
    # What is resolved stays as it is.
    assert resolve(found, data(3000)) == found
    asked = dataclasses.replace(preset("fast"), epochs=7, memory="off")
    assert (resolve(asked, few).epochs, resolve(asked, few).memory) == (7, "off")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (dict(mined=1, retrieval_k=5), "found 1 mined negatives and --retrieval-k 5, expected"),
        (
            dict(mined_start=1, retrieval_k=5),
            "found 1 mined negatives and --retrieval-k 5, expected",
        ),
        (
            dict(sampled=4, mined="all", retrieval_k=8),
            "found 4 mined negatives and --retrieval-k 8, expected --sampled 8 or more",
        ),
        (dict(exclude="all"), "found --exclude all, expected --exclude positive"),
        (dict(negative_weight=0.5), "found --negative-weight 0.5, expected 1 or more"),
    ],
)
def test_a_loss_that_should_bound_the_retrieval_loss_does(values, message):
    data = snm.generate(points=30, test_points=1, features=20, labels=20, seed=0)
    bound = dict(weight_scale="surrogate", loss="bowl", sampled=10, mined=5, exclude="positive")
    config = dataclasses.replace(preset("default"), **{**bound, **values})
    with pytest.raises(InputError) as found:
        resolve(config, data)
    assert found.value.as_flags.startswith(f"--weight-scale surrogate: {message}")
    resolve(dataclasses.replace(config, weight_scale="mean"), data)
    for fine in (dict(retrieval_k=5), dict(vartheta="power-law", retrieval_k=2), dict(mined="all")):
        resolve(dataclasses.replace(preset("default"), **{**bound, **fine}), data)


@pytest.mark.parametrize("values", [dict(), dict(sampled="all"), dict(sampled=19)])
def test_a_sampler_that_would_draw_nothing_is_refused(values):
    """With 20 labels, auto takes all others as negatives."""
    data = snm.generate(points=30, test_points=1, features=20, labels=20, seed=0)
    config = dataclasses.replace(preset("default"), sampler="frequency", **values)
    with pytest.raises(InputError, match="frequency with all 19 other labels as negatives"):
        resolve(config, data)
    assert resolve(dataclasses.replace(config, sampled=10), data).sampler == "frequency"
    assert resolve(dataclasses.replace(config, sampler="uniform"), data).sampled in (19, "all")


def test_a_sampler_says_itself_whether_it_is_uniform_and_repeats_labels(monkeypatch):
    data = snm.generate(points=30, test_points=1, features=20, labels=20, seed=0)

    def check(sampler, **values):
        monkeypatch.setitem(SAMPLERS, "own", sampler)
        base = dict(loss="bowl", sampler="own", sampled=10, mined=5, exclude="positive")
        resolve(dataclasses.replace(preset("default"), **{**base, **values}), data)

    bound, every = dict(weight_scale="surrogate"), dict(sampled="all")
    check(type("Even", (UniformSampler,), {}), **bound)
    check(type("Even", (UniformSampler,), {}), **every)
    # Different labels, some likelier than others, whether or not their frequencies are read.
    for reads in (False, True):
        flags = {"uniform": False, "needs_label_frequency": reads}
        skewed = type("Skewed", (UniformSampler,), flags)
        check(skewed)
        for values, said in ((bound, "likely as others"), (every, "none is drawn")):
            with pytest.raises(InputError, match=said):
                check(skewed, **values)
    # One that does not say it is not uniform and repeats labels; it reads no frequencies.
    silent = type("Silent", (Sampler,), {"needs_label_frequency": False,
                                         "needs_batch_positives": False})  # fmt: skip
    check(silent, loss="softmax")
    with pytest.raises(InputError, match="labels that are drawn once"):
        check(silent)


def test_labels_that_would_weigh_or_repeat_are_refused():
    """Their values would be taken for weights, and a 0 for a label."""
    data = snm.generate(points=30, test_points=4, features=20, labels=20, seed=0)

    def with_labels(change, part="train"):
        points = getattr(data, part)
        labels = points.labels.copy()
        change(labels)
        return dataclasses.replace(data, **{part: dataclasses.replace(points, labels=labels)})

    def value(number):
        def changed(labels):
            labels.data[0] = number

        return changed

    def twice(labels):
        labels.indices[1] = labels.indices[0]
        labels.has_canonical_format = False
        labels.has_sorted_indices = True

    for change, said in (
        (value(2), "values from 1 to 2, expected 1 for each label"),
        (value(0), "values from 0 to 1"),
        (value(np.nan), "values from nan to nan"),
        (twice, "a label that a point has twice"),
    ):
        for part in ("train", "test"):
            where = "labels" if part == "train" else "test labels"
            with pytest.raises(InputError, match=f"^{where}: found {said}"):
                resolve(preset("fast"), with_labels(change, part))
    resolve(preset("fast"), with_labels(value(1)))


def test_a_feature_that_a_point_has_twice_is_refused():
    """Weighting takes its parts for two features, and the model their sum for one."""
    data = snm.generate(points=30, test_points=4, features=20, labels=20, seed=0)
    features = data.train.features
    parts = csr_matrix(
        (np.repeat(features.data / 2, 2), np.repeat(features.indices, 2), 2 * features.indptr),
        features.shape,
    )
    assert (parts != features).nnz == 0
    changed = dataclasses.replace(data, train=dataclasses.replace(data.train, features=parts))
    with pytest.raises(InputError, match=r"^features: found a feature that a point has twice"):
        resolve(preset("fast"), changed)
    backwards = features.copy()
    for first, last in zip(features.indptr, features.indptr[1:], strict=False):
        backwards.indices[first:last] = features.indices[first:last][::-1]
        backwards.data[first:last] = features.data[first:last][::-1]
    backwards.has_sorted_indices = backwards.has_canonical_format = False
    assert (backwards != features).nnz == 0
    unsorted = dataclasses.replace(data.train, features=backwards)
    resolve(preset("fast"), dataclasses.replace(data, train=unsorted))


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_refused_with_its_place(number):
    data = snm.generate(points=30, test_points=4, features=20, labels=20, seed=0)
    for part, where in (("train", "features"), ("test", "test features")):
        points = getattr(data, part)
        features = points.features.copy()
        first, column = features.indptr[2], features.indices[features.indptr[2]]
        features.data[[first, -1]] = number  # the first entry of row 2, and the last one
        changed = dataclasses.replace(
            data, **{part: dataclasses.replace(points, features=features)}
        )
        found = f"a value that is not finite in row 2, column {column}"
        with pytest.raises(InputError, match=f"^{where}: found {found}"):
            resolve(preset("fast"), changed)


def test_the_rate_of_auto_is_over_what_the_negatives_weigh():
    data = snm.generate(points=100, test_points=0, features=60, labels=51, seed=0,
                        labels_per_point=2, nonzeros_per_point=5)  # fmt: skip
    asked = Config(loss="powl", sampled=20, mined=8, exclude="positive", retrieval_k=2)
    assert resolve(asked, data).learning_rate == 20.0
    bound = dataclasses.replace(asked, weight_scale="surrogate")
    assert resolve(bound, data).learning_rate == pytest.approx(20 / (50 * 8 / (2 * 20)))
    assert resolve(dataclasses.replace(bound, learning_rate=7.0), data).learning_rate == 7.0
    more = dataclasses.replace(asked, negative_weight=4.0)
    assert resolve(more, data).learning_rate == pytest.approx(5.0)
