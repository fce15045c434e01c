"""Options that reach what they are for, and what a result says."""

import dataclasses
import json

import numpy as np
import pytest
import tiny
from command_line import call, refused

import snm
from snm.data.vectorizer import Vectorizer


def test_evaluate_with_the_auc(tiny_run, capsys):
    call("evaluate", tiny_run / "run", "--json", "--auc")
    assert 50 < json.loads(capsys.readouterr().out)["metrics"]["AUC"] <= 100


def test_evaluate_leaves_the_auc_out_of_a_run_that_has_it(tmp_path, capsys):
    snm.train(tiny.dataset(tmp_path / "data"), dataclasses.replace(tiny.CONFIG, auc=True, epochs=1),
              tmp_path / "run", source=tmp_path / "data")  # fmt: skip
    for flags, there in (([], True), (["--no-auc"], False)):
        call("evaluate", tmp_path / "run", "--json", *flags)
        assert ("AUC" in json.loads(capsys.readouterr().out)["metrics"]) == there
    said = refused(capsys, "evaluate", tmp_path / "run", "--auc", "--no-auc")
    assert said == "--auc: found --no-auc as well, expected one of the two"


def test_options_of_an_import(tmp_path):
    texts, labels = tmp_path / "x.txt", tmp_path / "y.txt"
    texts.write_text("".join(f"word{n} shared\n" for n in range(40)))
    labels.write_text("".join(f"{n}\n" for n in range(40)))
    few = tmp_path / "few.txt", tmp_path / "few-labels.txt"
    few[0].write_text("word1 shared\n")
    few[1].write_text("2\n")
    raw = ("data", "import", texts, "--format", "raw", "--label-file", labels)
    call(*raw, "--test", few[0], "--test-label-file", few[1], "--out", tmp_path / "a")
    data = snm.load_data(tmp_path / "a")
    assert data.label_names[data.test.labels.indices[0]] == "2"
    call(*raw, "--test-fraction=0.5", "--seed=3", "--out", tmp_path / "b")
    kept = np.flatnonzero(np.random.default_rng(3).random(1 << 16)[:40] >= 0.5)
    rows = (tmp_path / "b" / "train_rows.txt").read_text().splitlines()
    assert rows == [f"{texts}:{n + 1}" for n in kept]
    call(*raw, "--vectorizer=hashing", "--out", tmp_path / "c")
    assert Vectorizer.read(tmp_path / "c" / "vectorizer.json").num_features == 262_144


def test_what_the_result_says(tmp_path):
    data = tiny.dataset(tmp_path / "data")
    config = dataclasses.replace(tiny.CONFIG, members=2, epochs=2)
    found = snm.train(data, config, tmp_path / "run", source=tmp_path / "data")
    assert found["data"] == {"name": "data", "source": str(tmp_path / "data"),
                             "sha256": data.sha256, "points": tiny.POINTS}  # fmt: skip
    seen = 2 * 2 * tiny.POINTS  # by both members
    assert found["examples_per_second"] * found["seconds"] == pytest.approx(seen)
    assert (found["steps"], found["epochs"], found["members"]) == (8, 2.0, 2)
