"""`--labels` of several columns or fields: a point has the labels of all of them, each once."""

import csv
import json

import pytest
from command_line import call, refused
from data.documents import read

import snm
from snm.data.formats.label_lists import first_label_lists
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError

COLUMNS = ("--labels", "topic", "tags")


def write(path, rows, header=("text", "topic", "tags"), delimiter=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *rows])
    return path


def imported(source, out, *options):
    """The names of all labels, and those of each point."""
    call("data", "import", source, "--out", out, *options)
    data, rows = read(out)
    return data.label_names, rows


ROWS = [
    ("a saw", "hw", "net,hw"),  # a label that both have
    ("an apple", "", "fruit"),
    ("a file", "hw", ""),
    ("some words", "", ""),
]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_the_labels_of_all_columns_are_joined(tmp_path, form):
    if form == "csv":
        source = write(tmp_path / "in.csv", ROWS)
    else:
        source = tmp_path / "in.jsonl"
        objects = (
            {"text": text, "topic": topic or None, "tags": [tag for tag in tags.split(",") if tag]}
            for text, topic, tags in ROWS
        )
        source.write_text("".join(f"{json.dumps(one)}\n" for one in objects))
    names, rows = imported(source, tmp_path / "out", *COLUMNS)
    assert rows == [["hw", "net"], ["fruit"], ["hw"], []]
    assert names == ("hw", "net", "fruit")  # by first occurrence, the columns in their order
    assert snm.load_data(tmp_path / "out").train.labels.nnz == 2 + 1 + 1
    names, rows = imported(source, tmp_path / "turned", "--labels", "tags", "topic")
    assert names == ("net", "hw", "fruit") and rows[0] == ["hw", "net"]
    assert imported(source, tmp_path / "one", "--labels", "tags")[1] == [
        ["hw", "net"],
        ["fruit"],
        [],
        [],
    ]


def test_a_separator_splits_the_cells_of_each_column(tmp_path):
    source = write(tmp_path / "in.csv", [("a saw", "hw|a, b", "net|hw"), ("a file", "|", "c")])
    _, rows = imported(source, tmp_path / "out", *COLUMNS, "--label-separator", "|")
    assert rows == [["a, b", "hw", "net"], ["c"]]


def test_all_columns_decide_what_delimits_them(tmp_path):
    """The header has a comma, but only semicolons make the three columns of it."""
    header = ("text", "topic", "tags", "price, EUR")
    rows = [("a saw", "hw", "net", "7")]
    source = write(tmp_path / "in.csv", rows, header=header, delimiter=";")
    assert source.read_text().splitlines()[0] == "text;topic;tags;price, EUR"
    assert imported(source, tmp_path / "out", *COLUMNS)[1] == [["hw", "net"]]


def test_a_label_in_two_columns_counts_once(tmp_path, capsys):
    """`hw` is twice in one point, `net` once in each of two."""
    source = write(tmp_path / "in.csv", [("a saw", "hw", "hw,net"), ("a file", "net", "")])
    names, rows = imported(source, tmp_path / "out", *COLUMNS, "--min-label-count", 2)
    assert names == ("net",) and rows == [["net"], ["net"]]
    assert "1 label of fewer than 2 training points: left out" in capsys.readouterr().out


def test_lists_in_one_column_and_names_in_another(tmp_path, capsys):
    """The first cell of each column decides for the column."""
    cells = [("", "net,hw"), ("['a, b', 'hw']", ""), ("[]", "x y"), ("['c']", "[d]")]
    source = write(tmp_path / "in.csv", [("some words", *row) for row in cells])
    _, rows = imported(source, tmp_path / "out", *COLUMNS)
    assert rows == [["hw", "net"], ["a, b", "hw"], ["x y"], ["[d]", "c"]]
    said = " ".join(capsys.readouterr().out.split())
    assert "cells of 'topic' are lists such as ['a, b', 'hw']: each item is a label" in said
    assert "cells of 'tags'" not in said
    both = write(tmp_path / "both.csv", [("some words", '["a"]', "('hw', 'a')")])
    assert imported(both, tmp_path / "of both", *COLUMNS)[1] == [["a", "hw"]]
    said = " ".join(capsys.readouterr().out.split())
    assert "cells of 'topic' are" in said and "cells of 'tags' are" in said
    mixed = write(tmp_path / "mixed.csv", [("a saw", "hw", "['a']"), ("a file", "[x]", "a")])
    said = refused(capsys, "data", "import", mixed, "--out", tmp_path / "no", *COLUMNS)
    assert said.startswith(f"{mixed}:3: found tags: 'a', expected a list of labels such as")


def test_columns_of_lists_are_read_no_further_than_their_first_cells(tmp_path):
    """The last row is faulty, and an error only where a column is empty up to there."""
    source = tmp_path / "in.csv"
    source.write_text("text,topic,tags\nx,,['a']\ny,b,\nz\n")
    assert first_label_lists([source], ["text"], ["topic", "tags"]) == {"tags": "['a']"}
    assert first_label_lists([source], ["text"], ["topic", "none"]) == {}
    source.write_text("text,topic,tags\nx,,['a']\nz\n")
    with pytest.raises(InputError, match="found 1 field, expected 3"):
        first_label_lists([source], ["text"], ["topic", "tags"])


def test_labels_that_look_unseparated_get_the_hint(tmp_path, capsys):
    """Also beside lists, which hold no separator."""
    rows = [("a saw", "hw;net", "['a']"), ("a file", "net;hw", "[]"), ("an axe", "hw;x", "[]")]
    imported(write(tmp_path / "in.csv", rows), tmp_path / "out", *COLUMNS)
    said = " ".join(capsys.readouterr().out.split())
    assert "most labels hold ';': if it separates labels, --label-separator ';'" in said


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_numbers_of_label_names(tmp_path, form):
    """3 is in both columns of the first point; JSON lines may have it as a text in one."""
    (tmp_path / "names.txt").write_text("zero\none\ntwo\nthree\n")
    if form == "csv":
        source = write(tmp_path / "in.csv", [("a saw", "3;1", "3"), ("a file", "", "0;2")])
        options = ["--label-separator", ";"]
    else:
        source, options = tmp_path / "in.jsonl", []
        source.write_text(
            '{"text": "a saw", "topic": [3, 1], "tags": "3"}\n'
            '{"text": "a file", "topic": null, "tags": [0, 2]}\n'
        )
    options += ["--label-names", tmp_path / "names.txt"]
    names, rows = imported(source, tmp_path / "out", *COLUMNS, *options)
    assert names == ("zero", "one", "two", "three")
    assert rows == [["one", "three"], ["two", "zero"]]
    labels = snm.load_data(tmp_path / "out").train.labels
    assert labels.toarray().tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]


def test_items_of_several_columns(tmp_path):
    source = write(tmp_path / "in.csv", [("a,b", "c", "d"), ("c,d", "a", "b,a")])
    names, rows = imported(source, tmp_path / "out", *COLUMNS, "--same-items")
    assert sorted(names) == ["a", "b", "c", "d"] and rows == [["c", "d"], ["a", "b"]]


def test_like_reads_the_same_columns(tmp_path):
    source = write(tmp_path / "in.csv", ROWS)
    names, _ = imported(source, tmp_path / "jan", *COLUMNS)
    path = tmp_path / "jan" / "vectorizer.json"
    assert Vectorizer.read(path).label_columns == ("topic", "tags")
    later = write(tmp_path / "later.csv", [("a saw", "fruit", "hw,fruit"), ("a file", "net", "")])
    found = imported(later, tmp_path / "feb", "--like", tmp_path / "jan")
    assert found == (names, [["fruit", "hw"], ["net"]])
    found = imported(later, tmp_path / "mar", "--like", tmp_path / "jan", "--labels", "tags")
    assert found == (names, [["fruit", "hw"], []])


@pytest.mark.parametrize("wrong", ["tags", ["tags", 3]])
def test_label_columns_that_are_no_names(tmp_path, wrong):
    imported(write(tmp_path / "in.csv", ROWS), tmp_path / "jan", "--labels", "tags")
    path = tmp_path / "jan" / "vectorizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "label_columns": wrong}))
    with pytest.raises(InputError, match="no vectorizer"):
        Vectorizer.read(path)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "a.csv",
            "text,topic\na saw,hw\n",
            "a.csv:1: found no column 'tags' among text, topic, expected the labels' column, named "
            "with --labels COLUMN",
        ),
        (
            "a.jsonl",
            '{"text": "a saw", "topic": "hw"}\n',
            "a.jsonl:1: found no 'tags' among 'text', 'topic', expected the labels' field, named "
            "with --labels FIELD",
        ),
        (
            "a.jsonl",
            '{"text": "a saw", "topic": "hw", "tags": "a,b"}\n',
            "a.jsonl:1: found a text with ',' in \"tags\", expected a list",
        ),
    ],
)
def test_the_column_that_is_wrong_is_named(tmp_path, capsys, name, text, said):
    (tmp_path / name).write_text(text)
    words = ["data", "import", tmp_path / name, "--out", tmp_path / "out", *COLUMNS]
    assert said in refused(capsys, *words)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_test_points_need_the_same_columns(tmp_path, capsys):
    source, test = write(tmp_path / "in.csv", ROWS), write(tmp_path / "test.csv", ROWS[:1])
    imported(source, tmp_path / "out", *COLUMNS, "--test", test)
    data = snm.load_data(tmp_path / "out")
    assert [data.label_names[label] for label in data.test.labels[0].indices] == ["hw", "net"]
    test.write_text("text,tags\na saw,hw\n")
    words = ["data", "import", source, "--test", test, "--out", tmp_path / "no", *COLUMNS]
    assert f"{test}:1: found no column 'topic' among text, tags" in refused(capsys, *words)
