"""A run with a logit adjustment: its file, its scores, growing, and what is refused."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import tiny
from command_line import call
from scipy.sparse import csr_matrix
from small_runs import notes

import snm
from snm import SNMClassifier
from snm.config.resolve import resolve
from snm.data.formats.repository_text.writer import write_text
from snm.errors import InputError
from snm.memory import choose as choose_module
from snm.memory.adjustment import label_shifts
from snm.runs.folder import RunFolder
from snm.runs.stored_run import StoredRun, load
from snm.trainer.memory import trial

CONFIG = tiny.REMEMBERING
STRENGTH = 0.2


def adjusted(merged, weight, frequency, ks):
    """In place of the choice, which would find on so few points what chance wants."""
    return STRENGTH, merged.shifted(label_shifts(frequency, STRENGTH))


def choosing(patch):
    patch.setattr(choose_module, "_adjusted", adjusted)
    patch.setattr(trial, "MIN_ADJUSTMENT_POINTS", 1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("adjustment")
    data = tiny.neighbour_data(place / "data")
    with pytest.MonkeyPatch.context() as patch:
        choosing(patch)
        events = list(snm.training(data, CONFIG, place / "run"))
    return data, place / "run", events


def test_scores_are_lowered_by_the_logarithm_of_the_frequency(trained):
    data, run, events = trained
    dataset = snm.load_data(data)
    whole, alone = load(run), load(run, memory=False)
    frequency = np.asarray((dataset.train.labels != 0).sum(axis=0)).ravel()
    expected = -2 * STRENGTH * np.log(np.maximum(frequency, 1))  # of two members
    assert np.ptp(expected) > 0.1
    difference = np.asarray(whole.state.head.bias) - np.asarray(alone.state.head.bias)
    np.testing.assert_allclose(difference, expected, atol=1e-5)

    record = json.loads((run / "memory.json").read_text())
    assert record["adjustment"]["strength"] == pytest.approx(2 * STRENGTH)
    (told,) = [note for note in notes(events) if note.startswith("logit")]
    lowered = "the score of a label with n training points is lowered by 0.4 log n"
    assert told.startswith(f"logit adjustment: {lowered}, P@1/3/5 ")
    metrics = json.loads((run / "result.json").read_text())["metrics"]
    assert snm.evaluate(run, data=data)["metrics"] == metrics


def test_off_adjusts_nothing(trained, tmp_path, monkeypatch):
    data, _, _ = trained
    choosing(monkeypatch)
    config = dataclasses.replace(CONFIG, logit_adjustment="off", members=1)
    result = snm.train(data, config, tmp_path / "run")
    assert result["memory"]["adjustment"] is None
    assert not (tmp_path / "run" / "adjustment.npy").exists()


@pytest.mark.parametrize(
    ("change", "found"),
    [({"memory": "off"}, "no memory, whose points would choose it"), ({"bias": False}, "no bias")],
)
def test_on_is_refused_where_none_can_be(trained, change, found):
    dataset = snm.load_data(trained[0])
    assert resolve(CONFIG, dataset).logit_adjustment == "on"
    change = {**change, "logit_adjustment": "on"}
    with pytest.raises(InputError, match=f"logit_adjustment on: found {found}, expected memory"):
        resolve(dataclasses.replace(CONFIG, **change), dataset)


def test_few_points_choose_none(trained, monkeypatch):
    data, run, _ = trained
    dataset, whole = snm.load_data(data), load(run, memory=False)
    config = resolve(CONFIG, dataset)
    stored = StoredRun.open(run)
    first = snm.Predictor(stored.model, stored.member(1), whole.weighting)
    monkeypatch.setattr(choose_module, "_adjusted", adjusted)
    split = trial.split_for_memory(config, dataset)
    few = trial.choose_memory(config, dataset, split, first, whole)
    assert few.record.held_out == 60 < trial.MIN_ADJUSTMENT_POINTS
    assert few.record.adjustment is None and few.shifts is None
    monkeypatch.setattr(trial, "MIN_ADJUSTMENT_POINTS", 60)
    enough = trial.choose_memory(config, dataset, split, first, whole)
    assert enough.record.adjustment is not None and enough.shifts is not None


def test_without_biases_none_is_tried(trained):
    dataset = snm.load_data(trained[0])
    found = resolve(dataclasses.replace(CONFIG, bias=False), dataset)
    assert (found.memory, found.logit_adjustment) == ("on", "off")  # and off is as above


def test_a_damaged_file_is_named_and_made_again(trained, tmp_path, monkeypatch):
    data, run, _ = trained
    copy = shutil.copytree(run, tmp_path / "run")
    path = copy / "adjustment.npy"
    before = path.read_bytes()
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    with pytest.raises(InputError, match=r"adjustment\.npy"):
        load(copy)
    path.unlink()
    with pytest.raises(InputError, match=r"adjustment\.npy: found no such file"):
        load(copy)
    choosing(monkeypatch)
    list(snm.training(data, CONFIG, copy))
    assert path.read_bytes() == before


def test_a_grown_run_keeps_it_and_new_labels_get_theirs(trained, tmp_path):
    data, run, _ = trained
    old = load(run).model.spec.num_labels
    names = tmp_path / "names.txt"
    names.write_text(f"{old}\n")
    grown = tmp_path / "grown"
    call("grow", run, "--labels", names, "--out", grown)
    difference = [
        np.asarray(load(one).state.head.bias) - np.asarray(load(one, memory=False).state.head.bias)
        for one in (run, grown)
    ]
    np.testing.assert_allclose(difference[1][:old], difference[0], atol=1e-5)
    # Without data, its frequency is not known: it gets the median.
    assert difference[1][old] == pytest.approx(np.median(difference[0]), abs=1e-5)
    # With data it is, as those of the old labels were, and in whatever data they were.
    (tmp_path / "since").mkdir()
    new = csr_matrix((np.ones(40), (np.arange(40), np.full(40, old))), shape=(40, old + 1))
    features = snm.load_data(data).train.features[:40]
    write_text(tmp_path / "since" / "train.txt", features, new)
    call("grow", run, "--labels", names, "--data", tmp_path / "since", "--out", tmp_path / "fed")
    exact, raw = (load(tmp_path / "fed", memory=one).state.head.bias for one in (True, False))
    expected = label_shifts(np.array([40]), RunFolder(run).read_memory_record().adjustment.strength)
    np.testing.assert_allclose((exact - raw)[old], expected[0], atol=1e-5)


def test_the_estimator_has_it(trained, monkeypatch):
    data, _, _ = trained
    dataset = snm.load_data(data)
    choosing(monkeypatch)
    model = SNMClassifier(dim=8, members=1, memory="on", sampled=40, epochs=1, random_state=0)
    model.fit(dataset.train.features, dataset.train.labels)
    own = model.predictor_.state.head.bias - model._states[0].head.bias
    frequency = np.asarray((dataset.train.labels != 0).sum(axis=0)).ravel()
    np.testing.assert_allclose(own, label_shifts(frequency, STRENGTH), atol=1e-5)
