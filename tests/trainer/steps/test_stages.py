"""Stages of a run: B and k' go from their start to their end by halves."""

import dataclasses
from fractions import Fraction

import jax
import numpy as np
import pytest
import tiny
from small_runs import arrays, config, same

import snm
from snm.batches.sources.source import Source
from snm.config.resolve import resolve
from snm.config.stages import SizeSchedule
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.model.from_config import head_stages
from snm.model.model import abstract_state
from snm.runs.folder import RunFolder
from snm.trainer.start.prepare import prepare
from snm.trainer.start.warm_start import starting_state
from snm.trainer.steps.programs import jitted_steps


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


@pytest.mark.parametrize(
    "changes",
    [
        dict(sampled_start=2, mined=2),
        dict(sampled_start="all", mined_start=8, mined=3),
        dict(sampled_start=4, mined_start=1, mined=4),
        dict(sampled="all", sampled_start=1, mined=1),
        dict(mined=1, mined_start="all", loss="listnet"),
    ],
)
def test_stages_are_those_of_a_look_at_every_step(changes, data):
    settings = resolve(config(**changes), data)
    sizes = SizeSchedule.of(settings, 20)
    for steps in (*range(1, 100), 997, 1000, 1024):
        of_step = [sizes(Fraction(step + 1, steps)) for step in range(steps)]
        expected = [
            (step, *now)
            for step, now in enumerate(of_step)
            if step == 0 or now != of_step[step - 1]
        ]
        assert sizes_of(head_stages(settings, 20, steps)) == expected


def test_a_long_run_looks_at_a_step_of_each_stage(data, monkeypatch):
    settings = resolve(config(mined=3, mined_start="all"), data)
    looks = []
    sizes_at = SizeSchedule.__call__
    monkeypatch.setattr(
        SizeSchedule, "__call__", lambda self, done: looks.append(done) or sizes_at(self, done)
    )
    stages = head_stages(settings, 20, steps=30_000)
    assert sizes_of(stages) == [(0, 8, 8), (10_000, 8, 4), (20_000, 8, 3)]
    assert len(looks) == 3


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

    def counted(self, first, count, length=0):
        stack = stacked(self, first, count, length)
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
    prepared = prepare(settings, data, Weighting.fit(settings.weighting, data.train.features))
    state = starting_state(prepared, None)
    for step in range(12):
        head = dataclasses.replace(prepared.model.spec, sampled=(4, 8, 16)[step // 4])
        source = dataclasses.replace(prepared.source, spec=head)
        alone = dataclasses.replace(prepared.model, spec=head)
        program = jitted_steps(alone, source, source.shape(step))
        state, _ = program(state, (), source.stack(step, 1))
    for found, wanted in zip(arrays(tmp_path / "resized"), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
