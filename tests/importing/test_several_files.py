"""Several files are imported as one file of all their rows, in the order given."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import call, refused
from data.documents import LABELS, TEXTS, data_set, write_jsonl
from data.logs import log, write_csv

import snm
from snm.data.formats.label_lists import first_label_lists

PARTS = ((0, 25), (25, 25), (25, 26), (26, len(TEXTS)))  # of the rows; one has none
ROWS = [
    {"text": text, "labels": names, "weight": row % 3 + 1}
    for row, (text, names) in enumerate(zip(TEXTS, LABELS, strict=True))
]


def write(path, rows, columns=("text", "labels", "weight")):
    if path.suffix == ".jsonl":
        write_jsonl(path, rows)
    elif path.suffix == ".parquet":
        kinds = {"text": pa.string(), "labels": pa.list_(pa.string()), "weight": pa.int64()}
        schema = pa.schema([(name, kinds[name]) for name in columns])
        pq.write_table(pa.Table.from_pylist(rows, schema), path)
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            lists = [{**row, "labels": json.dumps(row["labels"])} for row in rows]
            table = [columns, *([row[name] for name in columns] for row in lists)]
            csv.writer(file, delimiter=";" if columns[0] == "weight" else ",").writerows(table)
    return path


def write_parts(folder, form):
    """The rows in one file, and in several, whose columns come in two orders."""
    whole = write(folder / f"whole.{form}", ROWS)
    orders = (("text", "labels", "weight"), ("weight", "text", "labels"))
    return whole, [
        write(folder / f"part-{number}.{form}", ROWS[first:end], orders[number % 2])
        for number, (first, end) in enumerate(PARTS)
    ]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_parts_make_the_data_set_of_the_whole(tmp_path, form):
    whole, parts = write_parts(tmp_path, form)
    options = ("--weight-column", "weight", "--test-fraction", 0.3)
    call("data", "import", whole, "--out", tmp_path / "a", *options)
    call("data", "import", *parts, "--out", tmp_path / "b", *options)
    assert data_set(tmp_path / "a") == data_set(tmp_path / "b")
    # The rows say which file they are of.
    places = (tmp_path / "b" / "train_rows.txt").read_text().splitlines()
    assert {place.removeprefix(str(tmp_path)).split(":")[0][1:] for place in places} <= {
        part.name for part in parts
    }

    call("data", "import", whole, "--test", whole, "--out", tmp_path / "c")
    call("data", "import", *parts, "--out", tmp_path / "d", "--test", *parts)
    assert data_set(tmp_path / "c") == data_set(tmp_path / "d")


def test_features_of_several_files(tmp_path):
    """Ids are from 1 if no file has a 0."""
    lines = ["1,2 3:1 4:2", "2 1:1", "3 2:0.5"]
    parts = [tmp_path / f"{number}.svm" for number in range(3)]
    for part, line in zip(parts, lines, strict=True):
        part.write_text(f"{line}\n")
    (tmp_path / "all.svm").write_text("".join(f"{line}\n" for line in lines))
    call("data", "import", *parts, "--out", tmp_path / "a")
    call("data", "import", tmp_path / "all.svm", "--out", tmp_path / "b")
    assert data_set(tmp_path / "a") == data_set(tmp_path / "b")


def test_the_first_cell_that_shows_lists_may_be_in_a_later_file(tmp_path):
    paths = [tmp_path / f"{number}.csv" for number in range(3)]
    for path, cells in zip(paths, (["", ","], ["  ,[1]"], ["a,b"]), strict=True):
        path.write_text("\n".join(["one,two", *cells]) + "\n")
    assert first_label_lists(paths, [], ["one", "two", "none"]) == {"two": "[1]"}
    assert first_label_lists(paths[::-1], [], ["one", "two"]) == {}


def test_a_log_in_several_files(tmp_path, capsys):
    rows = log()
    for name, some in (("whole", rows), ("a", rows[:200]), ("b", rows[200:200]), ("c", rows[200:])):
        write_csv(tmp_path / f"{name}.csv", some)
    parts = [tmp_path / f"{name}.csv" for name in "abc"]
    for number, options in enumerate(((), ("--time", "when", "--leave-last", 1))):
        one, many = tmp_path / f"one{number}", tmp_path / f"many{number}"
        call("data", "interactions", tmp_path / "whole.csv", "--out", one, *options)
        call("data", "interactions", *parts, "--out", many, *options)
        assert data_set(one) == data_set(many)
        said = capsys.readouterr().out.splitlines()
        half = len(said) // 2
        assert [line.replace("many", "one") for line in said[half:]] == said[:half]
    snm.import_interactions([str(part) for part in parts], tmp_path / "python")
    assert data_set(tmp_path / "python") == data_set(tmp_path / "one0")


def test_what_is_refused_names_the_file(tmp_path, capsys):
    first, second = (write(tmp_path / f"{name}.csv", ROWS[:2]) for name in "ab")
    lines = write(tmp_path / "c.jsonl", ROWS[:2])
    for verb in ("import", "interactions"):
        command = ("data", verb, "--out", tmp_path / "out")
        said = refused(capsys, *command)
        assert said.startswith("FILE: found none, expected one or more, ahead of the options")
        said = refused(capsys, *command[:2], first, lines, *command[2:])
        assert said == f"{lines}: found jsonl, expected csv, as {first} is"
        said = refused(capsys, *command[:2], first, "gs://a/b.csv", *command[2:])
        assert said.endswith("found an address of a store, expected a path of this machine")
    none = tmp_path / "none.csv"
    for verb, what in (
        ("import", "a file of points"),
        ("interactions", "a log of users and items"),
    ):
        said = refused(capsys, "data", verb, first, none, "--out", tmp_path / "out")
        assert said == f"{none}: found no such file, expected {what}"
    files = ("data", "import", first, second, "--out", tmp_path / "out")
    second.write_text("text,labels\na word\n")
    assert refused(capsys, *files).startswith(f"{second}:2: found 1 field, expected 2")
    second.write_text("title,labels\na word,b\n")
    assert refused(capsys, *files).startswith(f"{second}:1: found no column 'text' among title")
    for path in (first, second):
        path.write_text("text,labels\n")
    assert refused(capsys, *files).startswith(f"{first}: found no row after the header")
    for path in (first, second):
        path.write_text("text,labels\n1,x\n")
    assert refused(capsys, *files).startswith(f"{first} and 1 more: found no word in 2 texts")
    said = refused(capsys, *files, "--format", "raw", "--label-file", first)
    assert said.startswith(f"{first} and 1 more: found 2 files of texts (raw), expected one, ")
    assert not (tmp_path / "out").exists()
