"""`snm predict` on features: where they come from, and rows of zeros."""

import dataclasses
import gzip
import json
import os
import threading

import numpy as np
import pytest
import tiny
from command_line import answers, call
from scipy import sparse
from scipy.sparse import csr_matrix

import snm
from snm.data.dataset import Dataset, Points
from snm.data.formats.feature_files import iter_features
from snm.data.formats.repository_text.reader import read_text
from snm.data.formats.repository_text.writer import write_text


def test_answers_are_those_of_python(run, data, tmp_path):
    test, lines, table = data / "test.txt", tmp_path / "a.jsonl", tmp_path / "a.txt"
    features, _ = read_text(test)
    labels, scores = snm.predict(run, features, k=4)
    call("predict", run, test, "--k=4", "--out", lines)
    answers = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [answer["labels"] for answer in answers] == labels.tolist()
    assert answers[0]["names"] == [f"name {label}" for label in labels[0]]
    np.testing.assert_allclose([a["scores"] for a in answers], scores, atol=1e-6)
    assert (np.diff(scores) <= 0).all()

    call("predict", run, test, "--k=4", "--out", table, "--format=sparse")
    head = table.read_text().split("\n")[0]
    assert [int(number) for number in head.split(" ")] == [tiny.TEST_POINTS, tiny.LABELS]
    (again,) = iter_features(table, tiny.LABELS, 4096)
    expected = np.zeros((tiny.TEST_POINTS, tiny.LABELS))
    np.put_along_axis(expected, labels, scores, axis=1)
    np.testing.assert_allclose(again.toarray(), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["x.txt", "x.txt.gz", "x.npz", "x.npy"])
def test_every_form_is_read(run, data, tmp_path, name):
    features, _ = read_text(data / "test.txt")
    source, out = tmp_path / name, tmp_path / "answers"
    if name.endswith("npz"):
        sparse.save_npz(source, features)
    elif name.endswith("npy"):
        np.save(source, features.toarray())
    else:
        text = (data / "test.txt").read_bytes()
        source.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    out.write_text("an older file is replaced")
    call("predict", run, source, "--out", out)
    labels, _ = snm.predict(run, features)
    assert labels.shape[1] == 5
    answers = [json.loads(line)["labels"] for line in out.read_text().splitlines()]
    assert answers == labels.tolist()


def test_features_from_a_pipe(tmp_path, capsys):
    data = tiny.dataset(tmp_path / "data")
    snm.train(data, dataclasses.replace(tiny.CONFIG, epochs=1), tmp_path / "run")
    path, pipe = tmp_path / "points.txt", tmp_path / "pipe"
    write_text(path, data.test.features, data.test.labels)
    expected, _ = answers(capsys, tmp_path / "run", path)
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(path.read_bytes()))
    writer.start()
    found, _ = answers(capsys, tmp_path / "run", pipe)
    writer.join()
    assert found == expected and len(found) == data.test.num_points


def test_zeros_are_values_like_others_where_features_are_standardized(tmp_path, capsys):
    """Every eighth point is a row of zeros, and none is without a feature."""
    rows = np.random.default_rng(0).integers(-1, 2, (80, 2)).astype(np.float32)
    rows[::8] = 0
    labels = np.eye(9, dtype=np.float32)[(3 * (rows[:, 0] + 1) + rows[:, 1] + 1).astype(int)]
    points = Points(csr_matrix(rows), csr_matrix(labels))
    config = dataclasses.replace(tiny.CONFIG, weighting="standard", epochs=1)
    snm.train(Dataset("dense", points, None, None, "0" * 64), config, tmp_path / "run")
    np.save(tmp_path / "zeros.npy", np.zeros((1, 2), np.float32))
    (answer,), said = answers(capsys, tmp_path / "run", tmp_path / "zeros.npy")
    expected, _ = snm.load(tmp_path / "run").predict(np.zeros((1, 2), np.float32))
    assert answer["labels"] == expected[0].tolist() and "unknown" not in answer
    assert "unknown" not in said
