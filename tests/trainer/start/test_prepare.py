"""The set-up of a training: made once, and the same for runs, plans and the estimator."""

import dataclasses
import sys

import jax
import numpy as np
import pytest
import tiny

import snm
import snm.trainer.training  # imported later, it would keep a patched `resolve`
from snm.batches.schedule import Rates, Schedule
from snm.batches.sources.on_device import DeviceSource
from snm.batches.sources.on_host import HostSource
from snm.batches.sources.source import Source
from snm.checkpoints.in_memory import BestState
from snm.cli.main import main
from snm.config import resolve as module
from snm.config.resolve import resolve
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.machine.compiler import answer_options, step_options
from snm.machine.platform import compiling_for
from snm.model.from_config import head_stages, make_model
from snm.planning.forecast import forecast
from snm.runs.folder import RunFolder
from snm.trainer.phase import PhaseInputs, RunInputs, first_phase
from snm.trainer.phase_run import open_phase, open_phase_in_memory
from snm.trainer.start.prepare import prepare


def batches(source):
    return jax.tree.leaves(source.stack(0, source.steps_per_epoch))


def test_runs_plans_and_the_estimator_have_one_set_up(data, tmp_path):
    asked = dataclasses.replace(tiny.CONFIG, schedule="linear", mined_start="all")
    config = resolve(asked, data)
    weighting = Weighting.fit(config.weighting, data.train.features)
    expected = prepare(config, data, weighting)
    assert expected.mesh is None and expected.steps_per_dispatch == 2
    assert expected.total_steps == 3 * 4  # epochs, steps of 16 of 60 points
    assert expected.source.schedule == Schedule("linear", 12, Rates(1.0, 0.1, 0.01))
    assert expected.model == make_model(config, tiny.FEATURES, tiny.LABELS)
    heads = head_stages(config, tiny.LABELS, 12)
    assert [(stage.first_step, stage.model.spec) for stage in expected.stages] == heads
    assert [stage.source.spec for stage in expected.stages] == [head for _, head in heads]
    assert [head.mined for _, head in heads] == [8, 4, 3]
    assert [stage.share for stage in expected.stages] == pytest.approx([1 / 3] * 3)

    inputs = RunInputs(config, data, weighting, RunFolder(tmp_path / "run"))
    phase = open_phase(inputs, first_phase(config, data))
    in_memory = PhaseInputs(config, data, weighting)
    fit = open_phase_in_memory(in_memory, first_phase(config, data), None, BestState())
    _, programs = forecast(data, config)
    assert (phase.last_step, fit.last_step) == (12, 12)
    for found in (phase.prepared, fit.prepared):
        assert found.model == expected.model
        assert [(stage.first_step, stage.model.spec) for stage in found.stages] == heads
    # A plan compiles every stage.
    assert [one.stage.model.spec for one in programs.stages] == [head for _, head in heads]
    assert programs.model == dataclasses.replace(expected.model, spec=heads[0][1])
    for source in (phase.source, fit.source, programs.stages[0].stage.source):
        for mine, theirs in zip(batches(source), batches(expected.source), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_some_rows_and_a_mesh(data):
    config = resolve(dataclasses.replace(tiny.CONFIG, mesh="data=2,label=4"), data)
    weighting = Weighting.fit("none", data.train.features)
    found = prepare(config, data, weighting, np.arange(20))
    assert found.mesh.size == 8 and found.source.num_points == 20
    assert found.total_steps == 3 * 2
    open_ = dataclasses.replace(config, mesh="", steps_per_dispatch=0)
    assert prepare(open_, data, weighting).steps_per_dispatch == 1  # of a CPU


@pytest.fixture
def resolved(monkeypatch):
    """The settings that `resolve` is asked to resolve, wherever it is called from."""
    asked = []

    def counting(config, dataset):
        asked.append(config)
        return resolve(config, dataset)

    for holder in list(sys.modules.values()):
        if getattr(holder, "__name__", "").startswith("snm") and (
            getattr(holder, "resolve", None) is resolve
        ):
            monkeypatch.setattr(holder, "resolve", counting)
    assert module.resolve is counting
    return asked


@pytest.mark.parametrize("memory", [(), ("--device-memory", "80GiB")])
def test_one_training_resolves_its_settings_once(memory, resolved, folder, tmp_path):
    """Also where the plan is compiled before, as with a limit of memory."""
    words = ["train", folder, "--run-dir", tmp_path / "run", *tiny.FLAGS, "--members=2", *memory]
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    assert not stop.value.code and (tmp_path / "run" / "result.json").exists()
    assert len(resolved) == 1


def test_so_do_a_call_a_plan_and_a_fit(resolved, folder, data, tmp_path):
    snm.train(data, tiny.CONFIG, tmp_path / "run")
    assert len(resolved) == 1
    with pytest.raises(SystemExit):
        main(["plan", str(folder), *tiny.FLAGS])
    assert len(resolved) == 2
    model = snm.SNMClassifier(dim=8, members=2, epochs=2)
    model.fit(data.train.features, data.train.labels)
    model.partial_fit(data.train.features, data.train.labels)
    assert len(resolved) == 3


def test_a_tpu_takes_rows_of_whole_tiles(data):
    """Narrower ones it would copy; the set-up asks what it is for, not where it runs."""
    config = resolve(tiny.CONFIG, data)
    weighting = Weighting.fit(config.weighting, data.train.features)
    with compiling_for("tpu", 16 << 30), pytest.raises(InputError, match=r"dim.*multiple of 128"):
        prepare(config, data, weighting)
    with compiling_for("tpu", 16 << 30):
        found = prepare(dataclasses.replace(config, dim=256), data, weighting)
    assert isinstance(found.source, DeviceSource) and found.model.dim == 256
    with compiling_for("gpu", 80 << 30):
        assert isinstance(prepare(config, data, weighting).source, DeviceSource)
    assert isinstance(prepare(config, data, weighting).source, HostSource)


@pytest.mark.parametrize(
    ("mebibytes", "asked", "expected"), [(1, 0, 200), (151, 0, 304), (9000, 0, 5000), (151, 7, 7)]
)
def test_large_tables_are_saved_after_more_steps(mebibytes, asked, expected, data, monkeypatch):
    """In whole epochs of four steps."""
    config = resolve(dataclasses.replace(tiny.CONFIG, checkpoint_every=asked), data)
    monkeypatch.setattr("snm.trainer.start.prepare.state_bytes", lambda state: mebibytes << 20)
    prepared = prepare(config, data, Weighting.fit(config.weighting, data.train.features))
    assert prepared.saves == (expected, 0) and prepared.saves.first == expected


@pytest.mark.parametrize(
    ("mebibytes", "steps", "most", "expected"),
    [
        (1, 2000, 1, 0),
        (1, 2001, 1, 1001),
        (1, 78_000, 1, 2000),
        (1500, 4040, 1, 2020),
        (9000, 78_000, 1, 4875),
        (2002, 12_007, 32, 4032),  # a third is 4,003, and 126 dispatches are as many or more
        (1, 2001, 3000, 0),  # no dispatch would end before the epoch
    ],
)
def test_a_long_epoch_is_saved_at_parts_of_it(mebibytes, steps, most, expected, data, monkeypatch):
    """Parts of at most 2,000 steps, or of 2 steps for each MiB, at most 5,000."""
    changes = dict(checkpoint_every=0, steps_per_dispatch=most)
    config = resolve(dataclasses.replace(tiny.CONFIG, **changes), data)
    monkeypatch.setattr("snm.trainer.start.prepare.state_bytes", lambda state: mebibytes << 20)
    monkeypatch.setattr(Source, "steps_per_epoch", steps)
    prepared = prepare(config, data, Weighting.fit(config.weighting, data.train.features))
    assert prepared.saves == (steps, expected) and prepared.saves.first == (expected or steps)
    assert prepared.steps_per_dispatch == min(most, steps)


@pytest.mark.parametrize(
    ("epochs", "members", "short"), [(62, 1, True), (63, 1, False), (31, 2, True), (32, 2, False)]
)
def test_a_training_of_few_steps_compiles_fast(epochs, members, short, data):
    """At most 250 steps of all members, four in an epoch."""
    changes = dict(epochs=epochs, members=members, members_at_once=1)
    config = resolve(dataclasses.replace(tiny.CONFIG, **changes), data)
    prepared = prepare(config, data, Weighting.fit(config.weighting, data.train.features))
    assert prepared.step_options is (answer_options if short else step_options)
