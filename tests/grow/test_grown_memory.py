"""A grown run keeps its memory, with the new points: they answer without a step of training."""

import dataclasses
import json

import numpy as np
import pytest
import tiny
from command_line import call, refused
from scipy import sparse

import snm
from snm.data.dataset import Dataset, Points
from snm.data.formats.repository_text.writer import write_text
from snm.runs.stored_run import load

FIRST, LABELS = 57, 60
CONFIG = tiny.REMEMBERING


def written(folder, train, test):
    folder.mkdir()
    for name, points in (("train", train), ("test", test)):
        write_text(folder / f"{name}.txt", points.features, points.labels)
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """`part` has the first 57 labels, `whole` all 60; `since` has 40 new points, of new labels."""
    place = tmp_path_factory.mktemp("grow")
    made = snm.generate(points=600, test_points=300, features=120, labels=LABELS, seed=5,
                        labels_per_point=2, nonzeros_per_point=8)  # fmt: skip
    known = {str(row.indices) for row in made.train.features}
    new = [i for i in range(300) if str(made.test.features[i].indices) not in known][:40]
    test = made.test.take(np.setdiff1d(np.arange(300), new))
    one = sparse.csr_matrix((np.ones(40, np.float32), (range(40), FIRST + np.arange(40) % 3)),
                            shape=(40, LABELS))  # fmt: skip
    written(place / "whole", made.train, test)
    written(place / "since", Points(made.test.features[new], one), test)
    written(place / "part", *(Points(p.features, p.labels[:, :FIRST]) for p in (made.train, test)))
    (place / "new.txt").write_text("57\n58\n59\n")
    snm.train(place / "part", CONFIG, place / "run")
    assert load(place / "run").memory is not None
    call("grow", place / "run", "--labels", place / "new.txt", "--data", place / "since",
         "--out", place / "grown")  # fmt: skip
    return place


def labelled(points):
    return np.flatnonzero(np.diff(points.labels.indptr))


def dense(predictor, features):
    width = predictor.model.spec.num_labels
    labels, scores = predictor.predict(features, width)
    found = np.zeros((features.shape[0], width), np.float32)
    np.put_along_axis(found, labels.astype(int), scores, axis=1)
    return found


def test_new_points_are_stored_beside_the_old_ones(place):
    before, after = load(place / "run").memory, load(place / "grown").memory
    since = snm.load_data(place / "since").train
    had = len(before.rows)
    new = labelled(since)
    assert after.rows.tolist() == [-1] * had + new.tolist()
    assert after.settings == before.settings
    np.testing.assert_array_equal(after.features[:had].toarray(), before.features.toarray())
    np.testing.assert_array_equal(after.labels[:had, :FIRST].toarray(), before.labels.toarray())
    assert not after.labels[:had, FIRST:].nnz
    np.testing.assert_array_equal(after.labels[had:].toarray(), since.labels[new].toarray())
    record, result = (json.loads((place / "grown" / f"{name}.json").read_text())
                     for name in ("memory", "result"))  # fmt: skip
    assert record["points"] == had + len(new) and result["memory"] == record
    assert record["gain"] == json.loads((place / "run" / "memory.json").read_text())["gain"]


def test_scores_are_those_of_the_grown_model_and_all_votes(place):
    """Votes from the definition: cosines over all stored points, and the root of their shares."""
    test = snm.load_data(place / "whole").test.features[:40]
    whole, alone = load(place / "grown"), load(place / "grown", memory=False)
    memory, settings = whole.memory, whole.memory.settings
    queries = np.concatenate(list(alone.queries(test))).astype(float)
    near = alone.weighting.apply(test).toarray() @ memory.features.toarray().T
    near /= np.linalg.norm(memory.features.toarray(), axis=1)
    alike = settings.feature_share * near
    if memory.queries is not None:
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        alike += (1 - settings.feature_share) * queries @ memory.queries.astype(float).T
    expected = dense(alone, test).astype(float)
    for point, cosines in enumerate(alike):
        found = np.argsort(-near[point], kind="stable")[:200]
        most = found[np.argsort(-cosines[found], kind="stable")][: settings.neighbors]
        weights = np.maximum(cosines[most], 0) ** settings.power * (near[point, most] > 0)
        shares = weights @ memory.labels[most].toarray() / weights.sum()
        expected[point] += settings.weight * np.sqrt(shares)
    np.testing.assert_allclose(dense(whole, test), expected, rtol=1e-3, atol=1e-3)


def test_new_labels_are_answers_at_once(place):
    """Their rows are means of random points, which tell less than the points themselves."""
    since = snm.load_data(place / "since").train
    truth = since.labels.indices[:, None]

    def share(predictor):
        return (predictor.predict(since.features, 3)[0] == truth).any(axis=1).mean()

    with_memory, alone = (share(load(place / "grown", memory=memory)) for memory in (True, False))
    assert with_memory > 0.95 and alone < 0.75


def test_a_data_set_that_has_the_old_points_too(place, tmp_path):
    call("grow", place / "run", "--labels", place / "new.txt", "--data", place / "whole",
         "--out", tmp_path / "grown")  # fmt: skip
    whole = snm.load_data(place / "whole").train
    memory = load(tmp_path / "grown").memory
    assert memory.rows.tolist() == labelled(whole).tolist()
    np.testing.assert_array_equal(memory.labels.toarray(), whole.labels[memory.rows].toarray())


def test_without_data_the_votes_stay(place, tmp_path):
    call("grow", place / "run", "--labels", place / "new.txt", "--out", tmp_path / "grown")
    test = snm.load_data(place / "part").test.features
    before, after = load(place / "run"), load(tmp_path / "grown")
    assert after.memory.rows.tolist() == before.memory.rows.tolist()
    np.testing.assert_array_equal(dense(after, test)[:, :FIRST], dense(before, test))


def test_points_alone(place, tmp_path, capsys):
    """No new label: the memory learns, the class rows stay."""
    features, test = (
        snm.load_data(place / "since").train.features,
        snm.load_data(place / "part").test,
    )
    old = Points(features, test.labels[:40])
    data = written(tmp_path / "data", old, test)
    call("grow", place / "run", "--data", data, "--same-ids", "--out", tmp_path / "grown")
    told = " ".join(capsys.readouterr().out.split())
    had, new = len(load(place / "run").memory.rows), len(labelled(old))
    assert f"memory of neighbours: {had + new} stored points, before {had}" in told
    after = load(tmp_path / "grown")
    assert after.memory.rows.tolist() == [-1] * had + labelled(old).tolist()
    np.testing.assert_array_equal(
        dense(load(tmp_path / "grown", memory=False), test.features),
        dense(load(place / "run", memory=False), test.features),
    )
    assert load(place / "run").label_names is after.label_names is None
    call("evaluate", tmp_path / "grown")


def test_witnesses_from_before_have_no_number(place, tmp_path):
    out = tmp_path / "answers.jsonl"
    call("predict", place / "grown", place / "since" / "train.txt", "--k=2", "--out", out,
         "--explain")  # fmt: skip
    rows = [
        witness["train_row"]
        for line in out.read_text().splitlines()
        for witnesses in json.loads(line)["because"]
        for witness in witnesses
    ]
    assert None in rows and all(row is None or 0 <= row < 40 for row in rows)


def test_a_run_without_a_memory_gets_none(place, tmp_path, capsys):
    snm.train(place / "part", dataclasses.replace(CONFIG, memory="off"), tmp_path / "run")
    grow = ("grow", tmp_path / "run", "--data", place / "since", "--out", tmp_path / "grown")
    said = refused(capsys, *grow)
    assert said.startswith("--labels: found none, and a run without a memory of neighbours")
    assert not (tmp_path / "grown").exists()
    call(*grow, "--labels", place / "new.txt")
    assert not list((tmp_path / "grown").glob("memory*"))
    assert load(tmp_path / "grown").memory is None
    neither = refused(capsys, "grow", place / "run", "--out", tmp_path / "more")
    assert neither.startswith("--labels: found none, expected new labels, or --data")


def test_probabilities_stay_where_the_memory_did_not_pay(tmp_path):
    """No two points share a feature."""
    labels = snm.generate(points=600, test_points=0, features=120, labels=60, seed=0).train.labels
    data = Dataset("alone", Points(sparse.identity(600, np.float32, "csr"), labels), None, None, "")
    snm.train(data, CONFIG, tmp_path / "run")
    before = snm.load(tmp_path / "run")
    assert before.memory is None and before.calibration is not None
    (tmp_path / "new.txt").write_text("60\n61\n")
    call("grow", tmp_path / "run", "--labels", tmp_path / "new.txt", "--out", tmp_path / "grown")
    after = snm.load(tmp_path / "grown")
    assert after.memory is None and after.calibration == before.calibration
    records = [
        json.loads((tmp_path / name / "memory.json").read_text()) for name in ("run", "grown")
    ]
    assert records[0] == records[1] and not records[0]["used"]
    settings = [(tmp_path / name / "config.toml").read_text() for name in ("run", "grown")]
    assert settings[0] == settings[1]  # so that a training that goes on from here can take them
