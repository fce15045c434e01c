"""The benchmark of the server on a small run: it runs, and every answer is the model's."""

import json
import sys

import pytest

from benchmarks.prediction import serve


@pytest.mark.slow
def test_every_number_of_clients_is_measured(tiny_run, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out.json"
    words = ["serve", str(tiny_run / "run"), "--seconds", "0.5", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", words)
    serve.main()
    found = json.loads(out.read_text())
    assert [row["clients"] for row in found["rows"]] == [1, 8, 64]
    for row in found["rows"]:
        assert row["requests/s"] > 0 and 0 < row["p50, ms"] <= row["p99, ms"]
        assert row["refused"] == row["wrong"] == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
