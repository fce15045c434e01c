"""Rows that `experiments.sets.file_lists` finds in a small list of files."""

import csv
import gzip

import pytest

from experiments.sets import file_lists
from experiments.sets.file_lists import KINDS, main
from snm.errors import InputError


def listed(path, *lines):
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    return path


def test_words_of_a_name_and_the_packages_that_have_it(tmp_path):
    path = listed(
        tmp_path / "list.gz",
        "usr/lib/a/readHTMLFile_v12.py          python/one,libs/two",
        "usr/share/with space/Read-html.file12  doc/three",
        "",
        "usr/lib/a/short.py                     python/one",
    )
    assert list(KINDS["files"](path)) == [("read html file 12", ["three"]),
                                          ("read html file 12 py", ["one", "two"])]  # fmt: skip


def test_packages_of_many_names_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(file_lists, "MOST_POINTS", 2)
    lines = [f"f/some name {word}  s/big" for word in ("aa", "bb", "cc")]
    found = list(KINDS["files"](listed(tmp_path / "list.gz", *lines, "f/some other name  s/small")))
    assert sorted(labels for _, labels in found) == [["big"], ["big"], ["small"]]


def test_halves_of_folders(tmp_path):
    names = ("a.h", "b.h", "c.h", "d.h")
    lines = [f"{folder}/{name}  s/{folder}" for folder in ("x", "y") for name in names]
    lines += [f"z/{name}  s/z" for name in (*names[1:], "only.here", "with space")]
    rows = list(KINDS["folders"](listed(tmp_path / "list.gz", *lines)))
    # `a.h` occurs in two folders only, so x, y and z are the same three names.
    ((text, labels),) = rows
    assert sorted([*text.split(","), *labels]) == ["b.h", "c.h", "d.h"]
    assert len(labels) == 2


def test_file_and_refusals(tmp_path):
    out = tmp_path / "out.csv"
    main("files", listed(tmp_path / "list.gz", "f/one two three  s/p"), out)
    with out.open(newline="") as file:
        assert list(csv.reader(file)) == [["text", "labels"], ["one two three", "p"]]
    with pytest.raises(InputError, match="no such file"):
        main("files", tmp_path / "none.gz", out)
