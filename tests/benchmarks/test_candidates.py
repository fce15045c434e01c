"""The benchmark of candidates on a small shape: it runs, and reads the rows that it says."""

import pytest

from benchmarks.prediction.candidates import OF_EACH, POINTS, SIZES, measure
from benchmarks.prediction.open_time import export_model
from snm.bench.shapes import SHAPES


@pytest.mark.slow
def test_every_size_is_measured(tmp_path):
    labels = SHAPES["eurlex"].num_labels
    rows = measure(export_model(tmp_path, "eurlex"), rounds=1)
    small = [size for size in SIZES if size < labels]
    assert [row["labels"] for row in rows] == [*small, labels, *OF_EACH]
    for row in rows:
        read = row["labels"] * (POINTS if row["of each point"] else 1)
        assert row["MiB of rows"] == read * 512 * 4 / 2**20
        assert row["ms of a point"] > 0 and row["ms of a block"] > 0
    assert rows[len(small)]["share of a point"] == rows[len(small)]["share of a block"] == 1
