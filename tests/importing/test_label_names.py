"""`snm data import --label-names`: labels that are numbers keep them, and have texts as names."""

import gzip
import json
import shutil

import numpy as np
import pytest
from command_line import call, refused
from data.documents import read

import snm
from snm.importing.label_names import read_label_names

TITLES = ["Red\u2028 Candle\r\n", "Saw", "", "Saw", "Never used", "Saw (3)", None]
NAMES = ("Red Candle", "Saw", "(2)", "Saw (3)", "Never used", "Saw (3) (5)", "(6)")
TRAIN = [("a wax candle", [3, 0]), ("", [1]), ("sharp saw", []), ("old wax", [6, 2, 6])]
TEST = [("sharp candle", [5]), ("new saw", [0, 1])]


def pack(path, objects):
    path.write_bytes(gzip.compress("".join(json.dumps(one) + "\n" for one in objects).encode()))
    return path


def write_lf(folder, train=TRAIN):
    """The layout of the repository's LF sets; returns the words of the command but `--out`."""
    folder.mkdir()
    for name, points in (("trn", train), ("tst", TEST)):
        pack(folder / f"{name}.json.gz", (
            {"uid": str(row), "title": title, "content": "", "target_ind": labels,
             "target_rel": [1.0] * len(labels)} for row, (title, labels) in enumerate(points)
        ))  # fmt: skip
    labels = [{"uid": f"u{i}", "title": title, "content": "x"} for i, title in enumerate(TITLES)]
    pack(folder / "lbl.json.gz", labels)
    (folder / "filter_labels_train.txt").write_text("3 6\n")
    (folder / "filter_labels_test.txt").write_text("0 5\n1 4\n")
    return ["data", "import", folder / "trn.json.gz", "--test", folder / "tst.json.gz",
            "--text", "title", "--labels", "target_ind"]  # fmt: skip


def import_lf(tmp_path, *words):
    """The data set of the LF folder, imported to `tmp_path / "data"`."""
    command = write_lf(tmp_path / "lf")
    call(*command, "--label-names", tmp_path / "lf" / "lbl.json.gz", "--out", tmp_path / "data",
         *words)  # fmt: skip
    return snm.load_data(tmp_path / "data")


def dense(points):
    """The labels of points as a table of 0 and 1."""
    table = np.zeros((len(points), len(NAMES)))
    for row, (_, labels) in enumerate(points):
        table[row, labels] = 1
    return table


def test_numbers_stay_ids_and_texts_are_names(tmp_path, capsys):
    data = import_lf(tmp_path)
    said = capsys.readouterr().out
    assert "4 training and 2 test points, 5 features, 7 labels in" in said
    assert (
        "4 labels with the text of another or none: named with their number, such as '(2)'" in said
    )
    assert "lbl.json" not in said
    assert data.label_names == NAMES
    np.testing.assert_array_equal(data.train.labels.toarray(), dense(TRAIN))
    np.testing.assert_array_equal(data.test.labels.toarray(), dense(TEST))
    # Points without text or labels keep their rows, so that filters fit.
    assert data.train.features.getnnz(axis=1).tolist() == [2, 0, 2, 2]
    for part in ("train", "test"):
        shutil.copy(tmp_path / "lf" / f"filter_labels_{part}.txt", tmp_path / "data")
    pairs = snm.load_data(tmp_path / "data").test.filter
    assert pairs.tolist() == [[0, 5], [1, 4]]


def test_rare_labels_keep_their_ids(tmp_path):
    labels = [("wax", [2, 1]), ("saw", [1]), ("wax saw", [1, 6])]
    command = write_lf(tmp_path / "lf", train=labels)
    call(*command, "--label-names", tmp_path / "lf" / "lbl.json.gz", "--min-label-count=2",
         "--out", tmp_path / "data")  # fmt: skip
    data = snm.load_data(tmp_path / "data")
    assert data.label_names == NAMES
    assert data.train.labels.toarray().nonzero()[1].tolist() == [1, 1, 1]


def test_without_the_option_a_line_points_to_it(tmp_path, capsys):
    command = write_lf(tmp_path / "lf")
    call(*command, "--out", tmp_path / "numbers")
    names = tmp_path / "lf" / "lbl.json.gz"
    hint = "all labels are numbers: if lbl.json.gz has their texts"
    assert f"{hint}, --label-names {names} keeps the numbers\n" in capsys.readouterr().out
    assert snm.load_data(tmp_path / "numbers").label_names == ("3", "0", "1", "6", "2", "5")

    def is_silent(folder):
        source = tmp_path / folder / "trn.json.gz"
        call("data", "import", source, *command[5:], "--out", tmp_path / f"of {folder}")
        assert "--label-names" not in capsys.readouterr().out

    names.unlink()
    is_silent("lf")
    write_lf(tmp_path / "names", train=[("wax", ["3", "b"])])
    is_silent("names")


@pytest.mark.parametrize("form", ["plain", "packed", "csv"])
@pytest.mark.parametrize("points", ["csv", "raw", "fasttext", "svmlight"])
def test_every_format_of_points_and_of_names(tmp_path, form, points):
    names = ["fruit, nuts", "tools", "sea"]
    path = tmp_path / {"plain": "Y.txt", "packed": "Y.txt.gz", "csv": "labels.csv"}[form]
    lines, words = "".join(f"{name}\n" for name in names), []
    if form == "csv":
        lines = "id,body\n" + "".join(f'u{i},"{name}"\n' for i, name in enumerate(names))
        words = ["--label-name-field=body"]
    path.write_bytes(gzip.compress(lines.encode()) if form == "packed" else lines.encode())
    text, options = {
        "csv": ("text,labels\nan apple,2;0\na saw,1\n", ["--label-separator=;"]),
        "raw": ("an apple\na saw\n", ["--label-file", tmp_path / "labels"]),
        "fasttext": ("__label__2 __label__0 an apple\n__label__1 a saw\n", []),
        "svmlight": ("2,0 1:1\n1 2:1\n", []),
    }[points]
    (tmp_path / "labels").write_text("2 0\n1\n")
    source = tmp_path / "points"
    source.write_text(text)
    call("data", "import", source, "--format", points, "--label-names", path, *words, *options,
         "--out", tmp_path / "out")  # fmt: skip
    data, rows = read(tmp_path / "out")
    assert data.label_names == tuple(names)
    assert rows == [["fruit, nuts", "sea"], ["tools"]]


def test_a_run_of_numbered_labels_takes_numbers_again(tmp_path, capsys):
    import_lf(tmp_path)
    names = tmp_path / "lf" / "lbl.json.gz"
    pack(tmp_path / "next.jsonl.gz", [{"title": "new wax", "target_ind": [5, 3]}])
    words = ["data", "import", tmp_path / "next.jsonl.gz", "--labels", "target_ind",
             "--like", tmp_path / "data", "--out", tmp_path / "next"]  # fmt: skip
    assert "2 labels that" in refused(capsys, *words)
    call(*words, "--label-names", names)
    data = snm.load_data(tmp_path / "next")
    assert data.label_names == NAMES
    assert data.train.labels.indices.tolist() == [3, 5]


@pytest.mark.parametrize(
    ("label", "shown"),
    [(7, "'7'"), (-1, "'-1'"), ("Saw", "'Saw'"), ("1.0", "'1.0'"), ("9" * 17, f"'{'9' * 17}'")],
)
def test_a_label_that_is_no_number_of_a_name(tmp_path, capsys, label, shown):
    command = write_lf(tmp_path / "lf", train=[*TRAIN, ("wax", [0, label])])
    names = tmp_path / "lf" / "lbl.json.gz"
    said = refused(capsys, *command, "--label-names", names, "--out", tmp_path / "data")
    expected = f"a whole number from 0 to 6, a label of {names}"
    assert said == f"{command[2]}:5: found label {shown}, expected {expected}"
    assert [path.name for path in tmp_path.iterdir()] == ["lf"]


@pytest.mark.parametrize(
    ("name", "text", "words", "said"),
    [
        ("lbl.json", '{"uid": "a"}\n', [],
         "lbl.json:1: found no 'title' among 'uid', expected a text in 'title' (see --label-name"),
        ("lbl.json", '{"title": 7}\n', [], "lbl.json:1: found title: 7, expected a text"),
        ("lbl.json", '{"title"\n', [], "lbl.json:1: found no JSON"),
        ("lbl.json", "", [], "lbl.json: found no label, expected the text of one label per line"),
        ("lbl.csv", "uid\n1\n", [], "lbl.csv:1: found no column 'title' among uid, expected the"),
        ("Y.txt", "a\n", ["--label-name-field=x"], "a file without fields, expected CSV, JSON"),
        ("Y.txt.gz", "a\n", [], "Y.txt.gz: found damaged gzip data"),
        ("none", None, [], "none: found no such file, expected the texts of labels"),
        (None, None, ["--label-name-field=x"], "--label-name-field: found no --label-names"),
    ],
)  # fmt: skip
def test_names_that_cannot_be_read(tmp_path, capsys, name, text, words, said):
    command = write_lf(tmp_path / "lf")
    if name is not None:
        words = [*words, "--label-names", tmp_path / name]
    if text is not None:
        (tmp_path / name).write_text(text)
    assert said in refused(capsys, *command, *words, "--out", tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_texts_that_look_alike_are_told_apart(tmp_path):
    """Names are composed, as all that are imported; the second spelling gets its number."""
    path = tmp_path / "Y.txt"
    path.write_text("cafe\u0301\ncaf\u00e9\n", encoding="utf-8")
    found = read_label_names(path, None, "text", lambda done: None)
    assert found.names == ("caf\u00e9", "caf\u00e9 (1)") and found.numbered == ["caf\u00e9 (1)"]
