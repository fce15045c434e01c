"""Dispatches of one length where the device has the points: what fills them up changes nothing."""

import itertools

import jax
import numpy as np
import pytest
from small_runs import config

import snm
from snm.batches.dispatches import SaveTimes, dispatch_length, split_into_dispatches
from snm.batches.sources.source import Source
from snm.config.resolve import resolve
from snm.data.weighting import Weighting
from snm.head import plan as head_plan
from snm.head.plan import plan_step
from snm.model.placement import init_state_on
from snm.runs.events import Saved
from snm.trainer.start import centroids as centroids_module
from snm.trainer.start import prepare as prepare_module
from snm.trainer.start.centroids import start_at_centroids
from snm.trainer.start.prepare import Prepared, prepare
from snm.trainer.steps.loop import prefetch_stacks
from snm.trainer.steps.programs import jitted_steps


@pytest.fixture(scope="module")
def data():
    """110 points: seven steps an epoch, the last of 14 points."""
    return snm.generate(points=110, test_points=0, features=60, labels=40, seed=3,
                        labels_per_point=3, nonzeros_per_point=8)  # fmt: skip


def prepared(data, **changes) -> Prepared:
    of_device = dict(data_on="device", batch_size=16, checkpoint_every=0)
    settings = resolve(config(**{**of_device, **changes}), data)
    weighting = Weighting.fit(settings.weighting, data.train.features)
    return prepare(settings, data, weighting)


@pytest.mark.parametrize(("most", "length"), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 4), (32, 7)])
def test_an_epoch_is_cut_into_equal_dispatches(data, most, length):
    """Of seven steps: 3 + 3 + 1, and where five may be sent, 4 + 3."""
    of_device = prepared(data, steps_per_dispatch=most)
    assert of_device.steps_per_dispatch == length
    streamed = prepared(data, steps_per_dispatch=most, data_on="host").source
    assert dispatch_length(streamed, most) == min(most, 7)


@pytest.mark.parametrize(
    ("changes", "length"),
    [
        (dict(evaluate_every=3, validation_fraction=0.01), 3),
        (dict(evaluate_every=5, validation_fraction=0.01, steps_per_dispatch=4), 3),
        (dict(checkpoint_every=2), 2),
        (dict(checkpoint_every=70), 7),
    ],
)
def test_dispatches_are_no_longer_than_the_steps_between_marks(data, changes, length):
    """What would fill them up is computed too."""
    assert prepared(data, **{"steps_per_dispatch": 32, **changes}).steps_per_dispatch == length


def test_looks_at_the_model_leave_nothing_to_fill_up(data, tmp_path, monkeypatch):
    stack, made = Source.stack, []

    def counted(self, first, count, length=0):
        if length:  # else it is of the program's shapes
            made.append((count, length))
        return stack(self, first, count, length)

    monkeypatch.setattr(Source, "stack", counted)
    settings = config(
        data_on="device", batch_size=16, epochs=1, steps_per_dispatch=32, class_init="random"
    )
    snm.train(data, settings, tmp_path / "run", probe=lambda _: {}, probe_every=2)
    assert made == [(2, 2)] * 3 + [(1, 2)]


def test_steps_are_planned_as_they_are_taken(data):
    """A billion of them begin at once: 4 + 3 an epoch, and batches are those of their steps."""
    source = prepared(data, steps_per_dispatch=4).source
    plan = split_into_dispatches(source, 0, 10**9, 4)
    taken = list(itertools.islice(prefetch_stacks(lambda _: source, plan, None, 4), 4))
    assert [(first, count) for first, count, _ in taken] == [(0, 4), (4, 3), (7, 4), (11, 3)]
    assert [int(stack.step[0]) for *_, stack in taken] == [0, 4, 7, 11]


def test_every_epoch_has_the_same_dispatches(data, monkeypatch):
    """Of each length, a program is compiled: 12,007 steps are 4,032 + 4,032 + 123 * 32 + 7."""
    source, steps = prepared(data, data_on="host").source, 12_007
    monkeypatch.setattr(Source, "steps_per_epoch", steps)
    saves = SaveTimes(steps, within_epoch=4032)
    found = list(split_into_dispatches(source, 0, 10 * steps, 32, saves=saves))
    assert {count for _, count in found} == {32, 7}
    ends = {first + count for first, count in found}
    assert ends >= {steps * e + end for e in range(10) for end in (4032, 8064, steps)}


def test_checkpoints_within_an_epoch_are_counted_from_its_start(data, tmp_path, monkeypatch):
    """Seven steps are parts of at most three."""
    monkeypatch.setattr(prepare_module, "_CHECKPOINT_STEPS_RANGE", (1, 3))
    monkeypatch.setattr(prepare_module, "_LONG_EPOCH_STEPS", 3)
    settings = config(batch_size=16, epochs=2, checkpoint_every=0, steps_per_dispatch=1)
    events = list(snm.training(data, settings, tmp_path / "run"))
    saved = [event.step for event in events if isinstance(event, Saved)]
    assert saved == [3, 6, 7, 10, 13, 14]


@pytest.mark.parametrize(
    "changes",
    [
        dict(),
        dict(mined=12, sampled=20, bias=True, learn_score_scale=True),
        dict(loss="softmax", mined="all", row_optimizer="adagrad", bias=True),
        dict(table_dtype="bfloat16", sampler="in-batch", exclude="all", input_dropout=0.3),
        dict(sampled="all", mined=5),
    ],
    ids=["pairs", "threshold", "all mined", "bfloat16", "all sampled"],
)
def test_steps_that_fill_up_change_nothing(data, changes, monkeypatch):
    """The parameters are bit for bit those of the steps alone, by one program of three steps."""
    if not changes:
        monkeypatch.setattr(head_plan, "PAIRS_LIMIT", dict.fromkeys(head_plan.PAIRS_LIMIT, 1))
    one = prepared(data, **changes)
    source, shape = one.source, one.source.shape(0)
    spec = one.model.spec
    form = plan_step(spec, 16, spec.sampled + 1, single_device=True)
    assert form.by_pairs == (not changes)
    resident = source.resident_arrays()
    steps = jitted_steps(one.model, source, shape)
    alone, told = steps(init_state_on(one.model), resident, source.stack(0, 3))
    filled, first = steps(init_state_on(one.model), resident, source.stack(0, 1, 3))
    filled, rest = steps(filled, resident, source.stack(1, 2, 3))
    assert steps._cache_size() == 1
    assert told.ok.tolist() == [True, True, True]
    assert first.ok.tolist() == [True, False, False] and rest.ok.tolist() == [True, True, False]
    np.testing.assert_array_equal([first.loss[0], *rest.loss[:2]], told.loss)
    for before, after in zip(jax.tree.leaves(alone), jax.tree.leaves(filled), strict=True):
        np.testing.assert_array_equal(before, after)
    start = jax.tree.leaves(init_state_on(one.model))
    assert any((x != y).any() for x, y in zip(start, jax.tree.leaves(alone), strict=True))


def test_centroids_do_not_depend_on_the_length(data, monkeypatch):
    monkeypatch.setattr(centroids_module, "_MAX_VALUES_ON_HOST", 0)
    rows = []
    for length in (1, 5):
        one = prepared(data, class_init="centroid", steps_per_dispatch=length)
        rows.append(np.asarray(start_at_centroids(one, init_state_on(one.model)).head.table.rows))
    np.testing.assert_array_equal(*rows)
