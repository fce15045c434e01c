"""A file with one row per label gets a note at import, and one with rows twice."""

import collections

import numpy as np
import pytest
from command_line import call
from data.documents import write_jsonl

from snm.data.formats.foreign import Row
from snm.importing.writing.repeated_texts import RepeatedTexts


def said_of(tmp_path, capsys, points):
    rows = ({"text": text, "labels": labels} for text, labels in points)
    source = write_jsonl(tmp_path / "in.jsonl", rows)
    call("data", "import", source, "--out", tmp_path / "out")
    return " ".join(capsys.readouterr().out.split())


def test_one_row_per_label(tmp_path, capsys):
    points = [(f"word{i} some", [name]) for i in range(5) for name in ("hw", "net")]
    assert (
        "10 of 10 points repeat the text of another with another label: if a row has one label of "
        "a text, join its rows first"
    ) in said_of(tmp_path, capsys, points)


def test_rows_that_are_there_twice(tmp_path, capsys):
    points = [(f"word{i} some", ["hw", "net"] if i else ["net"]) for i in range(5)] * 2
    assert (
        "10 of 10 points repeat the text of another with the same labels: test points drawn of "
        "them are training points too"
    ) in (said := said_of(tmp_path, capsys, points))
    assert "another label" not in said


@pytest.mark.parametrize("points", [
    [("a saw", ["tool", "hw"]), ("a saw", ["net", "sea"])],  # all labels in a row
    [("", ["tool"]), ("", ["hw"]), ("a saw", ["hw"])],
    [("a saw", ["tool"]), ("a saw", ["hw"]), *((f"word{i}", ["hw"]) for i in range(20))],  # few
])  # fmt: skip
def test_other_points_get_none(tmp_path, capsys, points):
    assert "repeat the text" not in said_of(tmp_path, capsys, points)


def test_the_count_against_brute_force(monkeypatch):
    rng = np.random.default_rng(0)
    points = [(f"text {rng.integers(60)}", f"label {rng.integers(3)}") for _ in range(150)]
    rows = [Row("", text, None, (label,)) for text, label in points]
    labels = collections.defaultdict(set)
    for text, label in points:
        labels[text].add(label)
    repeated = RepeatedTexts()
    for start in range(0, 150, 40):
        repeated.add(rows[start : start + 40])
    count = sum(len(labels[text]) > 1 for text, _ in points)
    assert (repeated.points, repeated.count()) == (150, count)
    equal = sum(points.count(point) > 1 for point in points)
    assert repeated.count_equal() == equal
    assert 0 < count < 150 and 0 < equal < 150
    monkeypatch.setattr("snm.importing.writing.repeated_texts._MOST", 3)
    few = RepeatedTexts()
    few.add([rows[0], rows[0]])
    few.add(rows)
    assert few.points == 3 and RepeatedTexts().count() == RepeatedTexts().count_equal() == 0
