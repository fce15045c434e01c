"""Settings: preset < TOML < flags, and every wrong one named in one line."""

import dataclasses
import math
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import snm
from snm.cli.main import base_settings
from snm.config import auto as rules
from snm.config import auto_dropout, auto_epochs
from snm.config.evidence import evidence_lost
from snm.config.fields import GROUPS, AllSettings
from snm.config.resolve import resolve
from snm.config.settings import PRESETS, Config, config_text, preset, read_config
from snm.errors import InputError
from snm.losses.sampled import LOSSES, LossOptions, SampleSizes
from snm.losses.sampled.ordered import Powl
from snm.losses.surrogates import hinge
from snm.model.from_config import head_spec
from snm.sampling.protocol import Sampler
from snm.sampling.samplers import SAMPLERS
from snm.sampling.uniform import UniformSampler


def toml(folder: Path, text: str) -> Path:
    file = folder / "settings.toml"
    file.write_text(text)
    return file


def test_presets():
    assert preset("default") == Config()
    paper = preset("paper")
    assert (paper.preset, paper.loss, paper.encoder, paper.dim) == ("paper", "bowl", "relu", 512)
    assert all(preset(name).check() for name in PRESETS)
    with pytest.raises(InputError, match=r"^preset: found 'papre', expected one of default"):
        preset("papre")


def test_toml_lies_over_its_preset(tmp_path):
    found = read_config(toml(tmp_path, 'preset = "paper"\ndim = 7\nlearning_rate = 3\n'))
    assert found == dataclasses.replace(preset("paper"), dim=7, learning_rate=3.0)
    assert type(found.learning_rate) is float


def test_toml_lies_over_a_base(tmp_path):
    base = dataclasses.replace(preset("paper"), epochs=9)
    found = read_config(toml(tmp_path, 'sampled = "all"\nmined = 8\n'), base=base)
    assert found == dataclasses.replace(base, sampled="all", mined=8)


def test_a_preset_flag_lies_under_the_file(tmp_path):
    """`--preset` picks what lies under the file; the other flags are read over both."""
    file = toml(tmp_path, "epochs = 2\n")
    words = ["train", "data", "--config", str(file), "--preset=paper", "--dim", "9"]
    assert base_settings(words) == dataclasses.replace(preset("paper"), epochs=2)
    assert base_settings(["train", "data", f"--config={file}"]).epochs == 2
    assert base_settings(["evaluate", "run"]) == Config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning_rat = 1.0", r"learning_rat: found an unknown key, .*learning_rate$"),
        ("epoch = 3", r"epoch: found an unknown key, expected for example epochs$"),
        ("dim = 1.5", r"dim: found 1.5, expected a whole number$"),
        ("dim = true", r"dim: found True, expected a whole number$"),
        ('dim = "8"', r"dim: found '8', expected a whole number$"),
        ("bias = 1", r"bias: found 1, expected true or false$"),
        ('learning_rate = "fast"', r"learning_rate: found 'fast', expected a number or auto$"),
        (
            'loss = "bowls"',
            r"loss: found 'bowls', expected bowl or powl or softmax or .* SNM_IMPORT adds$",
        ),
        ('sampled = "most"', r"sampled: found 'most', expected a whole number or all or auto$"),
        ("monitor = 3", r"monitor: found 3, expected a text$"),
        ('preset = "big"', r"preset: found 'big', expected default or fast or paper$"),
        ("dim 3", r"settings.toml: found no TOML: .*line 1.*expected lines `key = value`$"),
        ("learning_rate = nan", r"^learning_rate: found nan, expected a finite number$"),
        (
            f"learning_rate = -1{400 * '0'}",
            "learning_rate: found a whole number of more than 308 digits, expected a finite numb",
        ),
        ("negative_weight = inf", r"^negative_weight: found inf, expected a finite number$"),
    ],
)
def test_wrong_files(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as found:
        read_config(toml(tmp_path, text))
    assert "\n" not in str(found.value)


def test_no_file(tmp_path):
    with pytest.raises(InputError, match=r"none\.toml: found no such file or directory"):
        read_config(tmp_path / "none.toml")
    with pytest.raises(InputError, match=r"is a directory"):
        read_config(tmp_path)
    file = tmp_path / "latin.toml"
    file.write_bytes(b'monitor = "\xe9"\n')
    with pytest.raises(InputError, match=r"latin\.toml: found no TOML"):
        read_config(file)


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
    assert found.input_dropout == auto_dropout.auto_input_dropout(120, lost) < 0.3
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
    assert few.input_dropout == auto_dropout.auto_input_dropout(60, evidence_lost(rare.train)) < 0.5
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


@pytest.mark.parametrize(("which", "name"), [("train", "training"), ("test", "test")])
def test_tfidf_of_negative_values_is_refused_before_training(which, name):
    data = snm.generate(points=60, test_points=20, features=60, labels=9, seed=0,
                        labels_per_point=2, nonzeros_per_point=5)  # fmt: skip
    getattr(data, which).features.data[3] *= -1
    found = f"^weighting tfidf: found a negative value of a {name} point, expected counts"
    with pytest.raises(InputError, match=found):
        resolve(dataclasses.replace(preset("default"), weighting="tfidf"), data)
    assert resolve(preset("default"), data).weighting == "l2"


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


def test_a_number_may_stand_where_auto_may(tmp_path):
    found = read_config(toml(tmp_path, 'score_scale = 8\nepochs = "auto"\n'))
    assert type(found.score_scale) is float
    assert (found.score_scale, found.epochs) == (8.0, "auto")
    with pytest.raises(InputError, match=r"score_scale: found 'big', expected a number or auto$"):
        read_config(toml(tmp_path, 'score_scale = "big"\n'))
    with pytest.raises(InputError, match=r"^score_scale: found 0.0, expected a number above 0"):
        read_config(toml(tmp_path, "score_scale = 0\n"))


def test_the_fast_preset_trains_one_small_model_beside_a_memory():
    def data(points: int):
        return snm.generate(points=points, test_points=0, features=600, labels=50, seed=0,
                            labels_per_point=2, nonzeros_per_point=5)  # fmt: skip

    found = resolve(preset("fast"), data(3000))
    assert (found.members, found.dim, found.input_dropout) == (1, 256, 0.0)
    assert found.epochs == auto_epochs.few_epochs(3000, 5) == 1
    assert found.memory == "on"
    assert resolve(preset("fast"), data(1300)).epochs == 3
    # Too few points to choose a memory: the preset trains without, and who asks is told.
    few = data(190)
    assert (resolve(preset("fast"), few).memory, resolve(preset("fast"), few).epochs) == ("off", 21)
    with pytest.raises(InputError, match="memory on"):
        resolve(dataclasses.replace(preset("fast"), memory="on"), few)
    # What is resolved stays as it is.
    assert resolve(found, data(3000)) == found
    asked = dataclasses.replace(preset("fast"), epochs=7, memory="off")
    assert (resolve(asked, few).epochs, resolve(asked, few).memory) == (7, "off")


@settings(max_examples=50, deadline=None)
@given(
    dim=st.integers(1, 10**6),
    learning_rate=st.floats(1e-30, 1e30),
    negative_weight=st.floats(0, 1e3),
    sampled=st.one_of(st.integers(1000, 10**9), st.sampled_from(["all", "auto"])),
    mined=st.one_of(st.integers(1, 1000), st.just("all")),
    bias=st.booleans(),
    monitor=st.text(st.characters(codec="utf-8")),
    name=st.sampled_from(sorted(PRESETS)),
)
def test_what_is_written_reads_back(tmp_path_factory, name, **values):
    config = dataclasses.replace(preset(name), loss="bowl", **values)
    file = tmp_path_factory.mktemp("round") / "config.toml"
    file.write_text(config_text(config), encoding="utf-8")
    assert read_config(file) == config
    assert set(tomllib.loads(file.read_text(encoding="utf-8"))) == set(dataclasses.asdict(config))
    assert [path.name for path in file.parent.iterdir()] == ["config.toml"]


def test_a_file_of_another_preset_than_the_one_asked_for_is_refused(tmp_path: Path) -> None:
    """Its name would stand above the settings of the other."""
    path = tmp_path / "own.toml"
    path.write_text('preset = "fast"\ndim = 7\n')
    asked = dataclasses.replace(preset("fast"), dim=7)
    assert read_config(path) == read_config(path, base=preset("fast")) == asked
    with pytest.raises(InputError, match=r"own\.toml: preset: found 'fast', expected 'paper'"):
        read_config(path, base=preset("paper"))


CONFIGS = sorted((Path(__file__).parents[2] / "experiments" / "configs").glob("*.toml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configs_of_the_experiments_can_be_read(path: Path) -> None:
    name = read_config(path).preset
    assert path.stem.endswith(name)
    # Each opens with the table that it is about, and a command that names it.
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert f"--config experiments/configs/{path.name}" in text


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
            with pytest.raises(InputError, match=f"labels: found {said}"):
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


def test_every_group_is_part_of_the_settings():
    assert AllSettings.__bases__ == GROUPS[::-1]


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
