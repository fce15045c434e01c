"""The loop: resumed runs are the same runs, batches miss nothing, phases do what they say."""

import collections
import dataclasses
import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from fractions import Fraction

import jax
import numpy as np
import pytest
import tiny
from earlier import without_manifest
from real_data import real_data_folder

import snm
from snm.batches.build import make_source
from snm.batches.source import Source
from snm.checkpoints.store import Checkpoints
from snm.cli.main import main
from snm.config.resolve import resolve
from snm.config.stages import Sizes
from snm.data.id_space import IdSpace
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.evaluation.evaluate import evaluate_points
from snm.losses.sampled import LOSSES
from snm.model.from_config import head_spec, head_stages, make_model
from snm.model.model import abstract_state
from snm.runs.events import (
    Evaluated,
    Finished,
    NonFiniteError,
    Probed,
    Saved,
    Started,
    Stepped,
)
from snm.runs.folder import RunFolder
from snm.runs.load import load_member
from snm.trainer.prepare import prepare
from snm.trainer.programs import compiled_steps
from snm.trainer.training import training
from snm.trainer.warm_start import WarmStart, initial_state

STEPS_PER_EPOCH = 4


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.dataset(tmp_path_factory.mktemp("data") / "tiny")


def config(**changes):
    return dataclasses.replace(tiny.CONFIG, **changes)


@pytest.fixture(scope="module")
def whole(tiny_run):
    """The undisturbed run that others are compared with: its folder and its result."""
    folder = tiny_run / "run"
    return folder, json.loads((folder / "result.json").read_text())


def arrays(run):
    """All arrays of a run's model."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(snm.load(run).state)]


def newest(run, phase="train"):
    """Steps of the newest checkpoint."""
    return RunFolder(run).checkpoints(2, phase).latest()


def same(first, second):
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True))


def log(run):
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


# -- resume ----------------------------------------------------------------------------------


def stop_after(events, count):
    """Consumes some events and drops the run there, as a kill would."""
    for _ in itertools.islice(events, count):
        pass
    events.close()


@pytest.mark.parametrize(
    "changes",
    [
        dict(),
        pytest.param(dict(mined_start="all"), marks=pytest.mark.slow),
        pytest.param(
            dict(sampled_start=2, mined=2, score_scale=4.0, score_scale_start=8.0),
            marks=pytest.mark.slow,
        ),
        dict(input_dropout=0.5, schedule="linear", encoder="residual", row_optimizer="adagrad"),
        pytest.param(
            dict(loss="bowl", vartheta="subsample", positives="one", checkpoint_every=2),
            marks=pytest.mark.slow,
        ),
    ],
    ids=[
        "mined softmax",
        "falling k",
        "rising B, falling scale",
        "dropout, tower, adagrad",
        "subsample, checkpoints within epochs",
    ],
)
def test_a_resumed_run_is_the_same_run(data, whole, tmp_path, changes):
    settings = config(**changes)
    run, result = whole
    if changes:
        run = tmp_path / "whole"
        result = snm.train(data, settings, run)
    # The checkpoint of the first epoch is there, some steps of the second are lost.
    stop_after(training(data, settings, tmp_path / "run"), 5)
    assert 0 < newest(tmp_path / "run") < 12
    again = snm.train(data, settings, tmp_path / "run")
    assert same(arrays(run), arrays(tmp_path / "run"))
    for key in ("metrics", "steps", "epochs", "best_step", "by_label_frequency"):
        assert again[key] == result[key], key


def test_a_run_stopped_before_its_first_checkpoint(data, whole, tmp_path):
    stop_after(training(data, tiny.CONFIG, tmp_path / "run"), 2)
    assert newest(tmp_path / "run") is None
    with pytest.raises(InputError, match="no checkpoint"):
        snm.load(tmp_path / "run")
    snm.train(data, tiny.CONFIG, tmp_path / "run")
    assert same(arrays(whole[0]), arrays(tmp_path / "run"))


def test_a_folder_only_begun_is_taken_over(data, whole, tmp_path):
    """What a kill leaves while the folder is being set up."""
    (tmp_path / "run").mkdir()
    for name in ("run.json", "weighting.partial", "config.partial"):
        (tmp_path / "run" / name).write_text("half")
    snm.train(data, tiny.CONFIG, tmp_path / "run")
    assert same(arrays(whole[0]), arrays(tmp_path / "run"))


@pytest.mark.slow
def test_a_killed_run_is_the_same_run(tmp_path):
    """SIGKILL at whatever moment; the same command again."""
    tiny.write(tmp_path / "data")
    words = ["train", str(tmp_path / "data"), "--epochs=40", *tiny.FLAGS, "--epochs=40"]

    def command(run):
        code = (
            f"import sys; from snm.cli.main import main; main({[*words, '--run-dir', str(run)]!r})"
        )
        return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL,
                                env={**os.environ, "JAX_NUM_CPU_DEVICES": "4"})  # fmt: skip

    assert command(tmp_path / "whole").wait() == 0
    for epochs in (2, 9):
        process = command(tmp_path / "run")
        while (newest(tmp_path / "run") or 0) < epochs * STEPS_PER_EPOCH:
            time.sleep(0.02)
            assert process.poll() is None, "finished before it was killed"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert command(tmp_path / "run").wait() == 0
    assert same(arrays(tmp_path / "whole"), arrays(tmp_path / "run"))
    results = [json.loads((tmp_path / run / "result.json").read_text()) for run in ("whole", "run")]
    assert results[0]["metrics"] == results[1]["metrics"]


# -- members ---------------------------------------------------------------------------------


def test_members_are_runs_of_their_own_and_their_scores_add_up(data, whole, tmp_path):
    both = snm.train(data, config(members=2), tmp_path / "both")
    first, second = (load_member(tmp_path / "both", member)[1] for member in (1, 2))
    assert same(jax.tree.leaves(first), arrays(whole[0]))
    assert not same(jax.tree.leaves(first), jax.tree.leaves(second))
    alone = snm.train(data, config(seed=1_000_003), tmp_path / "alone")
    assert same(jax.tree.leaves(second), arrays(tmp_path / "alone"))
    # Brute force: the scores of either, added in float64.
    features, total = data.test.features, np.zeros((tiny.TEST_POINTS, tiny.LABELS))
    for run in (whole[0], tmp_path / "alone"):
        labels, scores = snm.load(run).predict(features, tiny.LABELS)
        add = np.zeros_like(total)
        np.put_along_axis(add, labels, scores.astype(np.float64), axis=1)
        total += add
    labels, scores = snm.load(tmp_path / "both").predict(features, tiny.LABELS)
    np.testing.assert_allclose(scores, -np.sort(-total, axis=1), atol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(total, labels, 1), scores, atol=1e-4)
    assert both["members"] == 2
    assert both["metrics"] == snm.evaluate(tmp_path / "both", data)["metrics"]
    assert both["seconds"] > 0
    assert alone["steps"] == both["steps"] == 12
    # They trained side by side: in the log their lines come as they happened.
    saved = [line["phase"] for line in log(tmp_path / "both") if line["event"] == "saved"]
    assert collections.Counter(saved) == {"train": 3, "member-2": 3}


@pytest.mark.parametrize(
    "events",
    [13, pytest.param(5, marks=pytest.mark.slow), pytest.param(15, marks=pytest.mark.slow)],
)
def test_members_go_on_where_they_stopped(data, tmp_path, events):
    settings = config(members=2, learn_score_scale=True, encoder="residual")
    result = snm.train(data, settings, tmp_path / "whole")
    stop_after(training(data, settings, tmp_path / "run"), events)
    again = snm.train(data, settings, tmp_path / "run")
    assert again["metrics"] == result["metrics"]
    assert same(arrays(tmp_path / "run"), arrays(tmp_path / "whole"))


def test_more_epochs_are_more_for_every_member(data, tmp_path):
    run = tmp_path / "run"
    snm.train(data, config(members=2, epochs=1), run)
    # Stopped when the first member has its two epochs and the second has one.
    events = training(data, config(members=2, epochs=2), run)
    next(event for event in events if isinstance(event, Saved))
    events.close()
    snm.train(data, config(members=2, epochs=2), run)
    snm.train(data, config(members=2, epochs=2), tmp_path / "whole")
    assert same(arrays(run), arrays(tmp_path / "whole"))


def test_each_member_stops_early_and_refits(data, tmp_path):
    settings = config(members=2, validation_fraction=0.25, patience=1, refit=True)
    snm.train(data, settings, tmp_path / "run")
    assert {line["phase"] for line in log(tmp_path / "run")} == {
        "train", "refit", "member-2", "refit-2",
    }  # fmt: skip
    assert snm.load(tmp_path / "run").model.members == 2


def test_a_warm_start_takes_member_by_member(data, tmp_path):
    snm.train(data, config(members=2), tmp_path / "old")
    tiny_rate = config(members=3, learning_rate=1e-30, tower_learning_rate=1e-30, epochs=1)
    snm.train(data, tiny_rate, tmp_path / "new", warm_start=tmp_path / "old")
    for member, source in ((1, 1), (2, 2), (3, 2)):
        new = load_member(tmp_path / "new", member)[1].head.table.rows
        old = load_member(tmp_path / "old", source)[1].head.table.rows
        np.testing.assert_allclose(new, old, atol=1e-6)


# -- looking on, and a k' that falls -----------------------------------------------------------


@pytest.mark.bits  # the bits of two programs, of one step and of two: as they are optimised
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
    settings = {"learning_rate": "auto", "epochs": 25, "schedule": "linear", **changes}
    asked = config(loss=loss, **settings)
    result = snm.train(data, asked, tmp_path / "run")
    assert result["metrics"]["P@1"] >= 40
    if asked.learning_rate == "auto":
        rate = snm.load(tmp_path / "run").model.learning_rate
        assert rate == LOSSES[loss].learning_rate(asked.transformation)


def sizes_of(stages):
    return [(step, head.sampled, head.mined) for step, head in stages]


def test_mined_labels_fall_by_halves(data):
    settings = resolve(config(mined=3, mined_start="all"), data)
    stages = head_stages(settings, 20, steps=12)
    assert sizes_of(stages) == [(0, 8, 8), (4, 8, 4), (8, 8, 3)]
    assert len({dataclasses.replace(head, mined=1) for _, head in stages}) == 1
    constant = head_stages(resolve(tiny.CONFIG, data), 20, steps=12)
    assert sizes_of(constant) == [(0, 8, 3)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (dict(sampled_start=2, mined=2), [(0, 2, 2), (4, 4, 2), (8, 8, 2)]),
        (dict(sampled_start=16, mined=3), [(0, 16, 3), (6, 8, 3)]),
        # All others, of which none is drawn; k' in proportion.
        (
            dict(sampled_start="all", mined_start=8, mined=3),
            [(0, 19, 8), (4, 9, 4), (8, 8, 3)],
        ),
        (dict(sampled_start=4, mined="all"), [(0, 4, 4), (6, 8, 8)]),
        # Paths of two and three values: four stages of 6, 4 and 8 of 12 steps.
        (
            dict(sampled_start=4, mined_start=1, mined=4),
            [(0, 4, 1), (4, 4, 2), (6, 8, 2), (8, 8, 4)],
        ),
        (dict(sampled="all", sampled_start=5, mined=2), [(0, 5, 2), (4, 10, 2), (8, 19, 2)]),
    ],
)
def test_b_and_k_of_each_step(changes, expected, data):
    stages = head_stages(resolve(config(**changes), data), 20, steps=12)
    assert sizes_of(stages) == expected


def test_the_score_scale_of_each_step_and_a_function_of_ones_own(data):
    settings = resolve(config(score_scale=8.0, score_scale_start=2.0), data)
    stages = head_stages(settings, 20, steps=6)
    assert [(step, head.score_factor) for step, head in stages] == [(0, 0.25), (2, 0.5), (4, 1.0)]
    lists = resolve(config(score_scale=8.0, score_scale_start=4.0, loss="listnet"), data)
    assert [head.list_grade for _, head in head_stages(lists, 20, steps=6)] == [4.0, 8.0]
    # A third of the run with few labels, then any others.
    own = head_stages(
        settings, 20, 7, lambda done: Sizes(3, 1, 0.5) if done <= Fraction(1, 3) else Sizes(9, 4)
    )
    assert [(step, head.sampled, head.mined, head.score_factor) for step, head in own] == [
        (0, 3, 1, 0.5), (2, 9, 4, 1.0)
    ]  # fmt: skip


def test_a_falling_k_is_that_k_in_each_stage(data, tmp_path):
    # Two stages of six steps: the first is a run with twice as many mined labels.
    falling = config(mined=2, mined_start=4, checkpoint_every=6, keep_checkpoints=9)
    snm.train(data, falling, tmp_path / "falling")
    early = config(mined=4, checkpoint_every=6, keep_checkpoints=9)
    snm.train(data, early, tmp_path / "early")
    states = []
    for name in ("falling", "early"):
        model = snm.load(tmp_path / name).model
        checkpoints = RunFolder(tmp_path / name).checkpoints(9)
        states.append([checkpoints.load(step, abstract_state(model)) for step in (6, 12)])
    (half, end), (early_half, early_end) = states
    assert same(jax.tree.leaves(half), jax.tree.leaves(early_half))
    assert not same(jax.tree.leaves(end), jax.tree.leaves(early_end))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            dict(mined_start=9),
            "mined_start: found a stage with 9 mined of 8 sampled labels, expected at most as",
        ),
        (
            dict(mined="all", mined_start="all"),
            "mined_start: found all, with mined all, expected 0: k' is B at every step",
        ),
        (
            dict(sampled_start=2),
            "sampled_start: found a stage with 3 mined of 2 sampled labels",
        ),
        (dict(sampled_start=20), "sampled_start: found 20 of 20 labels, expected at most 19, or"),
        (
            dict(sampled_start=4, sampler="in-batch"),
            "sampled_start: found 4 with sampler in-batch, expected 0: the batch decides how",
        ),
    ],
)
def test_a_start_that_sizes_cannot_go_from(data, changes, expected):
    with pytest.raises(InputError, match=expected):
        resolve(config(**changes), data)


@pytest.mark.slow
def test_each_stage_draws_its_own_number_of_labels(data, tmp_path):
    """B 4, 8, 16 for four steps each: what the batches hold, and a run of each B beside it.

    The first stage is the run with B 4, and the second goes on from there as B 8 would.
    """
    changes = dict(mined=2, checkpoint_every=4, keep_checkpoints=9)
    resized = config(sampled=16, sampled_start=4, **changes)
    seen = []

    def counted(self, first, count):
        stack = stacked(self, first, count)
        seen.extend([(first + place, ids.size) for place, ids in enumerate(stack.sample.ids)])
        return stack

    stacked = Source.stack
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Source, "stack", counted)
        snm.train(data, resized, tmp_path / "resized")
    # The first batch is made twice: its step is compiled ahead.
    assert sorted(set(seen)) == [(step, (5, 9, 17)[step // 4]) for step in range(12)]
    snm.train(data, config(sampled=4, **changes), tmp_path / "few")
    few, all_stages = (
        RunFolder(tmp_path / name).checkpoints(9).load(4, abstract_state(snm.load(run).model))
        for name, run in (("few", tmp_path / "few"), ("resized", tmp_path / "resized"))
    )
    assert same(jax.tree.leaves(few), jax.tree.leaves(all_stages))
    # Each step is the step of that B from where the one before ended.
    settings = resolve(resized, data)
    prepared = prepare(settings, data.train, Weighting.fit(settings.weighting, data.train.features))
    state = initial_state(prepared)
    for step in range(12):
        head = dataclasses.replace(prepared.model.head, sampled=(4, 8, 16)[step // 4])
        source = prepared.source.with_head(head)
        alone = dataclasses.replace(prepared.model, head=head)
        program = compiled_steps(alone, source, source.shape_of_step(step))
        state, _ = program(state, (), source.stack(step, 1))
    for found, wanted in zip(arrays(tmp_path / "resized"), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_score_factor_is_that_scale_while_it_trains(data, tmp_path):
    """The first stage, at half the scale, is a run of that scale, but for the stored multiplier."""
    changes = dict(checkpoint_every=6, keep_checkpoints=9)
    snm.train(data, config(score_scale=8.0, score_scale_start=4.0, **changes), tmp_path / "rising")
    snm.train(data, config(score_scale=4.0, **changes), tmp_path / "low")
    halves = []
    for name in ("rising", "low"):
        model = snm.load(tmp_path / name).model
        halves.append(RunFolder(tmp_path / name).checkpoints(9).load(6, abstract_state(model)))
    np.testing.assert_allclose(halves[0].head.log_scale, np.log(8), rtol=1e-6)
    for rising, low in zip(*(jax.tree.leaves(half.features) for half in halves), strict=True):
        np.testing.assert_allclose(rising, low, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        halves[0].head.table.rows, halves[1].head.table.rows, rtol=1e-4, atol=1e-5
    )


def test_the_seed_is_all_that_differs(data, whole, tmp_path):
    run, result = whole
    assert snm.train(data, tiny.CONFIG, tmp_path / "same")["metrics"] == result["metrics"]
    assert same(arrays(run), arrays(tmp_path / "same"))
    snm.train(data, config(seed=1), tmp_path / "other")
    assert not same(arrays(run), arrays(tmp_path / "other"))


def test_looking_at_a_run_does_not_disturb_it(whole, tmp_path):
    """Evaluating while another process trains: its half-written checkpoint is left alone."""
    run = tmp_path / "run"
    shutil.copytree(whole[0], run)
    half = run / "checkpoints" / "16.orbax-checkpoint-tmp"
    half.mkdir()
    (half / "part").write_text("half")
    assert newest(run) == 12
    assert same(arrays(run), arrays(whole[0]))
    assert (half / "part").exists()


def test_a_checkpoint_may_vanish_while_a_live_run_is_listed(data, whole, monkeypatch):
    """The writer deletes old checkpoints; a reader that has just listed one skips it."""
    checkpoints = RunFolder(whole[0]).checkpoints(2)
    assert checkpoints.latest() == 12 and not checkpoints.path(16).exists()
    monkeypatch.setattr(Checkpoints, "_listed", lambda self: [4, 8, 12, 16])
    model = make_model(resolve(tiny.CONFIG, data), tiny.FEATURES, tiny.LABELS)
    _, note, damaged = checkpoints.newest_whole(abstract_state(model))
    assert note.progress["step"] == 12
    assert [error.path for error in damaged] == [checkpoints.path(16)]


# -- batches ---------------------------------------------------------------------------------


def source(data, resident, **changes) -> Source:
    settings = resolve(config(**changes), data)
    return make_source(
        head_spec(settings, data.train.num_labels),
        data.train.features,
        data.train.labels,
        batch_size=settings.batch_size,
        seed=settings.seed,
        weight_of_term=settings.positive_weights,
        resident=resident,
        sampler=settings.sampler,
        frequency_power=settings.frequency_power,
    )


@pytest.fixture(scope="module")
def uneven():
    """Points of many sizes, some without labels."""
    data = snm.generate(points=150, test_points=0, features=60, labels=30, seed=3,
                        labels_per_point=3, nonzeros_per_point=8)  # fmt: skip
    labels = data.train.labels.tolil()
    labels[[4, 77]] = 0
    train = snm.Points(data.train.features, labels.tocsr().astype(np.float32))
    return dataclasses.replace(data, train=train)


@pytest.mark.parametrize(
    ("positives", "weights", "sampler"),
    [
        ("one", "mean", "uniform"),
        ("one", "mean", "in-batch"),
        ("all", "mean", "in-batch"),
        ("all", "mean", "frequency"),
        ("all", "sum", "uniform"),
    ],
)
def test_the_device_makes_the_same_batches(uneven, positives, weights, sampler):
    changes = dict(positives=positives, positive_weights=weights, sampler=sampler, exclude="all")
    host, device = (source(uneven, resident, **changes) for resident in (False, True))
    stored = device.resident_arrays()
    last = host.steps_per_epoch - 1
    for step in (0, last, last + 1):
        shape = host.shape_of_step(step)
        assert shape == device.shape_of_step(step)
        sent, made = (jax.tree.map(lambda leaf: leaf[0], s.stack(step, 1)) for s in (host, device))
        one, two = host.materialize((), sent, shape), device.materialize(stored, made, shape)
        for name in ("features", "terms", "known", "step"):
            for a, b in zip(
                jax.tree.leaves(getattr(one, name)),
                jax.tree.leaves(getattr(two, name)),
                strict=True,
            ):
                assert a.shape == b.shape and a.dtype == b.dtype, name
                np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=name)
        if sampler == "uniform":  # host and device draw differently, by the same law
            assert one.sample.ids.shape == two.sample.ids.shape
        else:
            leaves = (jax.tree.leaves(each.sample) for each in (one, two))
            for a, b in zip(*leaves, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6)


def test_every_entry_comes_once_an_epoch(uneven):
    """Padded to the epoch's largest batch, never cut: a batch's sums add up to the data's."""
    batches = source(uneven, resident=False, exclude="all")
    assert batches.num_points == 148
    orders = []
    for epoch in (0, 1):
        order, _ = batches.order.epoch(epoch)
        assert sorted(order[order >= 0]) == list(range(148))
        orders.append(order)
        first = epoch * batches.steps_per_epoch
        shape = batches.shape(epoch)
        for step in range(batches.steps_per_epoch):
            batch = jax.tree.map(lambda leaf: leaf[0], batches.stack(first + step, 1))
            points = order[step][order[step] >= 0]
            for block, matrix, entries in (
                (batch.features, batches.features, shape[0]),
                (batch.known, batches.labels, shape[1]),
            ):
                assert block.ids.shape == block.values.shape == (entries,)
                total = matrix[points].nnz
                assert block.starts[-1] == total <= entries
                assert (np.diff(block.starts)[order[step] < 0] == 0).all()
                assert (block.values[total:] == 0).all()
                np.testing.assert_array_equal(block.ids[:total], matrix[points].indices)
                np.testing.assert_array_equal(block.values[:total], matrix[points].data)
            # The mean over the points of the mean over their labels, whatever the batch holds.
            np.testing.assert_allclose(batch.terms.values.sum(), len(points) / 16, rtol=1e-6)
    assert not np.array_equal(*orders)


def test_two_threads_may_ask_for_epochs(uneven):
    """The loader's thread is ahead of the one that trains: both get what was asked for."""
    from concurrent.futures import ThreadPoolExecutor

    batches = source(uneven, resident=False)
    wanted = [batches.order._new_epoch(number)[0] for number in range(6)]
    with ThreadPoolExecutor(4) as pool:
        asked = pool.map(lambda n: (n % 6, batches.order.epoch(n % 6)[0]), range(300))
        for number, order in asked:
            np.testing.assert_array_equal(order, wanted[number])
    assert len(batches.order._epochs) <= 5


def test_a_positive_drawn_is_one_of_the_point(uneven):
    batches = source(uneven, resident=False, positives="one")
    drawn = []
    for epoch in range(3):
        order, _ = batches.order.epoch(epoch)
        batch = jax.tree.map(lambda x: x[0], batches.stack(epoch * batches.steps_per_epoch, 1))
        known = batches.labels[order[0]]
        assert all(known[i, label] for i, label in enumerate(batch.terms.ids))
        np.testing.assert_allclose(batch.terms.values, 1 / 16)
        drawn.append(batch.terms.ids)
    assert not np.array_equal(drawn[0], drawn[1])


@pytest.mark.parametrize(
    "changes",
    [
        dict(data_on="device"),
        dict(sampler="in-batch", loss="softmax"),
        dict(sampler="frequency", loss="softmax"),
        dict(sampled="all", mined="all", loss="powl", phi="logistic", positives="one"),
        dict(sampled="all", sampled_start=4, sampler="frequency"),
        pytest.param(dict(sampled_start="all", data_on="device"), marks=pytest.mark.slow),
    ],
    ids=["resident", "in-batch", "frequency", "all labels", "rising B", "falling B, resident"],
)
def test_every_way_of_drawing_learns(data, tmp_path, changes):
    result = snm.train(data, config(epochs=8, **changes), tmp_path / "run")
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


# -- phases ----------------------------------------------------------------------------------


def test_more_epochs_go_on_and_fewer_are_refused(data, whole, tmp_path):
    run, shorter = tmp_path / "run", config(epochs=1)
    assert snm.train(data, shorter, run)["steps"] == 4
    events = list(training(data, tiny.CONFIG, run))
    started = [event for event in events if isinstance(event, Started)]
    assert [(event.step, event.last_step) for event in started] == [(4, 12)]
    assert events[-1].result["steps"] == 12
    assert same(arrays(whole[0]), arrays(run))
    with pytest.raises(InputError, match=r"^epochs: found 3 epochs done .*\(1 asked, 4 steps\)"):
        snm.train(data, shorter, run)
    assert snm.read_config(run / "config.toml").epochs == 3


def test_early_stopping_keeps_the_best_and_refits(data, tmp_path):
    """Half the points are watched, and their score soon stands still."""
    settings = config(epochs=40, validation_fraction=28 / 60, patience=3, evaluate_every=2,
                      checkpoint_every=4, refit=True, keep_checkpoints=1)  # fmt: skip
    run = tmp_path / "run"
    # Stop once, in the middle of the first phase: the outcome must not know.
    stop_after(training(data, settings, run), 8)
    events = list(training(data, settings, run))
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
    # The refit takes as many epochs over all points as the best took over its part.
    phases = [event for event in events if isinstance(event, Started)]
    assert [event.phase for event in phases] == ["train", "refit"]
    assert [event.num_points for event in phases] == [32, 60]
    assert phases[1].last_step == first // 2 * STEPS_PER_EPOCH
    assert newest(run, "refit") == result["steps"] == phases[1].last_step
    # The model of the run is that of the refit.
    scored = evaluate_points(snm.load(run), data.test, data.label_frequency(), 60)
    assert scored["metrics"] == result["metrics"]
    assert list(training(data, settings, run))[-1].result == result
    # And the whole again in one go is the same.
    assert snm.train(data, settings, tmp_path / "whole")["metrics"] == result["metrics"]
    assert same(arrays(run), arrays(tmp_path / "whole"))


def test_the_best_is_kept_though_no_checkpoint_was_due(data, tmp_path):
    settings = config(epochs=4, validation_fraction=28 / 60, evaluate_every=2, checkpoint_every=8)
    events = list(training(data, settings, tmp_path / "run"))
    best = [event.step for event in events if isinstance(event, Evaluated) and event.best][-1]
    assert best in [event.step for event in events if isinstance(event, Saved)]
    assert RunFolder(tmp_path / "run").checkpoints(2).best() == best
    assert events[-1].result["best_step"] == best


def test_validation_that_cannot_be(data, tmp_path):
    labels = data.train.labels.copy()
    labels.data[labels.indptr[1] :] = 0
    labels.eliminate_zeros()
    single = dataclasses.replace(data, train=snm.Points(data.train.features, labels))
    with pytest.raises(InputError, match="labels in either part"):
        snm.train(single, config(validation_fraction=0.5), tmp_path / "run")
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
        prepared = prepare(settings, data.train, Weighting.fit("tfidf", data.train.features))
        new = initial_state(prepared, WarmStart(old, IdSpace.of(data)))
        state = snm.load(old).state
        assert same([new.features.rows, new.head.table.rows],
                    [state.features.rows, state.head.table.rows])  # fmt: skip
        assert np.exp(new.head.log_scale) == pytest.approx(scale)
        assert not np.any(new.head.table.accumulator)
    with pytest.raises(InputError, match=r"^warm_start .* found 30 features, 20 labels, dim 8"):
        snm.train(data, config(dim=4), tmp_path / "none", warm_start=old)
    with pytest.raises(InputError, match=r"^warm_start .* a run with weighting tfidf, expected l2"):
        snm.train(data, config(weighting="l2"), tmp_path / "none", warm_start=old)
    assert not (tmp_path / "none").exists()


def test_a_run_from_before_the_centroids_goes_on_as_it_began(data, tmp_path):
    old = config(members=2, epochs=2)
    snm.train(data, old, tmp_path / "run")
    path = tmp_path / "run" / "config.toml"
    assert 'class_init = "random"\n' in path.read_text()
    path.write_text(path.read_text().replace('class_init = "random"\n', ""))
    without_manifest(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "member-2")
    (tmp_path / "run" / "result.json").unlink()
    # The second member starts anew, from random rows as the first did.
    asked = dataclasses.replace(old, class_init="auto")
    result = snm.train(data, asked, tmp_path / "run")
    assert result["metrics"] == snm.train(data, old, tmp_path / "fresh")["metrics"]


def test_data_without_a_test_part(tmp_path):
    folder = tiny.write(tmp_path / "data", test=False)
    result = snm.train(folder, config(epochs=1), tmp_path / "run")
    assert result["metrics"] == {} and result["steps"] == 4
    with pytest.raises(InputError, match="no test points"):
        snm.evaluate(tmp_path / "run")


def test_names_keep_what_looks_like_a_line_break(data, tmp_path):
    names = tuple(f"a\rb\x0b\u2028 {label}" for label in range(tiny.LABELS))
    named = dataclasses.replace(data, label_names=names)
    snm.train(named, config(epochs=1), tmp_path / "run")
    assert snm.load(tmp_path / "run").label_names == names


# -- faults ----------------------------------------------------------------------------------

EXPLOSIVE = dict(loss="powl", phi="exponential", positives="one", score_scale=1000.0, mined=8)


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path, capsys):
    folder, run = tiny.write(tmp_path / "data"), tmp_path / "run"
    with pytest.raises(NonFiniteError, match=r"step \d+: the loss .* not finite") as found:
        snm.train(folder, config(**EXPLOSIVE), run)
    assert found.value.step == 0
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in EXPLOSIVE.items()]
    with pytest.raises(SystemExit) as stop:
        main(["train", str(folder), "--run-dir", str(run), *tiny.FLAGS, *flags])
    said = capsys.readouterr().err
    assert stop.value.code == 1 and said.startswith("snm: error: step 0: ")
    assert said.count("\n") == 1


def test_the_last_good_checkpoint_outlives_a_fault(data, tmp_path, monkeypatch):
    """The loss breaks down in the second epoch; the model of the first is whole."""
    run = tmp_path / "run"
    stack = Source.stack

    def broken(self, first, count):
        batch = stack(self, first, count)
        if first >= 6:
            batch.features.values[:] = np.nan
        return batch

    monkeypatch.setattr(Source, "stack", broken)
    with pytest.raises(NonFiniteError) as found:
        snm.train(data, tiny.CONFIG, run)
    assert found.value.step == 6
    assert newest(run) == 4
    assert all(np.isfinite(leaf).all() for leaf in arrays(run))
    monkeypatch.undo()
    snm.train(data, tiny.CONFIG, run)
    assert newest(run) == 12


# -- what is left behind ---------------------------------------------------------------------


def test_log_events_and_trace(data, tmp_path):
    run = tmp_path / "run"
    events = list(training(data, tiny.CONFIG, run, profile=True))
    kinds = [type(event) for event in events]
    assert kinds[0] is Started and kinds[-1] is Finished
    stepped = [event for event in events if isinstance(event, Stepped)]
    assert [event.step for event in stepped] == [2, 4, 6, 8, 10, 12]
    assert sum(event.points for event in stepped) == 3 * tiny.POINTS
    seconds = sum(event.seconds for event in stepped)
    assert events[-1].result["seconds"] == pytest.approx(seconds)
    lines = log(run)
    # A checkpoint is written while the steps go on, so when it is whole is not known.
    kinds = [line["event"] for line in lines]
    assert kinds.count("saved") == 3 and kinds.count("stepped") == 6 == len(kinds) - 3
    assert [line["step"] for line in lines if line["event"] == "saved"] == [4, 8, 12]
    assert all(line["phase"] == "train" and line["time"] > 1e9 for line in lines)
    assert [line["loss"] for line in lines if "loss" in line] == [event.loss for event in stepped]
    (board,) = (run / "tensorboard" / "train").iterdir()
    assert "tfevents" in board.name and board.stat().st_size > 100
    assert list((run / "profile").rglob("*.xplane.pb"))


def test_a_short_batch_shows_the_mean_loss_of_its_points(data, tmp_path, capsys):
    """Scores of 0 and 18 negatives: each positive's softmax loss is log 19, in batches of any size.

    60 points are batches of 16, 16, 16 and 12. Over its full size the last had 12 / 16 of the loss.
    """
    told = {"sampled": "all", "mined": "all", "score_scale": 1e-6, "learning_rate": 1e-9}
    config = dataclasses.replace(
        tiny.CONFIG, **told, bias=False, learn_score_scale=False, epochs=1, steps_per_dispatch=1
    )
    events = list(training(data, config, tmp_path / "run"))
    stepped = [event for event in events if isinstance(event, Stepped)]
    assert [event.points for event in stepped] == [16, 16, 16, 12]
    assert [event.loss for event in stepped] == pytest.approx([math.log(19)] * 4, rel=1e-5)


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


# -- end to end ------------------------------------------------------------------------------


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
