"""The compiled steps of a training."""

import dataclasses
import logging
import threading

import jax
import pytest
import tiny

import snm
from snm.batches.sources.source import Source
from snm.trainer.steps.programs import StepPrograms


@pytest.fixture
def compilations(caplog):
    """A function that tells how often steps were compiled so far."""
    joined()  # threads that another test left
    before = jax.config.jax_log_compiles
    jax.config.update("jax_log_compiles", True)
    with caplog.at_level(logging.WARNING, "jax"):
        yield lambda: sum("Compiling jit(steps)" in line for line in caplog.messages)
    jax.config.update("jax_log_compiles", before)


def joined():
    for thread in threading.enumerate():
        if thread.name == "compiling":
            thread.join()


# 15 points a batch: all steps are of one size. No other test has these dims.
ONE_SIZE = dataclasses.replace(tiny.CONFIG, batch_size=15)


@pytest.mark.parametrize(("place", "at_once"), [("host", 2), ("device", 1)])
def test_members_share_a_step_that_is_compiled_once(place, at_once, compilations, tmp_path):
    """Side by side; and one after the other, where each has its own points on the device."""
    data = tiny.write(tmp_path / "data")
    config = dataclasses.replace(
        ONE_SIZE, data_on=place, members=2, members_at_once=at_once, dim=42
    )
    snm.train(data, config, tmp_path / "run")
    joined()
    assert compilations() == 1


@pytest.mark.parametrize("place", ["host", "device"])
def test_trainings_at_other_rates_share_their_programs(place, compilations, tmp_path):
    """Rates are data: a search for the best one compiles a step, and a prediction, once."""
    data, models = tiny.write(tmp_path / "data"), []
    config = dataclasses.replace(
        ONE_SIZE, data_on=place, encoder="relu", learn_score_scale=True, dim=46
    )
    others = {"learning_rate": 2.0, "tower_learning_rate": 0.3, "scale_learning_rate": 0.5}
    for rates in ({}, {**others, "schedule": "linear"}):
        run = tmp_path / f"run {len(models)}"
        snm.train(data, dataclasses.replace(config, **rates), run)
        models.append(snm.load(run).model)
    joined()
    assert compilations() == 1
    assert len(set(models)) == 1  # programs of predictions are kept by model


def test_a_short_last_dispatch_has_no_program_of_its_own(compilations, tmp_path):
    """Seven steps an epoch, three a dispatch, and the points on the device."""
    data = tiny.write(tmp_path / "data")
    config = dataclasses.replace(
        tiny.CONFIG, data_on="device", batch_size=9, steps_per_dispatch=3, dim=44
    )
    snm.train(data, config, tmp_path / "run")
    joined()
    assert compilations() == 1


def test_a_step_that_cannot_be_compiled_fails_when_it_is_taken(monkeypatch, tmp_path):
    def fails(*_):
        raise RuntimeError("no batch")

    made = []

    class Broken(StepPrograms):
        def begin(self, count):
            with monkeypatch.context() as patch:
                patch.setattr(Source, "stack", fails)
                super().begin(count)
                joined()
            made.append(count)

    monkeypatch.setattr("snm.trainer.phase_run.StepPrograms", Broken)
    result = snm.train(tiny.write(tmp_path / "data"), tiny.CONFIG, tmp_path / "run")
    assert made == [2] and result["epochs"] == 3  # the failure was of the thread alone
