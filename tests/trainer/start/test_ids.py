"""Labels in another order: mapped by name when a run is evaluated or trained on, else refused."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import tiny
from command_line import call, refused
from edits import accept_edits
from small_runs import notes

import snm
from snm.data.id_space import IdSpace
from snm.data.vectorizer import Vectorizer
from snm.evaluation.metrics import metric_names
from snm.runs.folder import RunFolder
from snm.runs.stored_run import StoredRun
from snm.trainer.start.warm_start import WarmStart

ORDER = np.random.default_rng(3).permutation(tiny.LABELS)
"""The label of the tiny data set that each label here is."""


def reordered(folder, source, *, test=True):
    """The tiny data set with its labels, and their names, in another order."""
    folder.mkdir()
    place = np.argsort(ORDER)
    for name in ("train", "test") if test else ("train",):
        head, *rows = (source / f"{name}.txt").read_text().splitlines()
        lines = [head]
        for row in rows:
            front, rest = row.split(" ", 1)
            labels = sorted(place[int(label)] for label in front.split(","))
            lines.append(f"{','.join(map(str, labels))} {rest}")
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    names = (source / "labels.txt").read_text().splitlines()
    (folder / "labels.txt").write_text("".join(f"{names[label]}\n" for label in ORDER))
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run on data with names, and the same data in another order."""
    place = tmp_path_factory.mktemp("ids")
    tiny.write(place / "data", names=True)
    reordered(place / "other", place / "data")
    snm.train(place / "data", tiny.CONFIG, place / "run")
    return place


def told(capsys, *words):
    """What `snm evaluate --json` finds."""
    call("evaluate", *words, "--json")
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_evaluate_maps_labels_by_name(place, capsys):
    found = told(capsys, place / "run", "--data", place / "other")
    assert found.pop("notes") == [
        f"labels of other were mapped by name to those of {place / 'run'}"
    ]
    assert found == told(capsys, place / "run")
    assert found["metrics"]["P@1"] > 50
    call("evaluate", place / "run", "--data", place / "other")
    assert capsys.readouterr().out.count("mapped by name") == 1


def test_filters_are_mapped_too(place, tmp_path):
    """The pair (row, label) that evaluation leaves out names the same label."""
    for name in ("data", "other"):
        folder = tmp_path / name
        folder.mkdir()
        for file in (place / name).iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        first = (folder / "test.txt").read_text().splitlines()[1].split(" ")[0].split(",")
        names = (folder / "labels.txt").read_text().splitlines()
        label = min((int(label) for label in first), key=lambda label: names[label])
        (folder / "filter_labels_test.txt").write_text(f"0 {label}\n")
    one, other = (snm.evaluate(place / "run", tmp_path / name) for name in ("data", "other"))
    assert one["metrics"] == other["metrics"]
    assert one["metrics"] != snm.evaluate(place / "run")["metrics"]


def test_test_points_alone(place, tmp_path):
    """Data without a test part: all points are test points, frequencies are the run's."""
    alone = tmp_path / "march"
    alone.mkdir()
    (alone / "train.txt").write_bytes((place / "other" / "test.txt").read_bytes())
    (alone / "labels.txt").write_bytes((place / "other" / "labels.txt").read_bytes())
    found = snm.evaluate(place / "run", alone)
    assert len(found.pop("notes")) == 2
    assert found == snm.evaluate(place / "run")
    # Where the run's data are gone, nothing that needs the frequencies is told.
    run, data = tmp_path / "run", tmp_path / "data"
    reordered(data, place / "data")
    snm.train(data, tiny.CONFIG, run)
    (data / "train.txt").unlink()
    less = snm.evaluate(run, alone)
    assert less["by_label_frequency"] == [] and less["metrics"]["points"] == tiny.TEST_POINTS
    assert {name for name in less["metrics"] if "@" in name} == {
        name for name in metric_names(tiny.LABELS) if not name.startswith("PS")
    }


def test_repeats_are_those_of_what_the_run_was_trained_on(place, tmp_path):
    """Also of the run that it started from; the train part of the other data counts for nothing."""
    data = snm.load_data(place / "data")
    known = data.train.take(np.arange(30))
    other = dataclasses.replace(data, train=data.test, test=known, name="other", sha256="0")
    left = snm.evaluate(place / "run", other, same_ids=True)["without_repeats"]["points"]
    assert left == 0
    new = tmp_path / "new"
    half = dataclasses.replace(data, train=data.train.take(np.arange(35, 60)), sha256="1")
    config = dataclasses.replace(tiny.CONFIG, epochs=1)
    here = dict(source=place / "other", warm_start=place / "run", same_ids=True)
    snm.train(dataclasses.replace(half, test=known), config, new, **here)
    found = snm.evaluate(new, dataclasses.replace(other, train=half.train), same_ids=True)
    assert found["without_repeats"]["points"] == 0
    assert RunFolder(new).read_result()["without_repeats"]["points"] == 0


def test_without_frequencies_repeats_have_none_of_their_metrics(place, tmp_path):
    """The data of the run are gone; those of the run that it started from tell of repeats."""
    data = snm.load_data(place / "data")
    few = tmp_path / "few"
    tiny.write(few)
    config = dataclasses.replace(tiny.CONFIG, epochs=1)
    snm.train(few, config, tmp_path / "run", warm_start=place / "run", same_ids=True)
    shutil.rmtree(few)
    both = data.train.take(np.arange(5)).concatenate(data.test)
    alone = dataclasses.replace(data, train=data.train.take(np.arange(0)), test=both, sha256="1")
    found = snm.evaluate(tmp_path / "run", alone, same_ids=True)
    assert found["without_repeats"]["points"] == found["metrics"]["points"] - 5
    for part in ("metrics", "without_repeats"):
        assert "P@1" in found[part] and not any(name.startswith("PS") for name in found[part])


@pytest.mark.parametrize("mesh", ["", pytest.param("label=2,data=2", marks=pytest.mark.slow)])
def test_warm_start_maps_labels_by_name(place, tmp_path, mesh):
    still = {"learning_rate": 1e-30, "tower_learning_rate": 1e-30, "epochs": 1, "mesh": mesh}
    config = snm.Config(**{**tiny.CONFIG.__dict__, **still})
    events = list(snm.training(place / "other", config, tmp_path / "new", warm_start=place / "run"))
    assert [note for note in notes(events) if "mapped" in note] == [
        f"labels of {place / 'run'} were mapped by name to those of other"
    ]
    old, new = (StoredRun.open(folder).member(1) for folder in (place / "run", tmp_path / "new"))
    np.testing.assert_allclose(new.head.table.rows, old.head.table.rows[ORDER], atol=1e-6)
    np.testing.assert_allclose(new.head.bias, old.head.bias[ORDER], atol=1e-6)
    one = snm.evaluate(place / "run")["metrics"]["P@1"]
    assert events[-1].result["metrics"]["P@1"] == one
    # A run that goes on asks the other no more.
    again = list(snm.training(place / "other", config, tmp_path / "new", warm_start=place / "run"))
    assert again[-1].result["metrics"]["P@1"] == one


def test_labels_that_cannot_be_compared(place, tmp_path, capsys):
    run = place / "run"
    more = reordered(tmp_path / "more", place / "data")
    names = (more / "labels.txt").read_text().replace("name 3\n", "quite new\n")
    (more / "labels.txt").write_text(names)
    said = refused(capsys, "evaluate", run, "--data", more)
    assert said.startswith(f"more: found 1 label that {run} lacks, such as 'quite new', expected")
    train = ["train", more, "--run-dir", tmp_path / "new", *tiny.FLAGS, "--warm-start", run]
    said = refused(capsys, *train)
    assert said.startswith(f"--warm-start {run}: found 1 label of more that it lacks, such as")
    (more / "labels.txt").write_text(names.replace("quite new", "name 4"))
    assert "a label name twice" in refused(capsys, "evaluate", run, "--data", more)
    (more / "labels.txt").unlink()
    for words in (["evaluate", run, "--data", more], train):
        said = refused(capsys, *words)
        assert said.startswith("more: found labels without names in more, and other data than"), (
            said
        )
        assert said.endswith("--same-ids if ids mean the same")
    assert not (tmp_path / "new").exists()
    call("evaluate", run, "--data", more, "--same-ids")
    ids = IdSpace.of(snm.load_data(more))
    assert WarmStart(run, ids, same_ids=True).slots is None


def test_same_ids_say_nothing_without_the_other_ids(place, tmp_path, capsys):
    run, out = place / "run", tmp_path / "out"
    for words, flag in (
        (("evaluate", run), "--data"),
        (("grow", run, "--labels", run / "labels.txt", "--out", out), "--data"),
        (("train", place / "data", "--run-dir", out), "--warm-start"),
    ):
        assert f"--same-ids: found no {flag}, expected" in refused(capsys, *words, "--same-ids")
    assert list(tmp_path.iterdir()) == []


def test_features_of_another_vocabulary_are_refused(place, tmp_path, capsys):
    """Two imports of texts number their words in their own ways."""
    words = tuple(f"word{number:02}" for number in range(tiny.FEATURES))
    first = Vectorizer("counts", tiny.FEATURES, vocabulary=words)
    second = Vectorizer("counts", tiny.FEATURES, vocabulary=(*words[:-1], "zebra"))
    assert first.makes_features_of(first) and not first.makes_features_of(second)
    run, data = tmp_path / "run", tmp_path / "feb"
    shutil.copytree(place / "run", run)
    shutil.copytree(place / "other", data)
    first.write(run / "vectorizer.json")
    accept_edits(run)
    second.write(data / "vectorizer.json")
    said = refused(capsys, "evaluate", run, "--data", data)
    assert said == (
        f"feb: found features of another vocabulary than those of {run}, "
        f"expected `snm data import --like {run}`"
    )
    said = refused(capsys, "train", data, "--run-dir", tmp_path / "new", *tiny.FLAGS,
                   "--warm-start", run)  # fmt: skip
    assert said.startswith("feb: found features of another vocabulary")
    first.write(data / "vectorizer.json")
    call("evaluate", run, "--data", data)
