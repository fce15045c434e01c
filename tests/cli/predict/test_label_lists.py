"""Files of labels for `snm predict`: those to choose from, and those to leave out."""

import dataclasses

import numpy as np
import pytest
import tiny
from cli.text_runs import TEXTS
from command_line import answers, refused

import snm
from snm.prediction.calibration import Calibration, Curve


@pytest.fixture
def run(text_run):
    return text_run


def test_labels_to_choose_from(run, tmp_path, capsys):
    path = tmp_path / "labels.txt"
    path.write_text("7\n3\n\n 12 \n7\n\n")  # empty lines are none
    labels, scores = snm.load(run).predict(TEXTS[:2], 3, [3, 7, 12])
    found, _ = answers(capsys, run, "--text", *TEXTS[:2], "--labels", path)
    assert [answer["labels"] for answer in found] == labels.tolist()  # 3 of them, not 5
    np.testing.assert_allclose([answer["scores"] for answer in found], scores, atol=1e-6)
    assert answers(capsys, run, "--text", TEXTS[0], "--labels", path, "--k=9")[0] == found[:1]
    path.write_text("3\n20\n")
    said = f"{path}:2: found label 20, expected an id"
    assert refused(capsys, "predict", run, "--text", "x", "--labels", path).startswith(said)
    path.write_text("\n")
    assert "no label, expected" in refused(capsys, "predict", run, "--text", "x", "--labels", path)


def test_labels_to_leave_out(run, tmp_path, capsys):
    path, some, model = tmp_path / "gone.txt", tmp_path / "labels.txt", snm.load(run)
    best = model.predict(TEXTS[:2], 3)[0]
    path.write_text(f"{best[0, 0]}\n\n{best[1, 1]}\n")
    gone = [best[0, 0], best[1, 1]]
    labels, scores = model.predict(TEXTS[:2], exclude=gone)
    assert not np.isin(labels, gone).any()
    asked = "--text", *TEXTS[:2], "--exclude", path
    found, _ = answers(capsys, run, *asked)
    assert [answer["labels"] for answer in found] == labels.tolist()
    np.testing.assert_allclose([answer["scores"] for answer in found], scores, atol=1e-6)
    told, _ = answers(capsys, run, *asked, "--explain", "--k=2")
    assert [answer["labels"] for answer in told] == labels[:, :2].tolist()
    assert all(one["features"] for answer in told for one in answer["parts"])
    some.write_text(f"{best[0, 0]}\n3\n7\n")
    found, _ = answers(capsys, run, *asked, "--labels", some)
    assert all(set(answer["labels"]) <= {3, 7} - set(gone) for answer in found)
    path.write_text("\n")  # as where nothing is sold out
    assert answers(capsys, run, *asked)[0] == answers(capsys, run, "--text", *TEXTS[:2])[0]
    path.write_text("3\n20\n")
    said = refused(capsys, "predict", run, *asked)
    assert said.startswith(f"{path}:2: found label 20, expected an id")


def test_probabilities_of_what_is_left(run, tmp_path, capsys, monkeypatch):
    curve = Curve("logistic", (1.0, -0.5, 0.1, 0.0), (-5.0, 9.0), (0.05, 0.95), (-1e9, 1e9))
    loaded = dataclasses.replace(snm.load(run), calibration=Calibration(9, curve, curve))
    monkeypatch.setattr("snm.export.load.load", lambda _, **more: loaded)
    every, _ = answers(capsys, run, "--text", TEXTS[0], "--probabilities", "--k=6")
    path = tmp_path / "gone.txt"
    path.write_text(f"{every[0]['labels'][0]}\n{every[0]['labels'][2]}\n")
    found, _ = answers(
        capsys, run, "--text", TEXTS[0], "--probabilities", "--k=4", "--exclude", path
    )
    for name, values in every[0].items():
        assert found[0][name] == [values[1], *values[3:]]
    least = found[0]["probabilities"][1]
    cut, _ = answers(
        capsys, run, "--text", TEXTS[0], "--threshold", least - 1e-4, "--exclude", path
    )
    assert cut[0]["labels"] == found[0]["labels"][:2]


def test_names_of_labels_to_choose_from(run, tmp_path, capsys, monkeypatch):
    path, loaded = tmp_path / "labels.txt", snm.load(run)
    expected = loaded.predict(TEXTS[:1], 2, [3, 7])[0].tolist()

    def named(*names):
        names += tuple(f"name {label}" for label in range(len(names), tiny.LABELS))
        named = dataclasses.replace(loaded, label_names=names)
        monkeypatch.setattr("snm.export.load.load", lambda _, **more: named)

    named()
    path.write_text("name 3\n7\n")
    found, _ = answers(capsys, run, "--text", TEXTS[0], "--labels", path)
    assert [answer["labels"] for answer in found] == expected
    assert found[0]["names"] == [f"name {label}" for label in expected[0]]
    path.write_text("new\nname 3\n7\nnewer\n")  # as what is in stock may be newer than the run
    again, said = answers(capsys, run, "--text", TEXTS[0], "--labels", path)
    assert again == found
    wanted = f"snm: 2 of 4 labels in {path} are unknown to the run, such as 'new': left out\n"
    assert said == wanted
    path.write_text("\nnew\nnewer\n")
    every, said = answers(capsys, run, "--text", TEXTS[0], "--exclude", path)
    assert said.startswith(f"snm: 2 of 2 labels in {path} are unknown to the run, such as 'new'")
    assert every == answers(capsys, run, "--text", TEXTS[0])[0]
    said = refused(capsys, "predict", run, "--text", "x", "--labels", path)
    assert said == (f"{path}:2: found 2 unknown labels, such as 'new', and no known one, expected "
                    "a name of a label")  # fmt: skip
    path.write_text("name 3\n7\n")
    named("7", "5")  # numbers are names, then
    found, _ = answers(capsys, run, "--text", TEXTS[0], "--labels", path)
    assert sorted(found[0]["labels"]) == [0, 3]
    path.write_text("3\n")
    said = refused(capsys, "predict", run, "--text", "x", "--labels", path)
    assert said == f"{path}:1: found an unknown label '3', expected a name of a label"
