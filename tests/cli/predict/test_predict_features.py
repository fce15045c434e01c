"""`snm predict` on features: where they come from, and rows of zeros."""

import dataclasses
import os
import threading

import numpy as np
import tiny
from command_line import answers
from scipy.sparse import csr_matrix

import snm
from snm.data.dataset import Dataset, Points
from snm.data.formats.repository_text.writer import write_text


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
