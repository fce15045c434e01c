"""SNMClassifier keeps scikit-learn's rules: its checks, partial fits, searches, and refusals."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import tiny
from estimator.small_fits import SMALL
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from snm import SNMClassifier
from snm.batches.sources.source import Source
from snm.errors import InputError
from snm.machine.compiler import answer_options, step_options
from snm.runs.events import NonFiniteError
from snm.trainer import phase_run
from snm.trainer.steps.programs import StepPrograms

# A point that is there twice is visited twice, in batches with other samples. In one batch the
# gradients are equal: tests/batches/test_weights.py.
REPEATED = {
    f"check_sample_weight_equivalence_on_{kind}_data": "repeated points are visited one by one"
    for kind in ("dense", "sparse")
}
FEW = {
    "check_classifiers_multilabel_output_format_predict_proba": "100 points fit no probabilities"
}


# All of scikit-learn's own checks apply; no other is expected to fail.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [SNMClassifier(dim=8, members=1, input_dropout=0.0)],
    expected_failed_checks=lambda estimator: REPEATED | FEW,
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_early_stopping_keeps_the_best_epoch(data):
    """The same bits as training for as many epochs on the points that were not held out."""
    X, Y = data.train.features, data.train.labels
    params = {**SMALL, "members": 2, "learning_rate": 4.0}
    model = SNMClassifier(
        epochs=30, early_stopping=True, validation_fraction=0.3, n_iter_no_change=2, **params
    ).fit(X, Y)
    kept, watched = (parts := data.split(0.3, 0)).train, parts.test
    best = []
    for scores in model.validation_scores_:
        first_best = int(np.argmax(scores))
        # Two epochs without a better score, and no more.
        assert len(scores) == first_best + 3 or len(scores) == 30
        best.append(first_best + 1)
    assert min(map(len, model.validation_scores_)) < 30
    alone = {**params, "members": 1}
    same = SNMClassifier(epochs=best[0], **alone).fit(kept.features, kept.labels)
    assert same.score(watched.features, watched.labels) == max(model.validation_scores_[0])
    one = SNMClassifier(
        epochs=30, early_stopping=True, validation_fraction=0.3, n_iter_no_change=2, **alone
    ).fit(X, Y)
    np.testing.assert_array_equal(one.decision_topk(X)[1], same.decision_topk(X)[1])
    assert one.validation_scores_ == model.validation_scores_[:1]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"validation_fraction": 0.0}, "validation_fraction: found 0.0, expected a share"),
        ({"validation_fraction": 1}, "validation_fraction: found 1, expected a share"),
        ({"n_iter_no_change": 0}, "n_iter_no_change: found 0, expected a number of epochs"),
    ],
)
def test_early_stopping_refuses(data, params, message):
    model = SNMClassifier(early_stopping=True, **{**SMALL, **params})
    with pytest.raises(InputError, match=message):
        model.fit(data.train.features, data.train.labels)
    with pytest.raises(InputError, match="early_stopping: found True in partial_fit"):
        model.partial_fit(data.train.features, data.train.labels)


def test_partial_fit_goes_on(data):
    X, Y = data.train.features, data.train.labels
    model = SNMClassifier(weighting="l2", **SMALL)
    losses = [np.mean(model.partial_fit(X, Y).loss_curve_) for _ in range(6)]
    assert losses[-1] < 0.8 * losses[0]
    before = model.decision_topk(X, k=3)[1]
    empty = sparse.csr_matrix((tiny.POINTS, tiny.LABELS))
    np.testing.assert_array_equal(model.partial_fit(X, empty).decision_topk(X, k=3)[1], before)
    # After a fit it goes on from there.
    model = SNMClassifier(epochs=6, **SMALL).fit(X, Y)
    start = model.loss_curve_[0]
    assert np.mean(model.partial_fit(X, Y).loss_curve_) < 0.8 * start


def test_a_few_points_more_do_not_undo_a_fit():
    """Where a fit ends at low rates, a pass over one point or a few goes on at such rates."""
    rng = np.random.default_rng(0)
    of = rng.integers(0, 6, 400)
    X = np.eye(6)[of] + rng.normal(0, 0.3, (400, 6))
    X, new, y, new_y = X[:300], X[300:], of[:300], of[300:]
    fitted = SNMClassifier(dim=8, members=1, epochs=10, memory="off").fit(X, y)
    assert fitted.score(new, new_y) > 0.9
    for size in (1, 20, 100):
        model = pickle.loads(pickle.dumps(fitted))
        for first in range(0, 100, size)[:5]:
            part = slice(first, first + size)
            model.partial_fit(new[part], new_y[part])
        assert model.score(X, y) > fitted.score(X, y) - 0.02
        seen = np.arange(min(100, 5 * size))
        before, after = (m.predict_proba(new)[seen, new_y[seen]] for m in (fitted, model))
        assert np.log(after).mean() > np.log(before).mean()  # it learned them


def test_partial_fit_alone_learns():
    """At the first rate of a schedule that decays, batches of 16 points would not converge."""
    rng = np.random.default_rng(0)
    of = rng.integers(0, 12, 240)
    X = np.eye(12)[of] + rng.normal(0, 0.25, (240, 12))
    model = SNMClassifier(dim=16, members=1, random_state=3)
    for _ in range(8):
        for first in range(0, 240, 60):
            part = slice(first, first + 60)
            model.partial_fit(X[part], of[part], classes=range(12))
    assert model.config_.batch_size == 16
    assert model.config_.learning_rate == pytest.approx(20 / 2 * 16 / 256)
    assert model.score(X, of) > 0.95
    given = SNMClassifier(dim=16, members=1, learning_rate=3.0)
    assert given.partial_fit(X, of, classes=range(12)).config_.learning_rate == 3


def test_partial_fit_needs_to_know_the_classes(data):
    X = data.train.features
    y = [[f"{i % 3}"] for i in range(tiny.POINTS)]
    model = SNMClassifier(**{**SMALL, "sampled": 2, "mined": 2})
    with pytest.raises(InputError, match="all classes in the first call"):
        model.partial_fit(X, y)
    model.partial_fit(X, y, classes=["unseen", "0", "1", "0", "2"])  # as in scikit-learn, a set
    assert model.classes_.tolist() == ["0", "1", "2", "unseen"]
    model.partial_fit(X, y, classes=["0", "1", "2", "unseen", "unseen"])
    assert model.classes_.tolist() == ["0", "1", "2", "unseen"]
    with pytest.raises(InputError, match=r"classes: found others than before"):
        model.partial_fit(X, y, classes=["0", "1"])
    with pytest.raises(InputError, match=r"the class .*'9'.*, expected one of the known"):
        model.partial_fit(X, [["9"]] * tiny.POINTS)
    with pytest.raises(InputError, match="targets of the form 'sparse', expected 'lists'"):
        model.partial_fit(X, data.train.labels)


def test_texts_through_a_pipeline():
    topics = {"fruit": "apple pear plum", "tools": "hammer saw drill", "sea": "wave tide boat"}
    rng = np.random.default_rng(0)
    texts, labels = [], []
    for _ in range(60):
        names = sorted(rng.choice(list(topics), 2, replace=False))
        texts.append(" ".join(rng.choice(topics[name].split()) for name in names))
        labels.append(names)
    model = make_pipeline(TfidfVectorizer(), SNMClassifier(dim=8, members=1, epochs=20))
    model.fit(texts, labels)
    (answer,) = model.predict(["the saw and a wave"])
    assert sorted(answer) == ["sea", "tools"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_grid_search(data):
    X, Y = data.train.features, data.train.labels
    grid = {"epochs": [1, 6]}
    search = GridSearchCV(SNMClassifier(**SMALL), grid, cv=2).fit(X, Y)
    assert search.best_params_ == {"epochs": 6}
    assert search.best_score_ > search.cv_results_["mean_test_score"][0]
    lists = [list(Y[i].indices) for i in range(tiny.POINTS)]
    again = GridSearchCV(SNMClassifier(**SMALL), grid, cv=KFold(2), refit=False)
    scores = again.fit(X, lists).cv_results_["mean_test_score"]
    # The same but for a label that one fold lacks, which lists then do not tell of.
    np.testing.assert_allclose(scores, search.cv_results_["mean_test_score"], atol=0.05)
    # scikit-learn refuses lists where it makes the folds itself, and takes sets.
    sets = [set(row) for row in lists]
    by_number = GridSearchCV(SNMClassifier(**SMALL), grid, cv=2, refit=False).fit(X, sets)
    np.testing.assert_array_equal(by_number.cv_results_["mean_test_score"], scores)


def test_parameters_are_kept_as_they_are_given():
    model = SNMClassifier(dim=7, settings={"ramp_rho": 2.0})
    assert clone(model).get_params() == model.get_params()
    assert model.get_params()["dim"] == 7 and model.get_params()["settings"] == {"ramp_rho": 2.0}
    with pytest.raises(NotFittedError):
        model.predict(np.eye(3))


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"settings": {"ramp_ro": 1}}, "settings: ramp_ro: .*for example ramp_rho"),
        ({"settings": {"patience": 3}}, "settings: patience: found a setting of runs"),
        ({"settings": {"mesh": "label=2"}}, "settings: mesh: found a setting of runs"),
        ({"settings": {"auc": True}}, "settings: auc: found a setting of runs"),
        ({"dim": 8, "settings": {"dim": 9}}, "settings: dim: found another value"),
        ({"preset": "big"}, "preset: found 'big', expected one of default, fast, paper"),
        ({"learning_rate": -1.0}, "^learning_rate: found -1.0, expected a number above 0"),
        (
            {"weighting": "best"},
            "^weighting: found 'best', expected auto or tfidf or l2 or standard or none",
        ),
    ],
)
def test_settings_that_cannot_be_used(data, params, said):
    with pytest.raises(InputError, match=said):
        SNMClassifier(**params).fit(data.train.features, data.train.labels)


def test_non_finite_steps_can_be_skipped(data, monkeypatch):
    stack = Source.stack

    def broken(self, first, count, length=0):
        batch = stack(self, first, count, length)
        if first == 2:  # of the steps 0 to 11, two a dispatch
            batch.features.values[:] = np.nan
        return batch

    monkeypatch.setattr(Source, "stack", broken)
    X, Y = data.train.features, data.train.labels
    with pytest.raises(
        NonFiniteError, match=r"step 2: .*unless this was partial_fit\. A lower learning_rate"
    ) as error:
        SNMClassifier(epochs=3, **SMALL).fit(X, Y)
    assert "log.jsonl" not in str(error.value) and "checkpoint" not in str(error.value)
    assert len(error.value.culprits) == len(error.value.points) == 16
    with pytest.raises(NonFiniteError, match="Rows are those of X, without") as error:
        SNMClassifier(epochs=3, early_stopping=True, validation_fraction=0.5, **SMALL).fit(X, Y)
    assert set(error.value.points) <= set(data.rows_of_split(0.5, 0)[0])
    settings = {**SMALL["settings"], "on_nonfinite": "skip"}
    model = SNMClassifier(epochs=3, **{**SMALL, "settings": settings}).fit(X, Y)
    assert np.flatnonzero(np.isnan(model.loss_curve_)).tolist() == [1]
    assert np.isfinite(model.decision_topk(X, k=1)[1]).all()


def test_a_short_fit_compiles_fast_and_the_program_of_many_parts_runs_fast(data, monkeypatch):
    """The program of a new model is compiled while its parameters are made."""
    options, begun = [], []

    class Programs(StepPrograms):
        def __init__(self, *rest):
            super().__init__(*rest)
            options.append(rest[-1])

        def begin(self, count):
            begun.append(len(options))

    monkeypatch.setattr(phase_run, "StepPrograms", Programs)
    X, Y = data.train.features, data.train.labels
    model = SNMClassifier(**SMALL, epochs=1).fit(X, Y)
    model.partial_fit(X, Y)
    SNMClassifier(**SMALL).partial_fit(X, Y)
    assert options == [answer_options, step_options, step_options]
    assert begun == [1, 3]


def test_a_verbose_fit_shows_a_bar_a_member(data, capsys):
    params = {**SMALL, "members": 2}
    quiet = SNMClassifier(**params, epochs=1).fit(data.train.features, data.train.labels)
    assert capsys.readouterr().out == ""
    model = SNMClassifier(**params, epochs=1, verbose=True)
    model.fit(data.train.features, data.train.labels)
    first, second = capsys.readouterr().out.strip().splitlines()
    assert first.startswith("train  loss ") and second.startswith("member-2  loss ")
    assert model.loss_curve_ == quiet.loss_curve_


def test_targets_that_cannot_be_used(data):
    X = data.train.features
    with pytest.raises(InputError, match="at least 2 classes"):
        SNMClassifier().fit(X, ["one"] * tiny.POINTS)
    with pytest.raises(InputError, match=r"^y: found no point with a label, expected at least 2"):
        SNMClassifier().fit(X, [[]] * tiny.POINTS)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        SNMClassifier().fit(X, np.linspace(0, 1, tiny.POINTS))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SNMClassifier().fit(X, ["a", "b"])
    with pytest.raises(InputError, match="lists of labels and other things"):
        SNMClassifier().fit(X, [["a"]] * (tiny.POINTS - 1) + ["b"])


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("value", [-1.0, 2.0, 0.3, np.nan])
def test_an_indicator_holds_only_zeros_and_ones(value, dense):
    indicator = np.array([[1, 0], [0, 1], [1, 1], [0, value]])
    y = indicator if dense else sparse.csr_matrix(indicator)
    said = f"^y: found {value} in an indicator, expected only 0 and 1"
    if dense and value not in (-1, 2):
        said = "Unknown label type|contains NaN"  # scikit-learn's
    with pytest.raises(ValueError, match=said):
        SNMClassifier().fit(np.eye(4), y)


def test_scikit_learn_is_imported_when_it_is_used():
    code = (
        "import sys\n"
        "sys.modules['sklearn'] = None\n"  # as if it were not installed
        "import snm\n"
        "assert not {'jax', 'scipy'} & set(sys.modules)\n"
        "try: snm.SNMClassifier\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    how = "pip install -e '.[sklearn]' -c constraints.txt"
    assert done.stdout == f"SNMClassifier needs scikit-learn: {how}\n"
