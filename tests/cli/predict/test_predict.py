"""`snm predict` on texts: it finds out what its input is, says so, and answers no unknown text."""

import datetime
import gzip
import io
import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny
from cli.text_runs import TEXTS
from command_line import answers, call, refused
from data.documents import write_jsonl

import snm
from snm.data.formats.foreign import READERS, Reader
from snm.data.formats.repository_text.writer import write_text


@pytest.fixture
def run(text_run):
    return text_run


def check(found, run, texts=TEXTS):
    """The answers are those of the model, but for texts without a known word."""
    model = snm.load(run)
    labels, scores = model.predict(texts)
    known = model.vectorizer.transform(texts).getnnz(axis=1) > 0
    assert [answer["labels"] for answer in found] == [
        row.tolist() if is_known else [] for row, is_known in zip(labels, known, strict=True)
    ]
    assert [answer.get("unknown", False) for answer in found] == (~known).tolist()
    for answer, row in zip(found, scores, strict=True):
        np.testing.assert_allclose(answer["scores"], row[: len(answer["scores"])], atol=1e-6)


def test_texts_of_the_command_line(run, capsys):
    found, said = answers(capsys, run, "--text", *TEXTS)
    check(found, run)
    assert said == "snm: 2 of 5 points without a known word: answered as unknown\n"
    assert len(found[0]["labels"]) == 5 and found[2] == {
        "labels": [],
        "scores": [],
        "unknown": True,
    }


def written(path, form):
    """The texts in a format, with an id and a list or a column of labels beside each."""
    rows = [{"id": f"p{i}", "title": "x", "text": text, "tags": "a,b"} for i, text in
            enumerate(TEXTS)]  # fmt: skip
    if form == "text":
        path.write_text("".join(f"{text}\n" for text in TEXTS))
    elif form == "jsonl":
        write_jsonl(path, ({**row, "tags": ["a"]} for row in rows))
    else:
        between = {"csv": ",", "tsv": "\t"}[form]
        lines = [between.join(rows[0])]
        lines += [between.join(f'"{cell}"' for cell in row.values()) for row in rows]
        path.write_text("\ufeff" + "".join(f"{line}\r\n" for line in lines), newline="")
    return path


@pytest.mark.parametrize(
    ("name", "form", "told"),
    [
        ("a.csv", "csv", "CSV, text from 'title' and 'text'; passed on: 'id', 'tags'"),
        ("a.tsv", "tsv", "CSV, text from 'title' and 'text'; passed on: 'id', 'tags'"),
        ("a.dat", "csv", "CSV, text from 'title' and 'text'; passed on: 'id', 'tags'"),
        ("a.jsonl", "jsonl", "JSON lines, text from 'title' and 'text'; passed on: 'id', 'tags'"),
        ("a.txt", "jsonl", "JSON lines, text from 'title' and 'text'; passed on: 'id', 'tags'"),
        ("a.txt", "text", "one text a line"),
    ],
)
def test_forms_are_found_out(run, tmp_path, capsys, name, form, told):
    path = written(tmp_path / name, form)
    found, said = answers(capsys, run, path)
    assert said.splitlines()[0] == f"snm: {path}: {told}"
    check(found, run)
    if form != "text":
        tags = ["a"] if form == "jsonl" else "a,b"
        expected = [{"id": f"p{number}", "tags": tags} for number in range(len(TEXTS))]
        assert [answer["fields"] for answer in found] == expected
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert answers(capsys, run, packed)[0] == found
    # The same through a file, whose name and count go to standard output.
    call("predict", run, path, "--out", tmp_path / "out")
    assert [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()] == found
    assert "wrote the labels of 5 points to" in capsys.readouterr().out


def give(monkeypatch, content):
    """Standard input has these bytes."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("form", ["csv", "jsonl", "text", "sparse"])
def test_standard_input(run, tmp_path, capsys, monkeypatch, form):
    path = tmp_path / "a"
    if form == "sparse":
        rows = snm.load(run).vectorizer.transform(TEXTS)
        write_text(path, rows, rows[:, : tiny.LABELS] * 0)
    else:
        written(path, form)
    give(monkeypatch, path.read_bytes())
    found, said = answers(capsys, run, "-")
    check(found, run)
    begins = "standard input: " if form != "sparse" else "2 of 5 points"
    assert said.startswith(f"snm: {begins}")


def test_parquet_is_answered_as_json_lines_are(run, tmp_path, capsys, monkeypatch):
    rows = [
        {"id": n, "title": "x", "text": text, "tags": ["a"], "of": {"n": None}}
        for n, text in enumerate(TEXTS)
    ]
    lines, path = tmp_path / "a.jsonl", tmp_path / "a.parquet"
    write_jsonl(lines, rows)
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, path)
    expected, said = answers(capsys, run, lines)
    assert answers(capsys, run, path) == (
        expected,
        said.replace(f"{lines}: JSON lines", f"{path}: Parquet"),
    )
    path = path.rename(tmp_path / "rows")  # the first bytes are enough
    assert answers(capsys, run, path)[0] == expected
    others = {
        "when": pa.array(
            [datetime.datetime(2026, 5, 1, 12)] * len(TEXTS), pa.timestamp("ns", "UTC")
        ),
        "image": pa.array([b"\xff"] * len(TEXTS)),
    }
    for name, column in others.items():
        table = table.append_column(name, column)
    pq.write_table(table, path)
    found, said = answers(capsys, run, path)
    assert found[0]["fields"] == {**expected[0]["fields"], "when": "2026-05-01T12:00:00+00:00"}
    assert said.splitlines()[0].endswith("passed on: 'id', 'tags', 'of', 'when'")
    pq.write_table(table.select(["title"]), path)
    said = refused(capsys, "predict", run, path)
    assert said.startswith(f"{path}: row 1: found no 'text' among 'title', expected a row with ")
    give(monkeypatch, path.read_bytes())
    said = refused(capsys, "predict", run, "-", "--input-format", "parquet")
    assert said.startswith("standard input: found Parquet, expected the name of a file")


def test_columns_that_are_named(run, tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text('head,body\nword03,"word21\nword07"\n')
    said = refused(capsys, "predict", run, path)
    expected = "'title' and 'text', as the run was trained on (see --columns)"
    found = f"{path}:1: found no column 'title' among head, body"
    assert said == f"{found}, expected a header with {expected}"
    objects = tmp_path / "a.jsonl"
    objects.write_text('{"head": "word03", "text": 3}\n')
    said = refused(capsys, "predict", run, objects, "--columns", "text")
    assert said == f"{objects}:1: found text: 3, expected a text in 'text' (see --columns)"
    objects.write_text('{"title": "word03"}\n')
    said = refused(capsys, "predict", run, objects)
    assert said == f"{objects}:1: found no 'text' among 'title', expected an object with {expected}"
    found, said = answers(capsys, run, path, "--columns", "head", "body")
    check(found, run, TEXTS[:1])
    assert "fields" not in found[0] and said.endswith("text from 'head' and 'body'\n")
    path.write_text("text,n\nword03 word21 word07,1\n")  # not all columns of the training texts
    assert answers(capsys, run, path)[0][0]["fields"] == {"n": "1"}
    path.write_text(",text,n,\n101,word03 word21 word07,1,\n")  # with an index of pandas
    found, said = answers(capsys, run, path)
    assert found[0]["fields"] == {"": "101", "n": "1"}
    assert said.endswith("text from 'text'; passed on: '', 'n'\n")
    # What it is may be said, too.
    found, _ = answers(capsys, run, path, "--input-format", "text")
    assert [answer.get("unknown", False) for answer in found] == [True, False]


def test_a_first_line_that_may_name_columns_is_told(run, capsys, monkeypatch):
    for first, told in (("Title,Tags", True), ("red sea, blue", False)):
        give(monkeypatch, f"{first}\n".encode())
        _, said = answers(capsys, run, "-")
        assert said.startswith("snm: standard input: one text a line")
        assert ("--columns says which has the text" in said) == told


@pytest.mark.parametrize(
    ("name", "line", "form"),
    [
        ("a.txt", "__label__a word03", "fasttext"),
        ("a.svm.gz", "1,3 7:0.5", "svmlight"),
        ("a.tabbed", "fruit\tword03", "tabbed"),
        ("a.txt", "fruit: word03", None),
    ],
)
def test_labels_of_a_file_to_import_are_told(run, tmp_path, capsys, monkeypatch, name, line, form):
    """They are words for `snm predict`, so that such a file has other answers than its texts."""
    monkeypatch.setitem(READERS, "tabbed", Reader(lambda *_: iter(()), suffixes=(".tabbed",)))
    path = tmp_path / name
    path.write_bytes((gzip.compress if name.endswith("gz") else bytes)(f"{line}\n".encode()))
    said = answers(capsys, run, path)[1].splitlines()[0]
    told = f", labels included: it looks like {form}, which only `snm data import` reads"
    assert said == f"snm: {path}: one text a line{told if form else ''}"
    assert "included" not in answers(capsys, run, path, "--input-format", "text")[1]


def test_columns_are_never_taken_for_texts(run, tmp_path, capsys):
    """A header of one name, or without the columns asked for, is a header all the same."""
    path = tmp_path / "a"
    path.write_text("text\nword03 word21 word07\n")
    found, _ = answers(capsys, run, path, "--columns", "text")
    check(found, run, TEXTS[:1])
    for header in ("text", '"text"'):
        path.write_text(f"{header}\nword03 word21 word07\n")
        found, said = answers(capsys, run, path)
        check(found, run, TEXTS[:1])
        assert said == f"snm: {path}: CSV, text from 'text'\n"
    path.write_text("text\nword03\n")
    assert len(answers(capsys, run, path, "--input-format", "text")[0]) == 2
    path.write_text("title\nword03\n")  # one of two columns
    assert len(answers(capsys, run, path)[0]) == 2
    path.write_text("title,text\na,b\n")
    said = refused(capsys, "predict", run, path, "--columns", "titel")
    assert said.startswith(
        f"{path}:1: found no column 'titel' among title, text, expected a header"
    )
    asked = ("predict", run, path, "--columns", "text")
    said = refused(capsys, *asked, "--input-format", "text")
    assert said == f"--columns: found text in {path}, expected CSV, JSON lines or Parquet"
    said = refused(capsys, "predict", run, "--columns", "text", "--text", "word03")
    assert said.startswith("--columns: found --text, expected INPUT")
    said = refused(capsys, "predict", run, "--input-format", "csv", "--text", "word03")
    assert said.startswith("--input-format: found --text, expected INPUT")


def test_a_file_of_other_features_is_read_as_texts_and_told(run, tmp_path, capsys):
    features = tmp_path / "features.txt"
    features.write_text("1 7 3\n0 4:1\n")
    call("predict", run, features)
    assert "the header of features has " in capsys.readouterr().err


def test_null_is_an_empty_text(run, tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": null, "id": 1}\n{"text": "", "id": 2}\n')
    found, _ = answers(capsys, run, path)
    assert [answer["unknown"] for answer in found] == [True, True]
    assert [answer["fields"] for answer in found] == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("mark", [";", "\t"])
def test_columns_apart_as_spreadsheets_write_them(run, tmp_path, capsys, monkeypatch, mark):
    path = tmp_path / "a.csv"
    path.write_text(f'id{mark}text\n1{mark}"{TEXTS[0]}"\n')
    expected, _ = answers(capsys, run, "--text", TEXTS[0])
    found, _ = answers(capsys, run, path)
    assert found == [{"fields": {"id": "1"}, **expected[0]}]
    give(monkeypatch, path.read_bytes())
    assert answers(capsys, run, "-")[0] == found


def test_faults_of_standard_input(run, tmp_path, capsys, monkeypatch):
    rows = snm.load(run).vectorizer.transform(TEXTS)
    write_text(tmp_path / "a", rows, rows[:, : tiny.LABELS] * 0)
    head, first, _, *rest = (tmp_path / "a").read_text().splitlines()
    wrong = "\n".join([head, first, " x:1", *rest]).encode()
    give(monkeypatch, wrong)
    assert refused(capsys, "predict", run, "-").startswith("standard input:3: found ")
    nested = b'{"a":' * 100_000
    give(monkeypatch, nested)
    assert refused(capsys, "predict", run, "-").startswith("standard input:1: found no JSON")
    monkeypatch.setattr(sys, "stdin", None)
    said = refused(capsys, "predict", run, "-")
    assert said == "standard input: found closed, expected points to label"


def test_bad_questions(run, tiny_run, tmp_path, capsys):
    assert "neither INPUT nor --text" in refused(capsys, "predict", run)
    path = written(tmp_path / "a.csv", "csv")
    said = refused(capsys, "predict", run, path, "--k", "0")  # nothing is told of the file before
    assert said == f"--k: found 0, expected 1 to {tiny.LABELS}, the number of labels"
    assert "INPUT and --text" in refused(capsys, "predict", run, path, "--text", "x")
    assert "no --out" in refused(capsys, "predict", run, path, "--format=sparse")
    said = refused(capsys, "predict", tiny_run / "run", path)
    none = (
        f"expected features in text form, .npz or .npy: {tiny_run / 'run'} knows no texts; "
        "a run on `snm data import` does"
    )
    assert said == f"{path}: found texts (csv), {none}"
    fields = tmp_path / "a.jsonl"
    fields.write_text('{"features": {"3": 1}}\n')  # as the server takes them
    assert refused(capsys, "predict", tiny_run / "run", fields) == (
        f"{fields}: found texts (jsonl), {none}")  # fmt: skip
    said = refused(capsys, "predict", tiny_run / "run", "--text", "x")
    assert said == f"--text: found texts (text), {none}"
    path.write_text("")
    said = refused(capsys, "predict", run, path)
    assert said == f"{path}: found an empty file, expected the names of columns, and rows below"
    path.write_text("text|title\na|b\n")
    said = refused(capsys, "predict", run, path)
    assert said.endswith("semicolons or tabs: this header has one column")
    path.write_text("id,text,id\n1,a,2\n")
    said = refused(capsys, "predict", run, path)
    assert said == f"{path}:1: found column 'id' twice, expected a name of its own for each column"
    path.write_text("title,text\na\n")
    call("predict", run, path, "--out", tmp_path / "out", status=2)
    assert "a.csv:2: found 1 field, expected 2, as in the header" in capsys.readouterr().err
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n{"text": 1}\n')
    call("predict", run, tmp_path / "a.jsonl", "--out", tmp_path / "out", status=2)
    assert "a.jsonl:2: found text: 1, expected a text in 'text'" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.jsonl"]
