"""Recomputes the answers of a run with a memory from its exported arrays, and with an index."""

import dataclasses
import json

import numpy as np
import pytest
import tiny
from command_line import call
from export.exported import FindsNothing, arrays_in
from scipy import sparse

import snm
from snm.export import memory_arrays
from snm.export.index import with_index
from snm.export.index_libraries import LIBRARIES
from snm.export.memory_arrays import stored_arrays, voting_entries
from snm.memory import neighbors
from snm.runs.stored_run import load


@pytest.fixture
def run(remembering):
    return remembering


def votes_by_numpy(arrays, about, x, z, num_labels):
    """What the formulas of the manifest add to the scores, in float64, for one point.

    `x` are its weighted features, `z` its query.
    """
    points, width = about["points"], len(x)

    def matrix(name, data, columns):
        indices, indptr = arrays[f"{name}_indices"], arrays[f"{name}_indptr"]
        return sparse.csr_matrix((data, indices, indptr), (points, columns)).toarray()

    features = matrix("features", arrays["features_data"].astype(float), width)
    labels = matrix("labels", np.ones(len(arrays["labels_indices"])), num_labels)
    c = features @ x / np.linalg.norm(x) / np.linalg.norm(features, axis=1)
    stored = (features != 0).sum(axis=0)  # points that have each feature
    rarest_first = sorted(np.flatnonzero(x), key=lambda feature: stored[feature])
    total, rare = 0, np.zeros(width)
    for feature in rarest_first:
        if total and total + stored[feature] > about["read"]:
            break
        total += stored[feature]
        rare[feature] = x[feature]
    by_rare = features @ rare / np.linalg.norm(features, axis=1)
    s = about["feature_share"] * c
    if about["feature_share"] < 1:
        e = arrays["queries"].astype(float) @ z / np.linalg.norm(z)
        s += (1 - about["feature_share"]) * e
    kept = np.argsort(-by_rare, kind="stable")[: about["found"]]
    kept = kept[by_rare[kept] > 0]
    kept = kept[np.argsort(-s[kept], kind="stable")[: about["neighbors"]]]
    w = np.maximum(s[kept], 0) ** about["power"]
    return about["weight"] * np.sqrt((w / w.sum()) @ labels[kept])


@pytest.mark.parametrize(("form", "read"), [("npz", 1 << 15), ("safetensors", 150)])
def test_answers_follow_from_the_arrays(run, tmp_path, capsys, monkeypatch, form, read):
    monkeypatch.setattr(neighbors, "MAX_READ", read)  # 150: the rarest features of most points
    monkeypatch.setattr(memory_arrays, "MAX_READ", read)
    out = tmp_path / "out"
    call("export", run, "--to", form, "--out", out)
    told = " ".join(capsys.readouterr().out.split())
    assert f"memory of neighbours: 600 points in memory.{form}; the manifest says" in told
    manifest = json.loads((out / "manifest.json").read_text())
    about, arrays = manifest["memory"], {}
    assert about["read"] == read
    for file in (manifest["file"], about["file"]):
        arrays |= arrays_in(out / file)
    assert about["points"] == 600 and manifest["num_labels"] == 60
    alone, whole = load(run, memory=False), load(run)
    test = snm.load_data(run.parent / "data").test.features[:40]
    expected = np.zeros((40, 60))
    slots, scores = alone.predict(test, 60)  # test_export.py recomputes these
    np.put_along_axis(expected, slots, scores, axis=1)
    dim = manifest["dim"]
    for point, row in enumerate(test.toarray().astype(float)):
        x = np.where(row < 1, row, 1 + np.log(np.maximum(row, 1)))
        x *= arrays["idf"]
        x /= np.linalg.norm(x)
        z = []
        for member in range(2):
            columns = slice(member * dim, (member + 1) * dim)
            h = x @ arrays["feature_rows"][:, columns]
            q = h + np.maximum(h, 0) @ arrays["tower"][member]
            z.append(arrays["multipliers"][member] * q / np.linalg.norm(q))
        expected[point] += votes_by_numpy(arrays, about, x, np.concatenate(z), 60)
    slots, scores = whole.predict(test, 60)
    found = np.zeros_like(expected)
    np.put_along_axis(found, slots, scores, axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_index_says_what_it_lacks_and_gets_the_votes(run, tmp_path, capsys, library):
    out = tmp_path / "index"
    call("export", run, "--to", library, "--out", out)
    told = " ".join(capsys.readouterr().out.split())
    assert "memory of neighbours: not in the index, nor in its recall;" in told
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["index"]["measured"]["memory"] is False and "memory" not in manifest
    assert manifest["index"]["measured"]["recall"]["1"] == 1
    assert sorted(path.stem for path in out.iterdir()) == [
        "index", "labels", "manifest", "weighting",
    ]  # fmt: skip
    test = snm.load_data(run.parent / "data").test
    for memory in (True, False):
        predictor = load(run, memory=memory)
        searched = with_index(predictor, out)
        found, exact = (one.predict(test.features, 5) for one in (searched, predictor))
        np.testing.assert_allclose(found[1], exact[1], rtol=1e-4, atol=1e-4)
        assert (found[0] == exact[0]).mean() > 0.99  # but for rounding
    call("evaluate", run, "--index", out, "--json")
    metrics = json.loads(capsys.readouterr().out)
    assert metrics["by_index"]["P@1"] == pytest.approx(metrics["metrics"]["P@1"], abs=0.7)


def test_what_an_index_misses_is_an_answer_if_it_has_votes(run):
    """Of an index that finds nothing, all answers are the labels of neighbours."""
    predictor, test = load(run), snm.load_data(run.parent / "data").test.features[:40]
    found, scores = dataclasses.replace(predictor, index=FindsNothing()).predict(test, 60)
    queries = np.concatenate(list(predictor.queries(test)))
    votes = predictor.memory.additions(predictor.weighting.apply(test), queries).toarray()
    best, exact = predictor.predict(test, 60)
    assert (votes > 0).any(axis=1).sum() > 20
    for row in range(40):
        voted = votes[row, best[row]] > 0
        np.testing.assert_array_equal(found[row, : voted.sum()], best[row, voted])
        np.testing.assert_array_equal(found[row, voted.sum() :], -1)
        np.testing.assert_allclose(scores[row, : voted.sum()], exact[row, voted], rtol=1e-5)


@pytest.mark.slow
def test_labels_that_are_dropped_stay_dropped(tmp_path):
    """A recommender whose model learned nothing, so that the memory answers."""
    data = tiny.tastes()
    points, features = data.train, data.train.features.toarray()
    snm.train(
        data,
        dataclasses.replace(tiny.REMEMBERING, seen="drop", learning_rate=1e-6),
        tmp_path / "run",
    )
    predictor = load(tmp_path / "run")
    assert predictor.memory is not None
    index = dataclasses.replace(predictor, index=Exact(predictor))
    found, exact = (one.predict(points.features, 8) for one in (index, predictor))
    np.testing.assert_allclose(found[1], exact[1], rtol=1e-4, atol=1e-4)
    assert (np.take_along_axis(features, found[0], axis=1) == 0).all()


class Exact:
    """An index that misses nothing."""

    def __init__(self, predictor):
        head = predictor.state.head
        self.rows, self.bias = np.asarray(head.table.rows), np.asarray(head.bias)

    def search(self, queries, k):
        scores = queries @ self.rows.T + self.bias
        return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def test_weights_of_points_are_exported(run):
    memory = load(run).memory
    assert "weights" not in stored_arrays(memory)
    assert "weights_i" not in voting_entries(memory)["votes"]["weights"]
    weights = np.arange(1, 601, dtype=np.float32)
    weighted = dataclasses.replace(memory, weights=weights)
    np.testing.assert_array_equal(stored_arrays(weighted)["weights"], weights)
    assert (
        "max(s_i, 0) ** power * weights_i, divided" in voting_entries(weighted)["votes"]["weights"]
    )
