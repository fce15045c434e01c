"""Import, training and prediction with less memory than the data alone would take."""

import os
import subprocess
import sys

import pytest

from benchmarks.larger_than_memory import measure, with_limit, write_texts

LIMIT = 576 << 20
HELD = """
import sys
from snm.data import load
from snm.cli.main import main
load._MAX_SHARE = float("inf")  # never mapped
main(sys.argv[1:])
"""


def test_rows_of_the_csv(tmp_path):
    rows = write_texts(tmp_path / "texts.csv", 100_000)
    lines = (tmp_path / "texts.csv").read_text().splitlines()
    assert lines[0] == "topic,text,labels" and len(lines) == rows + 1
    for line in lines[1:]:
        topic, text, label = line.split(",")
        assert label == f"topic{topic}" and len(text.split()) == 480


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
def test_data_larger_than_what_the_limit_leaves(tmp_path, monkeypatch):
    """The same command fails under this limit where it holds the data."""
    # As users have it. The buffers of a second thread are part of what the limit leaves.
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    found = measure(tmp_path, LIMIT, 0.2, "--epochs=1")
    assert found["csv"] >= 0.2 * LIMIT and found["right"] > 0.95 and found["P@1"] > 95
    for told in found["commands"].values():
        assert 0 < told["anonymous"] <= told["data segment"] <= LIMIT
    words = ["train", str(tmp_path / "data"), "--run-dir", str(tmp_path / "held"),
             "--preset", "fast", "--dim", "64", "--epochs=1"]  # fmt: skip
    other = {**os.environ, "SNM_CACHE": str(tmp_path / "other")}
    command = with_limit(LIMIT, [sys.executable, "-c", HELD, *words])
    held = subprocess.run(command, env=other, capture_output=True, check=False)
    why = held.stderr[-500:]
    assert held.returncode < 0 or (held.returncode and b"memory" in why), why
