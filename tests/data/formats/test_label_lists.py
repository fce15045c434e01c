"""Cells of labels that are lists, as JSON, Python and pandas write them."""

import csv
import json

import pytest
from command_line import call, refused
from data.documents import read
from hypothesis import given
from hypothesis import strategies as st

from snm.data.formats.label_lists import parse_list

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ITEMS = st.lists(st.one_of(TEXT, st.integers()), max_size=4)


@given(ITEMS)
def test_what_json_and_python_write_is_read_back(items):
    names = [str(item) for item in items]
    for cell in (json.dumps(items), json.dumps(items, ensure_ascii=False), str(items),
                 str(tuple(items)), f" {items} "):  # fmt: skip
        assert parse_list(cell) == names
    assert sorted(parse_list(str(set(items)))) == sorted(map(str, set(items)))


@pytest.mark.parametrize("cell", [
    "", "a", "[a]", "[a, b]", "['a' 'b']", "['a'", "['a', b]", "['a'] + ['b']", "[['a']]", "('a')",
    "(1)", "{}", "{'a': 1}", "[1.5]", "[None]", "[nan, 'a']", "[, 'a']", "['a',, 'b']", "[,]",
    "[np.str_('a')]", "array(['a'])", "[__import__('os')]", "['\\ud800']", '["\\ud800"]',
    "['\\d']", "['a\\\n']", "[b'a']", "[f'{1}']", "['a'", "[1 2]", "[True]", "[",
])  # fmt: skip
def test_other_texts_are_no_lists(cell):
    assert parse_list(cell) is None


def test_long_cells_take_linear_time():
    """Quadratic time would be minutes; these take parts of a second."""
    count = 10**5
    assert parse_list("['" + "a" * count + "']") == ["a" * count]
    assert parse_list("['" + r"\\" * count + "']") == ["\\" * count]
    assert parse_list("[" + "'a'," * count + "]") == ["a"] * count
    for start, repeated, end in ("['", "a", "]"), ("['", r"\'", "]"), ("[", "'a',", ",]"):
        assert parse_list(start + repeated * count + end) is None


def write(path, cells):
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["", "text", "labels"])  # as pandas does with an index
        rows.writerows([number, "some words", cell] for number, cell in enumerate(cells))
    return path


@pytest.mark.parametrize("form", [str, json.dumps, lambda names: str(tuple(names))])
def test_lists_in_csv(tmp_path, capsys, form):
    names = [["hw", "a, b"], [], ["hw"]]
    source = write(tmp_path / "in.csv", ["", *map(form, names)])
    call("data", "import", source, "--out", tmp_path / "out")
    _, rows = read(tmp_path / "out")
    assert rows == [[], ["a, b", "hw"], [], ["hw"]]
    said = " ".join(capsys.readouterr().out.split())
    assert f"cells of 'labels' are lists such as {form(names[0])}: each item is a label" in said
    assert "most labels" not in said


def test_a_list_in_a_text_of_json_lines_is_refused_with_its_items(tmp_path, capsys):
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps({"text": "a saw", "labels": "['hw', 'net']"}) + "\n")
    said = refused(capsys, "data", "import", source, "--out", tmp_path / "out")
    assert 'expected a list: ["hw", "net"] for several labels' in said


def test_a_text_among_lists_is_refused(tmp_path, capsys):
    source = write(tmp_path / "in.csv", ["['hw']", "", "net"])
    said = refused(capsys, "data", "import", source, "--out", tmp_path / "out")
    assert f"{source}:4: found labels: 'net', expected a list of labels" in said


@pytest.mark.parametrize("cells, example", [
    (["['hw' 'net']", "['hw']"], "\"['hw' 'net']\""),
    (["[np.str_('hw'), np.str_('net')]"], "\"[np.str_('hw')\""),
    (["[1 2]", "[1]"], "'[1 2]'"),
    (["array(['a'])", "frozenset({'b'})"], "\"array(['a'])\""),
    (["['hw', None]", "[nan, 'net']"], "\"['hw'\""),
])  # fmt: skip
def test_other_lists_get_a_hint(tmp_path, capsys, cells, example):
    source = write(tmp_path / "in.csv", cells)
    call("data", "import", source, "--out", tmp_path / "out")
    said = " ".join(capsys.readouterr().out.split())
    assert f"most labels look like pieces of lists, such as {example}: write lists of" in said


def test_brackets_are_read_as_they_are_if_a_separator_is_given(tmp_path, capsys):
    source = write(tmp_path / "in.csv", ["['hw', 'net']", "[red]"])
    call("data", "import", source, "--out", tmp_path / "out", "--label-separator", ",")
    _, rows = read(tmp_path / "out")
    assert rows == [["'net']", "['hw'"], ["[red]"]]
    assert "most labels look like pieces of lists" in " ".join(capsys.readouterr().out.split())
