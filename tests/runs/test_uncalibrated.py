"""Why a run has no probabilities: what an error names, and what to do about it."""

import dataclasses

import pytest

import snm
from snm.errors import InputError
from snm.runs.stored_run import StoredRun
from snm.runs.uncalibrated import why_uncalibrated


def test_a_run_of_few_points(tiny_run):
    said = "a run of 60 training points, too few to hold some out for probabilities, expected one"
    model = snm.load(tiny_run / "run")
    for option, threshold in (("probabilities", None), ("threshold", 0.5)):
        with pytest.raises(InputError, match=f"^{option}: found {said} of 200 or more"):
            model.predict_proba([[0.0] * 30], threshold=threshold)
    # To load the memory, too, would not help.
    with pytest.raises(InputError, match=said):
        snm.load(tiny_run / "run", memory=False).predict_proba([[0.0] * 30])


@pytest.mark.parametrize(
    ("points", "settings", "start", "said"),
    [
        (200, {"preset": "paper"}, None, "a run of the preset paper"),
        (200, {"preset": "default"}, None, "a run with memory = off"),
        (200, {"memory": "on"}, None, "a run without a point to hold out"),
        (199, {"preset": "paper"}, None, "a run of 199 training points"),
        (199, {}, "runs/before", "a run that took no probabilities over from runs/before"),
    ],
)
def test_the_cause_that_holds(tiny_run, monkeypatch, points, settings, start, said):
    run = StoredRun.open(tiny_run / "run")
    monkeypatch.setattr(type(run.folder), "read_result", lambda self: {"data": {"points": points}})
    config = dataclasses.replace(run.config, **settings)
    origin = dataclasses.replace(run.origin, warm_start=start, given={})
    found, expected = why_uncalibrated(run.folder, config, origin)
    assert found.startswith(said) and expected


@pytest.mark.parametrize(
    ("preset", "given", "said"),
    [
        ("default", {"memory": "auto"}, "a run with memory = off, by auto, which"),
        ("default", {"epochs": "few"}, "a run with memory = off, by its settings, which"),
        ("paper", {"memory": "auto"}, "a run with memory = off, by auto, which"),
        ("paper", {}, "a run of the preset paper, which"),
    ],
)
def test_who_chose_to_have_no_memory(tiny_run, monkeypatch, preset, given, said):
    """`run.json` says it; the preset alone does not, since a flag may have overridden it."""
    run = StoredRun.open(tiny_run / "run")
    monkeypatch.setattr(type(run.folder), "read_result", lambda self: {"data": {"points": 200}})
    config = dataclasses.replace(run.config, preset=preset)
    origin = dataclasses.replace(run.origin, given=given)
    assert why_uncalibrated(run.folder, config, origin)[0].startswith(said)


def test_a_grown_run(tiny_run):
    """It was not trained on the data that it names, however many points they have."""
    run = StoredRun.open(tiny_run / "run")
    origin = dataclasses.replace(run.origin, grown_from="runs/before")
    found, expected = why_uncalibrated(run.folder, run.config, origin)
    assert found == "a run grown from runs/before, which has none"
    assert expected == "one trained with --memory on"


def test_a_run_that_has_not_ended(tiny_run, monkeypatch):
    run = StoredRun.open(tiny_run / "run")
    monkeypatch.setattr(type(run.folder), "finished", lambda self: False)
    found, expected = why_uncalibrated(run.folder, run.config, run.origin)
    assert found == "a run that has not ended" and "goes on" in expected
