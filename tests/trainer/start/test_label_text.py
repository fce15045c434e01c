"""Label names as training points: what trains, what is not touched by it, and what it answers."""

import dataclasses
import io
import json
import shutil
import sys
from contextlib import redirect_stdout

import named_texts
import numpy as np
import pytest
import tiny
from command_line import call, refused
from small_runs import notes

import snm
from snm.config.resolve import resolve
from snm.config.settings import preset
from snm.data.dataset import points_from_names
from snm.data.load import load as load_data
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError
from snm.grow.grown_memory import grown_memory
from snm.memory.memory import EARLIER_POINT, LABEL_NAME
from snm.runs.events import NonFiniteError
from snm.runs.stored_run import StoredRun, load
from snm.trainer.phase import prepare_first_phase
from snm.trainer.training import training

CONFIG = dataclasses.replace(tiny.CONFIG, dim=32, class_init="centroid", weighting="l2",
                             input_dropout=0.3, sampled=40, mined=8, epochs=4,
                             checkpoint_every=1000, memory="off", label_text="on")  # fmt: skip
AUTO = dataclasses.replace(CONFIG, label_text="auto")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that has learned from names too, as `auto` decides: its place, and its first events.

    It stops after two epochs, and goes on.
    """
    place = tmp_path_factory.mktemp("label-text")
    named_texts.write(place / "data")
    half = dataclasses.replace(AUTO, epochs=2)
    events = list(training(place / "data", half, place / "run"))
    snm.train(place / "data", AUTO, place / "run")
    return place, events


@pytest.fixture(scope="module")
def place(trained):
    return trained[0]


@pytest.fixture(scope="module")
def without_names(place):
    """The same run where scikit-learn is missing, hence without names; and what it printed."""
    own = ("--dim=32", "--class-init=centroid", "--weighting=l2", "--input-dropout=0.3",
           "--sampled=40", "--mined=8", "--epochs=4", "--checkpoint-every=1000",
           "--memory=off")  # fmt: skip
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as said:
        patch.setitem(sys.modules, "sklearn", None)
        call("train", place / "data", "--run-dir", place / "without-names", *tiny.FLAGS, *own)
    return place / "without-names", said.getvalue()


def tables(run):
    state = StoredRun.open(run).member(1)
    return [np.asarray(x) for x in (state.features.rows, state.head.table.rows, state.head.bias)]


def test_names_become_points():
    words = Vectorizer("counts", 4, vocabulary=("deep", "learning", "graph", "of"))
    found = points_from_names(["deep_learning", "c++", "Graph of graphs: graph"], words, first=5)
    assert found.features.toarray().tolist() == [[1, 1, 0, 0], [0, 0, 2, 1]]
    assert found.labels.shape == (2, 8)
    assert found.labels.indices.tolist() == [5, 7]  # no word of `c++` is in the vocabulary


def test_a_run_learns_what_it_would_if_the_names_were_in_the_file(place, tmp_path):
    """In one go: the run of the fixture went on from a checkpoint, to the same tables."""
    data = load_data(place / "data")
    names = data.name_points
    assert names.num_points == named_texts.LABELS
    more = dataclasses.replace(data, train=data.train.concatenate(names), sha256="1" * 64)
    snm.train(more, dataclasses.replace(CONFIG, label_text="off"), tmp_path / "run")
    for mine, theirs in zip(tables(place / "run"), tables(tmp_path / "run"), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    told = [json.loads((run / "result.json").read_text())
            for run in (place / "run", tmp_path / "run")]  # fmt: skip
    assert told[0]["metrics"]["P@1"] == told[1]["metrics"]["P@1"]
    # Frequencies are those of the files: there, names make no label more frequent.
    assert told[0]["metrics"]["PSP@1"] != told[1]["metrics"]["PSP@1"]
    assert told[0]["data"]["points"] == named_texts.POINTS


def test_a_label_without_a_training_point_is_found_by_its_name(place, without_names):
    data = load_data(place / "data")
    unseen = data.test.take(np.flatnonzero(data.test.labels[:, named_texts.UNSEEN].sum(axis=1)))
    assert unseen.num_points >= 10
    assert not data.label_frequency()[named_texts.UNSEEN].any()
    found = []
    for run in (place / "run", without_names[0]):
        labels, _ = load(run).predict(unseen.features, 5)
        right = [set(row) & set(t.indices) for row, t in zip(labels, unseen.labels, strict=True)]
        found.append(np.mean([bool(one) for one in right]))
    assert found[0] > 0.2 > 0.05 > found[1]


def test_no_name_is_held_out(place):
    data = load_data(place / "data")
    config = resolve(dataclasses.replace(CONFIG, validation_fraction=0.2), data)
    phase, found = prepare_first_phase(config, data)
    assert phase.held_out.num_points == 200
    assert found.source.num_points == 880
    assert found.point_ids[:800].tolist() == phase.rows.tolist()
    assert found.point_ids[800:].tolist() == (-1 - np.arange(named_texts.LABELS)).tolist()


def test_auto_is_on_where_names_pay(place):
    asked = dataclasses.replace(preset("default"), memory="off")
    data = load_data(place / "data")
    assert resolve(asked, data).label_text == "on"
    mixed = tuple(np.random.default_rng(3).permutation(named_texts.NAMES).tolist())
    assert resolve(asked, dataclasses.replace(data, label_names=mixed)).label_text == "off"
    few = dataclasses.replace(data, train=data.train.take(np.arange(499)))
    assert resolve(asked, few).label_text == "off"
    many = dataclasses.replace(data, train=data.train.take(np.arange(0, 1000, 7)))
    assert resolve(asked, many).label_text == "off"
    for lacking in ("label_names", "vectorizer"):
        without = dataclasses.replace(data, **{lacking: None})
        assert resolve(asked, without).label_text == "off"
    assert resolve(preset("paper"), data).label_text == "off"


def test_what_cannot_be_trained_on_is_refused_in_one_line(place, capsys, tmp_path):
    data = load_data(place / "data")
    codes = dataclasses.replace(data, label_names=tuple(f"K{i}" for i in range(named_texts.LABELS)))
    with pytest.raises(InputError, match="no label name with a word of the vocabulary"):
        resolve(CONFIG, codes)
    tiny.write(tmp_path / "plain", names=True)
    error = refused(capsys, "train", tmp_path / "plain", "--run-dir", tmp_path / "run",
                    "--label-text", "on")  # fmt: skip
    assert error == ("--label-text on: found plain without a vectorizer, "
                     "expected texts and labels that `snm data import` converted")  # fmt: skip


def test_auto_without_scikit_learn_trains_as_before(place, without_names, monkeypatch):
    told = (
        "label names: not trained on; found no scikit-learn, which turns label names into features"
    )
    assert told in " ".join(without_names[1].split())
    assert 'label_text = "off"' in (without_names[0] / "config.toml").read_text()
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(InputError, match=r"found no scikit-learn.* expected pip install"):
        resolve(CONFIG, load_data(place / "data"))


def test_a_run_keeps_what_auto_decided_and_its_vocabulary(place, tmp_path):
    for part in ("data", "run"):
        shutil.copytree(place / part, tmp_path / part)
    more = dataclasses.replace(AUTO, epochs=5)
    assert 'label_text = "on"' in (tmp_path / "run" / "config.toml").read_text()
    file = tmp_path / "data" / "vectorizer.json"
    words = json.loads(file.read_text())
    words["vocabulary"] = words["vocabulary"][::-1]  # names then tell nothing
    file.write_text(json.dumps(words))
    with pytest.raises(InputError, match="found features of another vocabulary than those of"):
        snm.train(tmp_path / "data", more, tmp_path / "run")
    file.unlink()
    with pytest.raises(InputError, match="found data without a vectorizer"):
        snm.train(tmp_path / "data", more, tmp_path / "run")


def test_a_batch_with_a_name_that_is_not_finite_says_which(place, tmp_path):
    asked = dataclasses.replace(CONFIG, learning_rate=1e38, epochs=3)
    with pytest.raises(NonFiniteError, match="the names of labels") as stopped:
        snm.train(place / "data", asked, tmp_path / "run")
    assert min(stopped.value.points) < 0


def test_refit_and_validation_with_names(place, tmp_path):
    asked = dataclasses.replace(CONFIG, validation_fraction=0.2, refit=True, patience=2,
                                memory="on", epochs=2)  # fmt: skip
    result = snm.train(place / "data", asked, tmp_path / "run")
    assert result["metrics"]["P@1"] > 20
    memory = load(tmp_path / "run").memory
    assert memory is not None and (memory.rows == LABEL_NAME).sum() == named_texts.LABELS


def test_the_run_says_so(trained):
    said = "80 label names are training points too (--label-text off leaves them out)"
    assert said in notes(trained[1])


def test_weighted_points_and_their_names(place):
    data = load_data(place / "data")
    weights = np.linspace(0, 3, named_texts.POINTS).astype(np.float32)
    train = dataclasses.replace(data.train, weights=weights)
    both = train.concatenate(dataclasses.replace(data, train=train).name_points)
    assert both.weights[: named_texts.POINTS].tolist() == weights.tolist()
    assert both.weights[named_texts.POINTS :] == pytest.approx(1.5)
    plain = data.name_points.concatenate(train)
    assert plain.weights[: named_texts.LABELS].tolist() == [1] * named_texts.LABELS


@pytest.fixture(scope="module")
def remembering(place):
    asked = dataclasses.replace(CONFIG, members=2, memory="on", epochs=2)
    snm.train(place / "data", asked, place / "remembering")
    assert load(place / "remembering").memory is not None
    return place / "remembering"


def test_a_memory_stores_the_names_and_tells_them(remembering, capsys):
    memory = load(remembering).memory
    assert memory.weights is None
    assert (memory.rows == LABEL_NAME).sum() == named_texts.LABELS
    assert (np.sort(memory.rows[memory.rows >= 0]) == np.arange(named_texts.POINTS)).all()
    call("predict", remembering, "--text", "name79", "--explain", "--k", "1")
    (told,) = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "{" in line]
    assert told["labels"] == [79]
    witness = told["because"][0][0]
    assert witness["label_name"] is True and witness["train_row"] is None
    assert witness["shares"] == ["name79"]


def test_a_new_name_answers_without_a_step(remembering, tmp_path):
    new = tmp_path / "new.txt"
    new.write_text("word7 word9\n")
    call("grow", remembering, "--labels", new, "--out", tmp_path / "grown")
    grown = load(tmp_path / "grown")
    labels, _ = grown.predict(["word7 word9"], 5)
    assert named_texts.LABELS in labels[0]
    assert (grown.memory.rows == LABEL_NAME).sum() == named_texts.LABELS + 1
    votes = grown.memory.additions(grown.weighting.apply(grown.as_rows(["word7 word9"])), None)
    assert votes[0, named_texts.LABELS] == votes.max()


def test_new_points_and_names_join_the_memory(remembering, tmp_path):
    """Points of before are of an earlier set, names stay names, in data with one more label."""
    since = tmp_path / "since"
    named_texts.write(since, (*named_texts.NAMES[:-1], "word3_word4"))
    call("grow", remembering, "--data", since, "--out", tmp_path / "grown")
    grown = load(tmp_path / "grown")
    rows = grown.memory.rows
    assert grown.label_names[-1] == "word3_word4"
    assert (rows == LABEL_NAME).sum() == named_texts.LABELS + 1
    assert (rows >= 0).sum() == named_texts.POINTS and not (rows == EARLIER_POINT).any()
    # Underscores are spaces for the class row too: it starts at the query of two words.
    (query,) = next(load_predictor_of(tmp_path / "grown", 1).queries(["word3 word4"]))
    row = tables(tmp_path / "grown")[1][-1]
    np.testing.assert_allclose(row, query / np.linalg.norm(query), rtol=1e-4, atol=1e-6)


def load_predictor_of(run, member):
    whole = load(run)
    stored = StoredRun.open(run)
    return snm.Predictor(
        stored.model, stored.member(member), whole.weighting, vectorizer=whole.vectorizer
    )


def test_a_new_name_weighs_as_the_stored_points(remembering):
    whole = load(remembering)
    memory = whole.memory
    heavy = dataclasses.replace(memory, weights=np.full(len(memory.rows), 100, np.float32))
    new = points_from_names(["word7"], whole.vectorizer, named_texts.LABELS)
    found = grown_memory(heavy, whole, None, named_texts.LABELS + 1, new)
    assert found.weights[-1] == 100


def test_a_copy_without_its_vectorizer_is_refused(place, capsys, tmp_path):
    shutil.copytree(place / "data", tmp_path / "data")
    (tmp_path / "data" / "vectorizer.json").unlink()
    error = refused(capsys, "train", tmp_path / "data", "--run-dir", tmp_path / "run",
                    "--label-text", "on")  # fmt: skip
    assert error.startswith("--label-text on: found data without a vectorizer")
