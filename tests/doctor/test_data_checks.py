"""Damages data sets, and checks the findings and the advice of `snm doctor`."""

import dataclasses
import gzip
import json
import re
import shlex
import shutil
from dataclasses import replace

import numpy as np
import pytest
import tiny
from command_line import call, refused
from denied import deny
from scipy.sparse import csr_matrix, save_npz

import snm
from snm.config.resolve import resolve
from snm.doctor import data_checks
from snm.planning import fit_check as plan_verb
from snm.planning.bytes_by_stage import bytes_by_stage
from snm.planning.forecast import forecast
from snm.text import format_bytes


@pytest.fixture
def folder(tmp_path):
    return tiny.write(tmp_path / "data", names=True)


def findings(path, *, memory=False):
    """What is found, without the forecast of memory, which compiles programs, unless asked for."""
    with pytest.MonkeyPatch.context() as patch:
        if not memory:
            patch.setattr(data_checks, "_check_memory", lambda *_: ())
        return data_checks.examine_data(str(path))[0]


def found(path, level=None, *, memory=False):
    return {f.what: f for f in findings(path, memory=memory) if level is None or f.level == level}


def lines_of(folder, part="train"):
    return (folder / f"{part}.txt").read_text().splitlines()


def write_lines(folder, lines, part="train"):
    (folder / f"{part}.txt").write_text("\n".join(lines) + "\n")


def test_good_data_has_no_problems(folder, capsys):
    call("doctor", folder)
    shown = capsys.readouterr().out
    assert "60 training and 20 test points, 30 features, 20 labels" in shown
    assert "one-file text: train.txt, test.txt" in shown
    call("doctor", folder, "--json")
    said = json.loads(capsys.readouterr().out)
    assert said["kind"] == "data" and said["statistics"]["train_points"] == 60
    assert "error" not in {f["level"] for f in said["findings"]}
    assert {"peak memory", "devices", "packages"} <= {f["what"] for f in said["findings"]}


def test_counts_match_the_file(folder):
    train, test = lines_of(folder), lines_of(folder, "test")
    # Five test points repeat training points; two train points equal a third; one has no label.
    test[1:6] = train[1:6]
    train[11:13] = [train[10]] * 2
    train[20] = " " + train[20].partition(" ")[2]
    write_lines(folder, train)
    write_lines(folder, test, "test")
    told = {}
    for finding in findings(folder):
        told.setdefault(finding.what, []).append(finding)
    assert told["repeated rows"][0].found.startswith("5 test points (25.0%) repeat a training")
    assert told["repeated rows"][0].level == "warning"
    assert told["repeated rows"][1].found.startswith("2 training points (3.3%) repeat an earlier")
    assert told["empty rows"][0].found.startswith("1 train point has no labels")


def test_test_labels_without_training_points(folder):
    train = [line.replace("19", "18") if i else line for i, line in enumerate(lines_of(folder))]
    train = [",".join(dict.fromkeys(front.split(","))) + " " + rest for front, _, rest in
             (line.partition(" ") for line in train[1:])]  # fmt: skip
    # Only what the labels are is of interest: each point gets one feature.
    train = [f"{line.partition(' ')[0]} 2:1" for line in train]
    write_lines(folder, ["60 30 20", *train])
    write_lines(folder, ["2 30 20", "19 2:1", "1 3:1"], "test")
    said = found(folder)["labels"]
    assert said.level == "warning" and said.found.startswith("1 label of test points without")


@pytest.mark.parametrize("packed", [False, True])
def test_ids_that_start_at_1(folder, capsys, packed):
    rows = []
    for line in lines_of(folder)[1:]:
        front, *entries = line.split()
        labels = ",".join(str(int(label) + 1) for label in front.split(","))
        moved = (entry.split(":") for entry in entries)
        rows.append(" ".join([labels, *(f"{int(j) + 1}:{value}" for j, value in moved)]))
    write_lines(folder, ["60 30 20", *rows])
    if packed:
        file = folder / "train.txt"
        (folder / "train.txt.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    call("doctor", folder, status=1)
    shown = capsys.readouterr().out
    assert "feature ids run from 1 to 30 under a header of 30: they start at 1" in shown
    assert "label ids run from 1 to 20 under a header of 20: they start at 1" in shown


def test_damaged_gzip(folder):
    (folder / "train.txt").unlink()
    (folder / "train.txt.gz").write_bytes(gzip.compress(b"")[:10] + b"\xff" * 20)
    assert "damaged gzip data" in found(folder, "error")["reading"].found


def test_a_header_with_wrong_numbers(folder):
    write_lines(folder, ["59 30 20", *lines_of(folder)[1:]])
    said = found(folder, "error")["reading"]
    assert said.advice == "the header says 59 points, the file has 60 lines"
    write_lines(folder, ["60 12 20", *lines_of(folder)[1:]])
    assert "feature ids reach 29: the header needs at least 30" in (
        found(folder, "error")["reading"].advice
    )
    write_lines(folder, ["60 12 20", *lines_of(folder)[1:], "", ""])  # blank lines are the end
    assert found(folder, "error")["reading"].advice.startswith("feature ids reach 29")
    write_lines(folder, lines_of(folder)[1:])
    assert "header" in found(folder, "error")["reading"].found


def test_points_without_a_header(folder):
    """The command that the doctor and the error name makes a data set of both parts."""
    for part in ("train", "test"):
        write_lines(folder, lines_of(folder, part)[1:], part)
    said = found(folder, "error")["reading"]
    (command,) = re.findall("`(snm .*)`", said.advice)
    assert f"expected a header `points features labels`; `{command}` reads points" in said.found
    words = shlex.split(command)
    assert words[:2] == ["snm", "data"] and words[-2:] == ["--out", "DATA"]
    call(*words[1:-1], folder / "imported")
    data = snm.load_data(folder / "imported")
    assert (data.train.num_points, data.test.num_points) == (60, 20)
    # Of test points alone, an import would give labels other ids.
    write_lines(folder, ["60 30 20", *lines_of(folder)])
    said = found(folder, "error")["reading"]
    assert "test.txt:1: found" in said.found and "data import" not in said.found


def test_parts_of_other_widths(folder):
    """The usual remedy is a wider header: a label of test points need not have a training point."""
    points = lines_of(folder, "test")[1:]
    write_lines(folder, ["20 30 21", *points], "test")
    said = found(folder, "error")["reading"]
    assert said.found.endswith("test.txt:1: found 21 labels, expected 20, as in train")
    wider = "both parts have the widths of the wider one"
    assert said.advice == f"write `60 30 21` as the header of train.txt: {wider}"
    write_lines(folder, ["20 31 19", *points], "test")
    first, second = "`60 31 20` as the header of train.txt", "`20 31 20` as the header of test.txt"
    assert found(folder, "error")["reading"].advice == f"write {first} and {second}: {wider}"


def test_label_ids_that_start_at_1_in_a_folder_with_a_colon(tmp_path):
    folder = tmp_path / "a:b"
    folder.mkdir()
    (folder / "trn_X_Xf.txt").write_text("2 2\n0:1\n1:1\n")
    (folder / "trn_X_Y.txt").write_text("2 3\n1:1\n3:1\n")
    advice = found(folder, "error")["reading"].advice
    assert advice.startswith("label ids run from 1 to 3 under a header of 3: they start at 1")


def test_a_training_file_in_the_form_of_another_program(tmp_path):
    (tmp_path / "train.txt").write_text("__label__a some words\n")
    advice = found(tmp_path, "error")["reading"].advice
    assert advice == "these look like fastText lines: bring them in with `snm data import`"
    # Features alone are no lines of svmlight, with labels.
    (tmp_path / "train.txt").unlink()
    (tmp_path / "trn_X_Xf.txt").write_text("0:1 3:2\n")
    (tmp_path / "trn_X_Y.txt").write_text("1 3\n1:1\n")
    assert found(tmp_path, "error")["reading"].advice.startswith("the file needs a first line")


def test_an_export_is_no_data(tmp_path, capsys):
    """Its config.json was taken for JSON lines to import."""
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "config.json").write_text("{}\n")
    said = refused(capsys, "doctor", tmp_path)
    assert said.endswith("files of `snm export`, expected the folder of a data set or of a run")


@pytest.mark.parametrize(("name", "count"), [("weights.txt", 60), ("label_weights.txt", 20)])
def test_a_file_of_weights_needs_no_header(folder, name, count):
    (folder / name).write_text("1\n" * (count - 1))
    said = found(folder, "error")["reading"]
    assert f"{name}:{count}: found {count - 1} weights, expected {count}" in said.found
    assert said.advice.startswith(f"correct it, so that it has {count}")


@pytest.mark.parametrize(
    ("name", "text", "advice"),
    [
        ("docs.jsonl", '{"text": "a", "labels": [1]}\n', "looks like JSON lines: .*data import"),
        ("docs.txt", "__label__a some words\n", "looks like fastText lines"),
        ("set.svm", "1,2 3:0.5 4:1\n", "looks like svmlight lines"),
        ("set.txt", "sport,news 3:0.5 4:1\n", "looks like svmlight lines"),
        ("articles.csv", "text,labels\n", "looks like CSV: .*data import"),
        ("eurlex_train.txt", "1 30 20\n1 2:1\n", "name it train.txt"),
        ("notes.md", "hello\n", "the folder holds notes.md"),
    ],
)
def test_data_under_other_names(tmp_path, name, text, advice):
    (tmp_path / name).write_text(text)
    said = found(tmp_path, "error")["reading"]
    assert "no training file" in said.found
    assert advice.split(":")[0] in said.advice


@pytest.mark.parametrize("name", ["train.txt", "labels.txt"])
def test_a_file_that_may_not_be_read(folder, name, monkeypatch):
    deny(monkeypatch, folder / name)
    said = found(folder, "error")["reading"]
    expected = "found permission denied, expected permission to read it"
    assert said.found == f"{folder / name}: {expected}"
    assert said.advice == "give this user the right to read it"


def test_filters_and_other_files_without_a_header(folder):
    (folder / "filter_labels.txt").write_text("0 1\n")
    assert "is called filter_labels_test.txt" in found(folder)["filter"].advice
    (folder / "filter_labels.txt").unlink()
    first = lines_of(folder, "test")[1].partition(" ")[0].split(",")[0]
    (folder / "filter_labels_test.txt").write_text(f"0 {first}\n1 0\n1 1\n2 19\n")
    pairs = snm.load_data(folder).test
    hits = sum(pairs.labels[row, label] for row, label in pairs.filter)
    assert f"has 4 pairs, {int(hits)} of them true labels" in found(folder)["filter"].found
    (folder / "filter_labels_test.txt").write_text("20 1\n")
    said = found(folder, "error")["reading"]
    assert "row index 20" in said.found and said.advice.startswith("correct it, so that it has")
    (folder / "filter_labels_test.txt").unlink()
    # Nor do files of names and of weights begin with a line of counts.
    (folder / "labels.txt").write_text("one\ntwo\n")
    assert "first line" not in found(folder, "error")["reading"].advice
    (folder / "labels.txt").unlink()
    with gzip.open(folder / "weights.txt.gz", "wt") as stream:
        stream.write("1\nheavy\n")
    assert "first line" not in found(folder, "error")["reading"].advice


def test_labels_without_a_name(folder):
    (folder / "labels.txt").write_text("\n \n" + "".join(f"{j}\n" for j in range(18)))
    assert found(folder, "warning")["names"].found == "2 labels without a name"


def test_labels_that_differ_only_in_case(folder):
    (folder / "labels.txt").write_text("hw\nHW\n" + "".join(f"{j}\n" for j in range(18)))
    said = found(folder, "note")["names"].found
    assert said == "2 labels differ from another only in case, such as 'hw' and 'HW'"


def test_names_propensities_and_negative_values(folder, tmp_path):
    (folder / "labels.txt").write_text("same\n" * 2 + "".join(f"{j}\n" for j in range(18)))
    assert "1 label with the name of another" in found(folder)["names"].found
    assert "propensities" not in found(shutil.copytree(folder, tmp_path / "AmazonCat-13K"))
    named = snm.load_data(folder)
    for name, a, b in (
        ("amazoncat", None, None),
        ("AmazonCat-13K.bow", None, None),
        ("Wiki10-31K.bow", None, None),
        ("LF-WikiSeeAlso-320K", None, None),
        ("WikiSeeAlsoTitles.bow", None, None),
        ("WikiLSHTC-325K", None, None),
        ("Amazon-670K.bow", None, None),
        ("amazon-cat-14k", None, None),
        ("wiki-10-mine", None, None),
        ("wiki-see-also", None, None),
        ("LF-WikiTitles", 0.5, 0.4),
        ("Wikipedia-500K", 0.5, 0.4),
        ("amazon-sports", 0.6, 2.6),
    ):
        checked = data_checks._check_propensities(replace(named, name=name))
        advice = [finding.advice for finding in checked if finding.level != "ok"]
        assert advice == ([] if a is None else [
            f"for comparable PSP, give --propensity-a {a} --propensity-b {b}"
        ])  # fmt: skip
    (fine,) = data_checks._check_propensities(replace(named, name="Amazon-670K.bow"))
    assert fine.found == "A = 0.6, B = 2.6, those of the public data set of this name"
    lines = lines_of(folder)
    write_lines(folder, [lines[0], "1 2:-1", *lines[2:]])
    assert "1 value below 0" in found(folder)["features"].found


def test_memory_equals_the_forecast_of_plan(folder, monkeypatch):
    dataset = snm.load_data(folder)
    expected, programs = forecast(dataset, resolve(tiny.CONFIG, dataset))
    big = dataclasses.replace(expected.sizes, members=3, tables=100 << 20)
    host, _ = bytes_by_stage(big, on_cpu=True)
    expected = dataclasses.replace(expected, sizes=big, host=host)
    monkeypatch.setattr(plan_verb, "forecast", lambda *_: (expected, programs))
    monkeypatch.setattr(plan_verb, "device_memory", lambda: expected.peak_host)
    said = found(folder, memory=True)["peak memory"]
    assert said.level == "ok" and f"`snm plan {folder}`" in said.found
    monkeypatch.setattr(plan_verb, "device_memory", lambda: expected.peak_host - 1)
    said = found(folder, memory=True)["peak memory"]
    assert said.level == "error" and f"see `snm plan {folder}`" in said.advice
    # Three members of 100 MiB, each beside the three that are put together: one less saves 200.
    fewer, _ = bytes_by_stage(dataclasses.replace(big, members=2), on_cpu=True)
    less = max(sum(parts.values()) for parts in fewer.values())
    assert f"--members 2 ({format_bytes(less)})" in said.advice


def test_rows_of_zeros_are_no_empty_rows_where_features_are_standardized(tmp_path):
    rows = np.random.default_rng(0).integers(-1, 2, (60, 2)).astype(np.float32)
    rows[0] = 0
    np.save(tmp_path / "X.trn.npy", rows)
    save_npz(tmp_path / "Y.trn.npz", csr_matrix(np.eye(3, dtype=np.float32)[np.arange(60) % 3]))
    assert "empty rows" not in found(tmp_path)


def test_data_of_which_nothing_can_be_learned(tmp_path):
    folder = tiny.write(tmp_path / "data")
    lines = lines_of(folder)
    write_lines(folder, [lines[0], *(" " + line.partition(" ")[2] for line in lines[1:])])
    assert found(folder, "error")["empty rows"].found == "no training point has a label"
    write_lines(folder, ["2 30 1", "0 2:1", "0 3:1"])
    (folder / "test.txt").unlink()
    assert found(folder, "error")["labels"].found == "1 label"
    assert "28 of 30 features occur in no training point" in found(folder)["features"].found


def test_labels_that_may_start_at_1(tmp_path):
    folder = tiny.write(tmp_path / "data", test=False)
    rows = [f"{1 + n % 19} 2:1" for n in range(60)]
    write_lines(folder, ["60 30 20", *rows])
    assert found(folder, "note")["index base"].found == "label 0 occurs nowhere"
    write_lines(folder, ["60 30 20", "0 2:1", *rows[1:]])
    assert "index base" not in found(folder)
