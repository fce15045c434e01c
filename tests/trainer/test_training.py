"""The loop: phases do what they say, losses learn, and models predict from end to end."""

import dataclasses

import jax
import numpy as np
import pytest
import tiny
from real_data import real_data_folder
from scipy.sparse import csr_matrix
from small_runs import STEPS_PER_EPOCH, arrays, config, log, newest, same, stop_after

import snm
from snm.config.loss_options import loss_options
from snm.config.resolve import resolve
from snm.data.id_space import IdSpace
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.evaluation.evaluate import TrainCounts, evaluate_points
from snm.losses.sampled import LOSSES, SampleSizes
from snm.runs.events import (
    Counters,
    Evaluated,
    Probed,
    Saved,
    Started,
)
from snm.runs.folder import RunFolder
from snm.trainer import phase_run
from snm.trainer.start.prepare import prepare
from snm.trainer.start.warm_start import WarmStart, starting_state
from snm.trainer.training import training


@pytest.mark.bits  # the bits of two programs, of one step and of two: as they are optimized
def test_a_probe_looks_and_changes_nothing(data, whole, tmp_path):
    seen = []

    def probe(predictor):
        labels, _ = predictor.predict(data.test.features, 1)
        seen.append(labels[:, 0].tolist())
        return {"first": float(labels[0, 0])}

    run = tmp_path / "run"
    events = list(training(data, tiny.CONFIG, run, probe=probe, probe_every=5))
    probed = [event for event in events if isinstance(event, Probed)]
    assert [event.step for event in probed] == [0, 5, 10, 12]
    assert [event.found["first"] for event in probed] == [labels[0] for labels in seen]
    seconds = [event.seconds for event in probed]
    assert seconds == sorted(seconds)
    assert seconds[0] == 0
    assert same(arrays(run), arrays(whole[0]))
    assert [line["step"] for line in log(run) if line["event"] == "probed"] == [0, 5, 10, 12]


def test_a_probe_may_find_numbers_of_numpy_and_jax(data, tmp_path):
    found = {
        "label": np.int32(3),
        "mean": np.float32(0.5),
        "sum": jax.numpy.float32(1.5),
        "all": np.arange(3),
    }
    settings = config(epochs=1)
    snm.train(data, settings, tmp_path / "run", probe=lambda predictor: found)
    lines = [line["found"] for line in log(tmp_path / "run") if line["event"] == "probed"]
    assert lines == [{"label": 3, "mean": 0.5, "sum": 1.5, "all": [0, 1, 2]}] * 2


@pytest.mark.parametrize(
    ("loss", "changes"),
    [
        ("listmle", {}),
        pytest.param("listnet", dict(mined="all"), marks=pytest.mark.slow),
        pytest.param(
            "listnet",
            dict(transformation="sigmoid", learning_rate=20.0),
            marks=pytest.mark.slow,
        ),
        pytest.param("listmle", dict(transformation="linear", bias=False), marks=pytest.mark.slow),
        pytest.param("rankcosine", {}, marks=pytest.mark.slow),
        # Every tenth point has a label here: rows are stepped a hundred times as often as in sets
        # of ten thousand labels, which the rules are made for.
        pytest.param("smoothed-dcg", dict(mined="all", learning_rate=20.0), marks=pytest.mark.slow),
        pytest.param("ranksvm", dict(learning_rate=6.0), marks=pytest.mark.slow),
    ],
)
def test_listwise_losses_learn(loss, changes, data, tmp_path):
    """A chance answer is right for 2 of 20 labels."""
    settings = {"learning_rate": "auto", "epochs": 25, "schedule": "linear",
                "checkpoint_every": 1000, **changes}  # fmt: skip
    asked = config(loss=loss, **settings)
    result = snm.train(data, asked, tmp_path / "run")
    assert result["metrics"]["P@1"] >= 40
    if asked.learning_rate == "auto":
        sizes = SampleSizes(20, 19, 19)
        configured = LOSSES[loss].configured(loss_options(asked), sizes)
        assert resolve(asked, data).learning_rate == configured.auto_learning_rate


@pytest.mark.parametrize(
    "changes",
    [
        dict(data_on="device"),
        dict(sampler="in-batch", loss="softmax"),
        dict(sampler="frequency", loss="softmax"),
        dict(sampled="all", mined="all", loss="powl", phi="logistic", positives="one"),
        pytest.param(
            dict(sampled="all", sampled_start=4, sampler="frequency"), marks=pytest.mark.slow
        ),
        pytest.param(dict(sampled_start="all", data_on="device"), marks=pytest.mark.slow),
    ],
    ids=["resident", "in-batch", "frequency", "all labels", "rising B", "falling B, resident"],
)
def test_every_way_of_drawing_learns(data, tmp_path, changes):
    asked = config(epochs=8, checkpoint_every=1000, **changes)
    result = snm.train(data, asked, tmp_path / "run")
    # Two of twenty labels are right: chance is 10.
    assert result["metrics"]["P@1"] > 30
    losses = [line["loss"] for line in log(tmp_path / "run") if line["event"] == "stepped"]
    assert np.mean(losses[-4:]) < np.mean(losses[:4])


def test_fewer_points_than_a_batch_and_two_labels(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for part in ("train", "test"):
        (folder / f"{part}.txt").write_text("4 3 2\n0 0:1\n1 1:1\n0 0:1 2:1\n 2:1\n")
    result = snm.train(
        folder,
        config(sampled="auto", mined=snm.preset("default").mined, epochs=6),
        tmp_path / "run",
    )
    assert result["metrics"]["P@1"] == 100 and result["metrics"]["points_without_labels"] == 1
    assert result["steps"] == 6 and set(result["metrics"]) >= {"P@1", "R@1", "nDCG@1"}
    assert snm.read_config(tmp_path / "run" / "config.toml").sampled == 1


# Half the points are watched, and their score soon stands still.
STOPS_EARLY = config(epochs=40, validation_fraction=28 / 60, patience=3, evaluate_every=2,
                     checkpoint_every=4, refit=True, keep_checkpoints=1)  # fmt: skip


def stopped_once(data, run):
    """The events of a run that was stopped once, in the middle of the first phase."""
    stop_after(training(data, STOPS_EARLY, run), 8)
    return list(training(data, STOPS_EARLY, run))


def test_early_stopping_keeps_the_best_and_refits(data, tmp_path):
    run = tmp_path / "run"
    events = stopped_once(data, run)
    result = events[-1].result
    evaluated = [line for line in log(run) if line["event"] == "evaluated"]
    scores = {line["step"]: line["metrics"]["P@1"] for line in evaluated}
    best = max(scores.values())
    first = min(step for step, score in scores.items() if score == best)
    assert all(step % 2 == 0 for step in scores)
    # Three evaluations after the best one, not better than it, end the phase.
    last = [step for step in sorted(scores) if step > first][2]
    assert max(scores) == last < 40 * 2
    kept = RunFolder(run).checkpoints(1)
    assert kept.best() == first and kept.latest() == last
    assert kept.read(first).score == best
    progress = kept.read(last).progress
    assert progress["stopped"] and progress["best_step"] == first
    of_best = next(line["metrics"] for line in evaluated if line["step"] == first)
    assert result["validation"] == {"monitor": "P@1", "steps": [first], "metrics": of_best}
    # The refit takes as many epochs over all points as the best took over its part.
    phases = [event for event in events if isinstance(event, Started)]
    assert [event.phase for event in phases] == ["train", "refit"]
    assert [event.num_points for event in phases] == [32, 60]
    assert phases[1].last_step == first // 2 * STEPS_PER_EPOCH
    assert newest(run, "refit") == result["steps"] == phases[1].last_step
    # The model of the run is that of the refit.
    train = TrainCounts(data.label_frequency(), 60)
    scored = evaluate_points(snm.load(run), data.test, train)
    assert scored["metrics"] == result["metrics"]
    assert list(training(data, STOPS_EARLY, run))[-1].result == result


@pytest.mark.slow
def test_early_stopping_and_a_refit_do_not_know_of_a_stop(data, tmp_path):
    result = stopped_once(data, tmp_path / "run")[-1].result
    whole = snm.train(data, STOPS_EARLY, tmp_path / "whole")
    assert whole["metrics"] == result["metrics"]
    assert same(arrays(tmp_path / "run"), arrays(tmp_path / "whole"))


@pytest.mark.parametrize(("keep", "kept"), [(1, [12]), (2, [8, 12])])
def test_as_many_checkpoints_stay_as_are_asked_for(keep, kept, data, tmp_path):
    settings = config(epochs=3, checkpoint_every=4, keep_checkpoints=keep)
    snm.train(data, settings, tmp_path / "run")
    checkpoints = [path for path in (tmp_path / "run" / "checkpoints").iterdir() if path.is_dir()]
    assert sorted(int(path.name) for path in checkpoints) == kept


def test_the_best_is_kept_though_no_checkpoint_was_due(data, tmp_path):
    settings = config(epochs=4, validation_fraction=28 / 60, evaluate_every=2, checkpoint_every=8)
    events = list(training(data, settings, tmp_path / "run"))
    best = [event.step for event in events if isinstance(event, Evaluated) and event.best][-1]
    assert best in [event.step for event in events if isinstance(event, Saved)]
    assert RunFolder(tmp_path / "run").checkpoints(2).best() == best
    assert events[-1].result["best_step"] == best


def test_frequencies_are_counted_once_a_phase(data, tmp_path, monkeypatch):
    counted = []
    count = phase_run.label_frequency_together
    monkeypatch.setattr(
        phase_run, "label_frequency_together", lambda dataset: counted.append(1) or count(dataset)
    )
    settings = config(epochs=4, validation_fraction=28 / 60, evaluate_every=2)
    events = list(training(data, settings, tmp_path / "run"))
    assert sum(isinstance(event, Evaluated) for event in events) == 4
    assert len(counted) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"probe_every": -2}, "probe_every: found -2, expected a whole number of steps, or 0"),
        ({"probe_every": 2.0}, "probe_every: found 2.0, expected a whole number of steps"),
        ({"probe": None, "probe_every": 2}, "probe_every: found 2 and no probe, expected a probe"),
        ({"probe": 7}, "probe: found 7, expected a function of a Predictor, or None"),
        ({"probe": lambda model: 7}, "probe: found int returned, expected a dict of what it"),
        ({"run_dir": None}, "run_dir: found None, expected a folder, or an address in a store"),
    ],
)
def test_arguments_that_cannot_be(data, tmp_path, changes, said):
    given = {"run_dir": tmp_path / "run", "probe": lambda model: {}, **changes}
    with pytest.raises(InputError) as error:
        snm.train(data, tiny.CONFIG, **given)
    assert str(error.value).startswith(said)


def test_validation_that_cannot_be(data, tmp_path):
    labels = data.train.labels.copy()
    labels.data[labels.indptr[1] :] = 0
    labels.eliminate_zeros()
    single = dataclasses.replace(data, train=snm.Points(data.train.features, labels))
    with pytest.raises(InputError, match="labels in either part"):
        snm.train(single, config(validation_fraction=0.5), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("monitor", ["P@1", "AUC"])
def test_a_monitored_metric_that_validation_points_have_no_labels_for(data, tmp_path, monitor):
    _, held = data.rows_of_split(0.4, tiny.CONFIG.seed)
    dense = np.zeros((tiny.POINTS, 2), np.float32)
    dense[:, 0] = 1
    dense[held, 1] = 1
    pairs = None
    if monitor == "P@1":  # all labels of the held-out points are filtered
        pairs = np.stack([np.repeat(held, 2), np.tile([0, 1], len(held))], axis=1)
    points = snm.Points(data.train.features, csr_matrix(dense), pairs)
    told = dataclasses.replace(data, train=points, test=None, label_names=None)
    settings = config(validation_fraction=0.4, monitor=monitor, auc=True, sampled=1, mined=1)
    with pytest.raises(InputError, match="no validation point has the labels for it"):
        snm.train(told, settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_points_without_labels_or_weights_are_refused(data, tmp_path):
    labels = data.train.labels.copy()
    labels.data[: labels.indptr[-2]] = 0  # but of the last point
    labels.eliminate_zeros()
    weights = np.append(np.ones(tiny.POINTS - 1, np.float32), np.float32(0))
    for last, told in ((labels, "at least one that does not weigh 0"), (labels * 0, "at least")):
        last.eliminate_zeros()
        points = snm.Points(data.train.features, last, weights=weights)
        with pytest.raises(InputError, match=f"no training point with a label, expected {told}"):
            snm.train(dataclasses.replace(data, train=points), tiny.CONFIG, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_name_of_a_preset_is_no_config(data, tmp_path):
    with pytest.raises(InputError, match=r"config: found 'fast', expected a Config, such as snm.p"):
        snm.train(data, "fast", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_warm_start(data, whole, tmp_path):
    old, _ = whole
    events = training(data, tiny.CONFIG, tmp_path / "run", warm_start=old)
    assert isinstance(next(events), Started)
    events.close()
    with pytest.raises(InputError, match=r"found a run with warm_start"):
        snm.train(data, tiny.CONFIG, tmp_path / "run")
    for learned, scale in ((False, 3.0), (True, snm.read_config(old / "config.toml").score_scale)):
        asked = config(score_scale=3.0, learn_score_scale=learned, row_optimizer="adagrad")
        settings = tiny.resolved(asked)
        prepared = prepare(settings, data, Weighting.fit("tfidf", data.train.features))
        new = starting_state(prepared, WarmStart(old, IdSpace.of(data)))
        state = snm.load(old).state
        assert same([new.features.rows, new.head.table.rows],
                    [state.features.rows, state.head.table.rows])  # fmt: skip
        assert np.exp(new.head.log_scale) == pytest.approx(scale)
        assert not np.any(new.head.table.accumulator)
    with pytest.raises(InputError, match=r"^warm_start .* found 30 features, 20 labels, dim 8"):
        snm.train(data, config(dim=4), tmp_path / "none", warm_start=old)
    with pytest.raises(InputError, match=r"found .* encoder residual, .*, expected .* relu,"):
        snm.train(data, config(encoder="relu"), tmp_path / "none", warm_start=old)
    with pytest.raises(InputError, match=r"^warm_start .* a run with weighting tfidf, expected l2"):
        snm.train(data, config(weighting="l2"), tmp_path / "none", warm_start=old)
    assert not (tmp_path / "none").exists()


def test_data_without_a_test_part(tmp_path):
    folder = tiny.write(tmp_path / "data", test=False)
    result = snm.train(folder, config(epochs=1), tmp_path / "run")
    assert result["metrics"] == {} and result["steps"] == 4
    with pytest.raises(InputError, match=r"no test points, and its points .* trained on, expected"):
        snm.evaluate(tmp_path / "run")


def test_names_keep_what_looks_like_a_line_break(data, tmp_path):
    names = tuple(f"a\rb\x0b\u2028 {label}" for label in range(tiny.LABELS))
    named = dataclasses.replace(data, label_names=names)
    snm.train(named, config(epochs=1), tmp_path / "run")
    assert snm.load(tmp_path / "run").label_names == names


def test_streaming_prediction_is_the_whole_prediction(whole):
    model = snm.load(whole[0])
    features = snm.generate(points=37, test_points=0, features=30, labels=20,
                            labels_per_point=2, nonzeros_per_point=4).train.features  # fmt: skip
    labels, scores = model.predict(features, 3)
    pieces = list(dataclasses.replace(model, block_rows=16).top(features, 3))
    assert [len(piece[0]) for piece in pieces] == [16, 16, 5]
    np.testing.assert_array_equal(np.concatenate([piece[0] for piece in pieces]), labels)
    np.testing.assert_allclose(np.concatenate([p[1] for p in pieces]), scores, rtol=1e-5)
    none, nothing = model.predict(features[:0], 3)
    assert none.shape == nothing.shape == (0, 3)


@pytest.mark.slow
def test_end_to_end_on_the_embedded_set(tmp_path):
    """The default preset clears a low floor; mining beats negative sampling at equal settings."""
    data = snm.load_data("synthetic")
    default = dataclasses.replace(snm.preset("default"), epochs=3)
    floor = snm.train(data, default, tmp_path / "default")["metrics"]["P@1"]
    assert floor > 25  # the most frequent label alone has about 7
    found = {}
    for mined in (16, "all"):
        paper = dataclasses.replace(
            snm.preset("paper"), dim=64, epochs=4, sampled=1024, mined=mined
        )
        found[mined] = snm.train(data, paper, tmp_path / f"{mined}")["metrics"]["R@1"]
    assert found[16] > 1.2 * found["all"]


@pytest.mark.slow
def test_end_to_end_on_real_data(tmp_path):
    settings = dataclasses.replace(snm.preset("default"), epochs=3)
    folder = real_data_folder("delicious")
    assert snm.train(folder, settings, tmp_path / "run")["metrics"]["P@1"] > 50


def test_a_score_that_is_no_number_is_below_each_that_is_one():
    """Such as an AUC of held-out points without labels."""
    progress = Counters()
    best = [progress.record(score, step, 2) for step, score in enumerate([np.nan, np.nan, 0.5])]
    assert best == [True, False, True] and (progress.best_step, progress.stale) == (2, 0)
    best = [progress.record(score, 3, 2) for score in (np.nan, 0.4)]
    assert best == [False, False] and progress.stopped and progress.best_score == 0.5
