"""Tests added labels: old scores keep their bits, and new rows have the expected values."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import tiny
from command_line import call, refused
from edits import accept_edits

import snm
from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Weighting
from snm.grow.rows import new_rows, predict_biases
from snm.runs.stored_run import StoredRun

NEW = 3


def lines(path):
    return path.read_text().splitlines()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run with two members over the first 17 labels, and data with all 20."""
    place = tmp_path_factory.mktemp("grow")
    whole = tiny.write(place / "whole", names=True)
    part = place / "part"
    part.mkdir()
    first = tiny.LABELS - NEW
    for name in ("train.txt", "test.txt"):
        head, *rows = lines(whole / name)
        points, features, _ = head.split()
        kept = []
        for row in rows:
            front, _, rest = row.partition(" ")
            labels = [label for label in front.split(",") if int(label) < first]
            kept.append(f"{','.join(labels)} {rest}")
        (part / name).write_text("\n".join([f"{points} {features} {first}", *kept]) + "\n")
    names = lines(whole / "labels.txt")
    (part / "labels.txt").write_text("\n".join(names[:first]) + "\n")
    (place / "new.txt").write_text("\n".join(names[first:]) + "\n")
    config = dataclasses.replace(tiny.CONFIG, members=2, checkpoint_every=1000)
    snm.train(part, config, place / "run")
    call("grow", place / "run", "--labels", place / "new.txt", "--data", whole,
         "--out", place / "grown")  # fmt: skip
    return place


def test_scores_of_old_labels_do_not_change(place):
    test = snm.load_data(place / "whole").test
    before, after = snm.load(place / "run"), snm.load(place / "grown")
    assert after.label_names == tuple(lines(place / "whole" / "labels.txt"))
    first = tiny.LABELS - NEW
    found = []
    for model in (before, after):
        width = model.model.spec.num_labels
        labels, scores = model.predict(test.features, k=width)
        table = np.zeros((tiny.TEST_POINTS, width), np.float32)
        np.put_along_axis(table, labels.astype(int), scores, axis=1)
        found.append(table[:, :first])
    np.testing.assert_array_equal(found[0], found[1])


def test_new_rows_are_mean_embeddings_of_their_points(place):
    train = snm.load_data(place / "whole").train
    weighting = snm.load(place / "run").weighting
    first = tiny.LABELS - NEW
    for member in (1, 2):
        stored = StoredRun.open(place / "run")
        model, state = stored.model, stored.member(member)
        grown = StoredRun.open(place / "grown").member(member)
        alone = snm.Predictor(model, state, weighting)
        queries = np.concatenate(list(alone.queries(train.features))).astype(np.float64)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        for label in range(first, tiny.LABELS):
            has = train.labels[:, [label]].toarray().ravel() > 0
            mean = queries[has].mean(axis=0)
            row = np.asarray(grown.head.table.rows)[label]
            np.testing.assert_allclose(row, mean / np.linalg.norm(mean), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(grown.features.rows, state.features.rows)


def test_biases_follow_the_least_squares_line_of_the_old_ones():
    frequency = np.array([0, 1, 31, 7, 15, 3, 127])
    line = (2.0 + 0.5 * np.log1p(frequency)).astype(np.float32)
    # The last is in more points than any old label.
    expected = [*line[3:6], line[2]]
    np.testing.assert_allclose(predict_biases(line[:3], frequency, 4), expected, rtol=1e-6)
    np.testing.assert_array_equal(predict_biases(np.float32([1, 5, 2]), None, 2), [2, 2])
    np.testing.assert_array_equal(predict_biases(np.float32([1, 5, 2]), np.array([4] * 4), 1), [2])


def test_training_continues_from_a_grown_model(place, capsys):
    flags = [flag for flag in tiny.FLAGS if not flag.startswith(("--members", "--epochs"))]
    call("train", place / "whole", "--run-dir", place / "next", *flags, "--members=2",
         "--epochs=1", "--warm-start", place / "grown")  # fmt: skip
    call("evaluate", place / "grown", "--json")
    grown = json.loads(capsys.readouterr().out.splitlines()[-1])["metrics"]
    result = json.loads((place / "next" / "result.json").read_text())["metrics"]
    assert result["points"] == grown["points"] == tiny.TEST_POINTS
    # Three labels are new to the one, and trained in the other.
    first = next(json.loads(line) for line in lines(place / "next" / "log.jsonl"))
    fresh = next(json.loads(line) for line in lines(place / "run" / "log.jsonl"))
    assert first["loss"] < fresh["loss"]


def test_labels_in_another_order_are_mapped_by_name(place, tmp_path, capsys):
    """New labels are by default those of the data that the run lacks."""
    turned = tmp_path / "turned"
    turned.mkdir()
    for name in ("train.txt", "test.txt"):
        head, *rows = lines(place / "whole" / name)
        new = []
        for row in rows:
            front, _, rest = row.partition(" ")
            labels = sorted(tiny.LABELS - 1 - int(label) for label in front.split(","))
            new.append(f"{','.join(map(str, labels))} {rest}")
        (turned / name).write_text("\n".join([head, *new]) + "\n")
    names = lines(place / "whole" / "labels.txt")[::-1]
    (turned / "labels.txt").write_text("\n".join(names) + "\n")
    capsys.readouterr()
    call("grow", place / "run", "--data", turned, "--out", tmp_path / "grown")
    said = " ".join(capsys.readouterr().out.split())
    assert f"labels of turned were mapped by name to those of {place / 'run'}" in said
    same, grown = (snm.load(folder / "grown") for folder in (place, tmp_path))
    assert grown.label_names == tuple(names[::-1][: tiny.LABELS - NEW] + names[:NEW])
    label = list(grown.label_names).index
    test = snm.load_data(place / "whole").test.features
    wanted, scores = same.predict(test, k=tiny.LABELS)
    found, others = grown.predict(test, k=tiny.LABELS)
    for row in range(tiny.TEST_POINTS):
        mine = dict(zip(found[row].tolist(), others[row].tolist(), strict=True))
        for slot, score in zip(wanted[row], scores[row], strict=True):
            assert mine[label(same.label_names[slot])] == pytest.approx(score, abs=1e-5)
    # The run counts the labels of its data by name, too.
    call("evaluate", tmp_path / "grown", "--json")
    first = json.loads(capsys.readouterr().out.splitlines()[-1])
    call("evaluate", place / "grown", "--json")
    assert first["metrics"] == json.loads(capsys.readouterr().out.splitlines()[-1])["metrics"]


def test_labels_without_points(place, tmp_path, capsys):
    call("grow", place / "run", "--labels", place / "new.txt", "--out", tmp_path / "grown")
    assert (
        "rows at the start: 0 by points, 0 by name, 3 at random (without points"
        in capsys.readouterr().out
    )
    state = StoredRun.open(tmp_path / "grown").member(1)
    rows = np.asarray(state.head.table.rows)[-NEW:]
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    biases = np.asarray(state.head.bias)
    assert (biases[-NEW:] == np.median(biases[:-NEW])).all()


def test_labels_of_two_growths_get_rows_of_their_own(place, tmp_path):
    run = place / "run"
    for number in range(2):
        names, out = tmp_path / f"{number}.txt", tmp_path / f"grown-{number}"
        names.write_text(f"none {number}\n")
        call("grow", run, "--labels", names, "--out", out)
        run = out
    for member in (1, 2):
        state = StoredRun.open(run).member(member)
        one, other = np.asarray(state.head.table.rows)[-2:]
        assert abs(one @ other) < 0.9


def test_names_are_spelled_as_imports_spell_them(place, tmp_path, capsys):
    names = tmp_path / "names.txt"
    names.write_text("  cafe\u0301  noir\t\n\ufeffb\n")
    call("grow", place / "run", "--labels", names, "--out", tmp_path / "grown")
    assert snm.load(tmp_path / "grown").label_names[-2:] == ("caf\u00e9 noir", "b")
    for again in ("name 3 ", "name  3", "\tname 3"):
        names.write_text(f"{again}\n")
        ask = ("grow", place / "run", "--labels", names, "--out", tmp_path / "other")
        assert "names.txt:1: found 'name 3', which the run has already" in refused(capsys, *ask)


@pytest.mark.parametrize("kind", ["tfidf", "standard"])
def test_names_of_a_model_of_texts(place, kind):
    """A label without points starts at the query of its name, unless its words are unknown.

    Standardized, a text without a known word has values, but it is unknown all the same.
    """
    stored = StoredRun.open(place / "run")
    model, state = stored.model, stored.member(1)
    words = tuple(f"word{j}" for j in range(tiny.FEATURES))
    texts = Vectorizer("counts", tiny.FEATURES, vocabulary=words)
    weighting = Weighting.fit(kind, snm.load_data(place / "part").train.features)
    alone = snm.Predictor(model, state, weighting, vectorizer=texts)
    assert alone.blank(alone.as_rows(["word3 word5", "unknown"])).tolist() == [False, True]
    rows, counts = new_rows(alone, ["word3 word5", "unknown"], None, seed=0)
    assert (counts.points, counts.names, counts.random) == (0, 1, 1)
    (query,) = next(alone.queries(["word3 word5"]))
    np.testing.assert_allclose(rows[0], query / np.linalg.norm(query), rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(rows[1]), 1, rtol=1e-5)


def test_points_count_by_their_weights(place):
    predictor = snm.load(place / "run")
    stored = StoredRun.open(place / "run")
    model, state = stored.model, stored.member(1)
    alone = snm.Predictor(model, state, predictor.weighting)
    data, first = snm.load_data(place / "whole"), tiny.LABELS - NEW
    has = np.flatnonzero(data.train.labels[:, [first]].toarray())
    assert len(has) > 1
    queries = np.concatenate(list(alone.queries(data.train.features[has]))).astype(np.float64)
    for weight in (0.0, 1.0, 50.0):
        weights = np.ones(data.train.num_points, np.float32)
        weights[has[0]] = weight
        weighted = dataclasses.replace(data, train=dataclasses.replace(data.train, weights=weights))
        rows, _ = new_rows(alone, [f"new {n}" for n in range(NEW)], weighted, 0)
        mean = weights[has] @ queries
        np.testing.assert_allclose(rows[0], mean / np.linalg.norm(mean), rtol=1e-4, atol=1e-5)


def test_a_recommender_gets_no_new_labels(tiny_run, tmp_path, capsys):
    """Its labels are its features, of which there would be fewer."""
    run = shutil.copytree(tiny_run / "run", tmp_path / "run")
    settings = (run / "config.toml").read_text()
    assert 'seen = "keep"' in settings
    (run / "config.toml").write_text(settings.replace('seen = "keep"', 'seen = "drop"'))
    accept_edits(run)
    (tmp_path / "names.txt").write_text("a new item\n")
    words = ["grow", run, "--labels", tmp_path / "names.txt", "--out", tmp_path / "out"]
    assert "--labels: found new labels for a run in which labels and feat" in refused(
        capsys, *words
    )
    assert not (tmp_path / "out").exists()


def test_invalid_options(place, tmp_path, capsys):
    run, out, names = place / "run", tmp_path / "out", tmp_path / "names.txt"
    ask = ["grow", run, "--labels", names, "--out", out]
    names.write_text("name 3\n")
    assert "names.txt:1: found 'name 3', which the run has already" in refused(capsys, *ask)
    names.write_text("a\na\n")
    assert "names.txt:2: found 'a', which line 1 has already" in refused(capsys, *ask)
    names.write_text("a\n\n")
    assert "names.txt:2: found an empty line" in refused(capsys, *ask)
    names.write_text("")
    assert "found no name" in refused(capsys, *ask)
    names.write_text("a\nb\n")
    said = refused(capsys, *ask, "--data", place / "whole")
    assert said.startswith(f"whole: found 2 labels that {run} lacks, such as 'name 17', expected")
    assert "a new folder" in refused(capsys, *ask[:-1], place / "grown")
    assert "no config.toml" in refused(capsys, "grow", tmp_path, *ask[2:])
    assert [path.name for path in tmp_path.iterdir()] == ["names.txt"]


def test_a_run_on_data_in_memory_grows_to_one_on_a_folder(place, tmp_path):
    origin = shutil.copytree(place / "run", tmp_path / "run") / "run.json"
    in_memory = {"data": "made", "in_memory": True, "sha256": "0" * 64}
    origin.write_text(json.dumps(json.loads(origin.read_text()) | in_memory))
    accept_edits(tmp_path / "run")
    call("grow", tmp_path / "run", "--labels", place / "new.txt", "--data", place / "whole",
         "--out", tmp_path / "grown")  # fmt: skip
    assert snm.evaluate(tmp_path / "grown")["metrics"]["points"] == tiny.TEST_POINTS
