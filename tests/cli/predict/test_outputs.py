"""Where the answers of snm predict go: files, standard output, and what is refused as one."""

import contextlib
import dataclasses
import gzip
import io
import json
import os
import signal
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import tiny
from cli.text_runs import TEXTS
from command_line import call, refused

import snm
from snm.cli.predict.verb import Predict
from snm.prediction.answer_lines import FORMATS


def test_formats_are_those_of_the_table():
    """The command line names them itself: the table imports NumPy."""
    assert get_args(get_type_hints(Predict)["format"]) == tuple(FORMATS)


def test_an_output_that_is_no_file(text_run, tmp_path, capsys):
    """A pipe stays one, and of a link the file that it names is written."""
    pipe, target, link = (tmp_path / name for name in ("pipe", "target", "link"))
    os.mkfifo(pipe)
    said = refused(capsys, "predict", text_run, "--text", "word03", "--out", pipe)
    assert said == f"--out {pipe}: found no regular file, expected a file to write or replace"
    assert pipe.is_fifo()
    target.write_text("before")
    link.symlink_to(target)
    call("predict", text_run, "--text", "word03", "--out", link)
    assert link.is_symlink() and json.loads(target.read_text())["labels"]


def test_an_output_that_is_what_is_read(text_run, tmp_path, capsys):
    path, link, twin = (tmp_path / name for name in ("a.csv", "link.jsonl", "twin.jsonl"))
    path.write_text("title,text\nx,word03\n")
    before = path.read_bytes()
    link.symlink_to(path)
    os.link(path, twin)
    texts = ["--text", "x"]
    for words in ([path], [link], [*texts, "--labels", path], [*texts, "--exclude", path]):
        for output in (path, link, twin):
            said = refused(capsys, "predict", text_run, *words, "--out", output)
            assert said == f"--out {output}: found the file that is read, expected another file"
    assert path.read_bytes() == before and link.is_symlink()


def test_an_output_that_is_compressed(text_run, tmp_path, capsys):
    plain, packed = tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"
    for output in (plain, packed):
        call("predict", text_run, "--text", *TEXTS, "--out", output)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    capsys.readouterr()
    said = refused(capsys, "predict", text_run, "--text", "x", "--format=sparse", "--out", packed)
    assert said.startswith(f"--out {packed}: found --format sparse")


@pytest.mark.parametrize("name", ["answers.csv", "answers.CSV.gz", "answers.parquet"])
def test_an_output_named_as_a_table(text_run, tmp_path, capsys, name):
    """It would hold lines of JSON."""
    said = refused(capsys, "predict", text_run, "--text", "x", "--out", tmp_path / name)
    assert said.startswith(f"--out {tmp_path / name}: found the ending .")
    assert "expected a name such as answers.jsonl: answers are lines of JSON" in said
    assert not (tmp_path / name).exists()


def test_sigterm_leaves_no_part_of_an_output(text_run, tmp_path, monkeypatch):
    texts = tmp_path / "texts.txt"
    texts.write_text("word03\n")

    def stopped(*_):
        assert len(list(tmp_path.glob(".*.out"))) == 1  # a part is there
        os.kill(os.getpid(), signal.SIGTERM)
        yield

    monkeypatch.setattr("snm.cli.predict.verb._answers", stopped)
    call("predict", text_run, texts, "--out", tmp_path / "out", status=128 + signal.SIGTERM)
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [["predict", "RUN", "--text", "word03"], ["--version"]])
def test_a_full_disk_under_standard_output(text_run, words, capsys, monkeypatch):
    with contextlib.suppress(OSError), Path("/dev/full").open("w") as full:  # of what it keeps back
        monkeypatch.setattr(sys, "stdout", full)
        call(*[text_run if word == "RUN" else word for word in words], status=1)
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == "snm: error: standard output: no space left on device"


def test_answers_on_standard_output_are_utf_8(text_run, monkeypatch):
    """As in a file, whatever the locale; this one has no such letters."""
    named = dataclasses.replace(snm.load(text_run), label_names=["日本"] * tiny.LABELS)
    monkeypatch.setattr("snm.export.load.load", lambda _, **more: named)
    out = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", out)
    call("predict", text_run, "--text", "word03")
    assert json.loads(out.buffer.getvalue())["names"] == ["日本"] * 5


def test_sparse_rows_of_unknown_points_are_empty(text_run, tmp_path):
    out = tmp_path / "out"
    call("predict", text_run, "--text", *TEXTS, "--format=sparse", "--out", out)
    head, *rows = out.read_text().splitlines()
    assert [int(number) for number in head.split(" ")] == [5, tiny.LABELS]
    assert [len(row.split()) for row in rows] == [5, 5, 0, 0, 5]
