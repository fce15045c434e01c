"""`snm evaluate --by-label`: which labels the answers miss."""

import csv
import dataclasses

import numpy as np
import pytest
import tiny
from command_line import call, contents, refused

import snm
from snm.evaluation.label_table import write_label_table


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.write(tmp_path_factory.mktemp("data") / "tiny", names=True)


@pytest.fixture(scope="module")
def run(data):
    snm.train(data, dataclasses.replace(tiny.CONFIG, epochs=1), data.parent / "run")
    return data.parent / "run"


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_the_counts_are_those_of_the_predictions(run, data, tmp_path, capsys):
    out = tmp_path / "labels.csv"
    call("evaluate", run, "--by-label", out, "--k", "1", "3")
    assert "by_label" not in capsys.readouterr().out
    dataset, model = snm.load_data(data), snm.load(run)
    best, _ = model.predict(dataset.test.features, k=3)
    truth = dataset.test.labels.toarray() > 0
    some = truth.any(axis=1)
    found = rows_of(out)
    assert [int(row["label"]) for row in found] != list(range(tiny.LABELS))
    missed = [int(row["missed"]) for row in found]
    assert missed == sorted(missed, reverse=True) and len(found) == tiny.LABELS
    for row in found:
        label = int(row["label"])
        answered = (best == label).any(axis=1) & some
        right = int((answered & truth[:, label]).sum())
        carried = int(truth[:, label].sum())
        assert row["name"] == dataset.label_names[label]
        assert int(row["train_points"]) == dataset.train.labels[:, [label]].nnz
        assert (int(row["test_points"]), int(row["answers@3"])) == (carried, answered.sum())
        assert (int(row["right@3"]), int(row["missed"])) == (right, carried - right)
        for share, whole in (("precision@3", answered.sum()), ("recall@3", carried)):
            assert row[share] == (f"{100 * right / whole:.2f}" if whole else "")


def test_what_is_not_known_is_left_empty(tmp_path):
    counts = {name: np.array(values) for name, values in dict(
        test=[2, 0], answers=[0, 3], right=[0, 0]).items()}  # fmt: skip
    write_label_table(tmp_path / "a.csv", {"k": 5, "train": None, **counts}, None)
    assert (tmp_path / "a.csv").read_text().splitlines()[1:] == [
        "0,,,2,0,0,2,,0.00", "1,,,0,3,0,0,0.00,",
    ]  # fmt: skip


def test_files_that_are_not_written(run, tmp_path, capsys):
    before = contents(run)
    nowhere = tmp_path / "no" / "a.csv"
    assert "found no such folder" in refused(capsys, "evaluate", run, "--by-label", nowhere)
    assert contents(run) == before
