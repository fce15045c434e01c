"""Tests `snm bench` on the command line: what it refuses, and the rows that it writes."""

import json

import pytest
from bench.small_shape import TINY, exit_of

from snm.bench import shapes, steps
from snm.bench.cli import slower


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nosuch"], "nosuch: found an unknown part, expected one of read, sample"),
        (["step", "--repeats", "1"], "--repeats: found 1, expected 2 or more"),
        (["step", "--sampled", "0"], "--sampled: found 0, expected 1 or more"),
        (["step", "--mined", "-3"], "--mined: found -3, expected 1 or more"),
        (["step", "--vs", "nowhere.json"], "--vs nowhere.json: found no such file"),
        (["step", "--json", "no/such/a.json"], "found no such folder"),
        (["step", "--json", "."], "found a folder, expected a file in a folder that exists"),
    ],
)
def test_bad_requests_get_one_line(words, said, capsys):
    assert exit_of(*words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_another_kind_of_file_is_refused(tmp_path, capsys):
    path = tmp_path / "other.json"
    path.write_text('[{"part": "step"}]')
    assert exit_of("step", "--vs", str(path)) == 2
    assert "another kind of file" in capsys.readouterr().err
    path.write_text("{}")
    assert exit_of("step", "--vs", str(path)) == 2
    assert "another kind of file" in capsys.readouterr().err


def test_without_a_gpu_it_says_so(capsys):
    assert exit_of("step", "--device", "gpu") == 0
    assert "skipped" in capsys.readouterr().out


@pytest.mark.parametrize(
    "parts",
    [
        ["sample", "step"],
        pytest.param(
            ["read", "bag", "score_mine", "growth", "epoch", "evaluate", "predict", "checkpoint"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_parts_write_their_rows(parts, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(shapes.SHAPES, "eurlex", TINY)
    monkeypatch.setattr(steps, "_GROWN", (70, 90))
    path = tmp_path / "rows.json"
    assert exit_of(*parts, "--repeats", "2", "--json", str(path)) in (0, None)
    rows = json.loads(path.read_text())
    assert list(dict.fromkeys(row["part"] for row in rows)) == parts
    for row in rows:
        assert row["median_s"] > 0
        assert row["on"]["versions"]["jax"]
        assert row["peak_bytes"] is None if row["part"] == "growth" else row["peak_bytes"] > 0
        factors = row["case"] if row["part"] == "evaluate" else "float32"
        assert row["compute_dtype"] == factors
    assert "eurlex" in capsys.readouterr().out


def test_other_factors_are_another_job(tmp_path, monkeypatch):
    monkeypatch.setitem(shapes.SHAPES, "eurlex", TINY)
    path = tmp_path / "rows.json"
    words = ["step", "--mined", "4", "--repeats", "2", "--no-peers", "--compute-dtype", "bfloat16"]
    assert exit_of(*words, "--json", str(path)) in (0, None)
    rows = json.loads(path.read_text())
    assert {row["compute_dtype"] for row in rows} == {"bfloat16"}
    slow = [{**row, "ratio_to_floor": 10 * row["ratio_to_floor"],
             "ratio_to_floor_quartiles": [9e9, 9e9]} for row in rows]  # fmt: skip
    assert len(slower(slow, rows)) == len(rows)
    assert slower(slow, [row | {"compute_dtype": "float32"} for row in rows]) == []
    nameless = [{k: v for k, v in row.items() if k != "compute_dtype"} for row in rows]
    path.write_text(json.dumps(nameless))
    assert exit_of(*words, "--vs", str(path)) == 2


def test_a_slower_part_is_the_status(tmp_path, monkeypatch):
    monkeypatch.setitem(shapes.SHAPES, "eurlex", TINY)
    path, words = tmp_path / "rows.json", ("sample", "--repeats", "2", "--no-peers")
    assert exit_of(*words, "--json", str(path)) in (0, None)
    rows = json.loads(path.read_text())
    for times, status in ((1e-6, 1), (1e6, 0)):
        for row in rows:
            row |= {"ratio_to_floor": None, "median_s": times, "quartiles_s": [times, times]}
        path.write_text(json.dumps(rows))
        assert (exit_of(*words, "--vs", str(path)) or 0) == status


@pytest.mark.slow
def test_steps_of_several_samples_and_k(tmp_path, monkeypatch):
    monkeypatch.setitem(shapes.SHAPES, "eurlex", TINY)
    path = tmp_path / "rows.json"
    words = ["--sampled", "20", "all", "--mined", "4", "16", "--repeats", "2", "--no-peers"]
    assert exit_of("step", *words, "--json", str(path)) in (0, None)
    found = [(row["sampled"], row["mined"]) for row in json.loads(path.read_text())]
    rest = TINY.num_labels - 1
    assert found == [(20, 4), (20, 16), (20, "all"), (rest, 4), (rest, 16), (rest, "all")]
