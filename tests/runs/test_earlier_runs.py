"""Runs of version 0.1.0, from before the packages, load and go on.

The archive has a finished run (two members, Adagrad, two epochs) and one that was stopped at step 8
of 12, each with what the old code answers for the test points: of the second, after its last step.
Both are of the tiny data set.
"""

import dataclasses
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tiny

import snm
from snm.config.auto import auto_size
from snm.errors import InputError
from snm.runs.folder import RunFolder

ARCHIVE = Path(__file__).parent / "fixtures" / "runs-0.1.0.zip"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("earlier")
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(place)
    tiny.write(place / "data", names=True)
    return place


def check_answers(folder, run):
    """The same labels, and scores but for rounding: other processors add up in another order."""
    expected = np.load(folder / run / "expected.npz")
    test = snm.load_data(folder / "data").test
    labels, scores = snm.load(folder / run).predict(test.features, 5)
    np.testing.assert_array_equal(labels, expected["labels"])
    np.testing.assert_allclose(scores, expected["scores"], rtol=1e-4, atol=1e-4)


def test_a_finished_run_answers_as_it_did(folder):
    check_answers(folder, "finished")
    found = snm.evaluate(folder / "finished", data=folder / "data")["metrics"]
    assert (found["P@1"], found["P@5"]) == (80.0, pytest.approx(31.0))


def test_a_run_with_the_older_number_of_negatives_goes_on(tiny_run, tmp_path, monkeypatch):
    """`--sampled auto` was larger for one member; one asked for is not taken for it."""
    run = shutil.copytree(tiny_run / "run", tmp_path / "run")
    written, data = RunFolder(run).settings(), tiny_run / "data"
    monkeypatch.setattr("snm.runs.settings._OLDER_SAMPLED", (written.sampled,))
    before = (run / "config.toml").read_bytes()
    snm.train(data, dataclasses.replace(tiny.CONFIG, sampled="auto"), run)
    assert (run / "config.toml").read_bytes() == before
    of_rule = auto_size(tiny.LABELS)
    assert written.sampled not in (of_rule, of_rule - 1)
    for asked in (of_rule, of_rule - 1):
        with pytest.raises(InputError, match=f"sampled = {written.sampled}, expected {asked}"):
            snm.train(data, dataclasses.replace(tiny.CONFIG, sampled=asked), run)
    monkeypatch.setattr("snm.runs.settings._OLDER_SAMPLED", ())
    with pytest.raises(InputError, match=f"sampled = {written.sampled}, expected {of_rule}"):
        snm.train(data, dataclasses.replace(tiny.CONFIG, sampled="auto"), run)


def test_an_interrupted_run_goes_on_to_the_same_end(folder):
    config = dataclasses.replace(tiny.CONFIG, epochs=3, seed=3, checkpoint_every=0)
    events = list(snm.training(folder / "data", config, folder / "interrupted"))
    started = next(event for event in events if type(event).__name__ == "Started")
    assert (started.step, started.last_step) == (8, 12)
    check_answers(folder, "interrupted")
