"""Import formats are one table: a registered format is detected and read like a built-in one."""

import subprocess
import sys

import pytest

from snm.data.formats.detection import detect
from snm.data.formats.foreign import READERS, Reader, Row, read_rows
from snm.data.formats.records import numbered_lines
from snm.errors import InputError


def read_tabbed(path, options):
    """Lines `label|label<TAB>text`."""
    for number, line in numbered_lines(path):
        where = f"{path}:{number}"
        labels, tab, text = line.partition("\t")
        if not tab:
            raise InputError(where, "a line without a tab", "labels, a tab, and the text")
        yield Row(where, text, None, tuple(labels.split("|")))


@pytest.fixture
def tabbed(monkeypatch):
    reader = Reader(read_tabbed, suffixes=(".tabbed",), matches=lambda line: "|" in line)
    monkeypatch.setitem(READERS, "tabbed", reader)


@pytest.mark.parametrize("name", ["points.tabbed", "points.txt"])
def test_a_registered_format_is_detected_and_read(tmp_path, tabbed, name):
    path = tmp_path / name
    path.write_text("fruit|red| fruit\tan apple\ntool|\ta saw\n")
    assert detect(path, label_file=None) == "tabbed"
    rows = [(row.text, row.labels) for row in read_rows(path, "tabbed")]
    assert rows == [("an apple", ("fruit", "red")), ("a saw", ("tool",))]
    path.write_text("fruit\tan apple\nno tab\n")
    with pytest.raises(InputError, match=rf"{name}:2: found a line without a tab"):
        list(read_rows(path, "tabbed"))


@pytest.mark.parametrize(
    ("first_line", "expected"),
    [
        ('{"text": "x", "labels": []}', "jsonl"),
        ('{"text": "__label__a", "labels": []}', "fasttext"),
        ("__label__a some words", "fasttext"),
        ("__label__a 1:2", "fasttext"),
        ("3,4 1:0.5", "svmlight"),
    ],
)
def test_detect_by_the_first_line(tmp_path, first_line, expected):
    path = tmp_path / "points.txt"
    path.write_text(first_line + "\n")
    assert detect(path, label_file=None) == expected
    assert detect(path, label_file=path) == expected


def test_a_label_file_means_raw_text_and_suffixes_come_first(tmp_path):
    path = tmp_path / "points.txt"
    path.write_text("plain words\n")
    assert detect(path, label_file=path) == "raw"
    with pytest.raises(
        InputError, match="format, one of jsonl, csv, parquet, raw, fasttext, svmlight"
    ):
        detect(path, label_file=None)
    path.write_text("3 4 5\n1 2:1\n")  # of a data set
    with pytest.raises(
        InputError, match=r"expected a folder with it as train\.txt, which needs no"
    ):
        detect(path, label_file=None)
    for name, expected in (("a.JSON.gz", "jsonl"), ("a.tsv", "csv"), ("a.libsvm", "svmlight")):
        assert detect(tmp_path / name, label_file=None) == expected


def test_a_file_with_a_header_of_features_is_no_svmlight(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("2 5 4\n0,1 0:1\n3 1:2\n")
    for form in (detect, lambda path, _: next(read_rows(path, "svmlight"))):
        with pytest.raises(InputError, match=r"'2 5 4', a header of features.* needs no import"):
            form(path, None)


def test_the_table_needs_no_large_package():
    code = "import sys, snm.data.formats.foreign; print({'numpy', 'pyarrow'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "set()\n"


def test_a_name_of_several_lines_is_told_in_one(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('"te\nxt","x\u2028y"\na,b\n')
    with pytest.raises(InputError, match=r"no column 'text' among te\\nxt, x\\u2028y") as error:
        list(read_rows(path, "csv"))
    assert len(str(error.value).splitlines()) == 1 == len(error.value.as_flags.splitlines())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"text": "a", "labels": ["b"], "text": "c"}', "field 'text' twice"),
        ('{"text": "a", "labels": ["b"], "n": {"x": 1, "x": 1}}', "field 'x' twice"),
    ],
)
def test_a_field_twice_is_refused(tmp_path, line, said):
    path = tmp_path / "points.jsonl"
    # A number that is missing, which nobody reads, is no fault.
    path.write_text('{"text": "a", "labels": ["b"], "n": NaN}\n' + line + "\n")
    with pytest.raises(InputError) as error:
        list(read_rows(path, "jsonl"))
    assert str(error.value) == f"{path}:2: found {said}, expected each field once"


def test_a_byte_order_mark_is_no_part_of_a_label(tmp_path):
    """The first label's name begins a file, whose reader drops the mark."""
    path = tmp_path / "points.jsonl"
    path.write_text('{"text": "a", "labels": ["\\ufeffx", "x", "\\ufeff"]}\n')
    assert next(read_rows(path, "jsonl")).labels == ("x",)


def test_a_single_label_needs_no_list(tmp_path):
    path = tmp_path / "points.jsonl"
    path.write_text('{"text": "a", "labels": 3}\n{"text": "b", "labels": "x y"}\n')
    assert [row.labels for row in read_rows(path, "jsonl")] == [("3",), ("x y",)]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("3.5", 'found 3.5, a decimal number, in "labels"'),
        ("[1, 2.0]", 'found 2.0, a decimal number, in the list "labels"'),
        ("true", 'found true in "labels"'),
        ('["a", null]', 'found null in the list "labels"'),
        ('[["a"]]', 'found a list in the list "labels"'),
        ('{"a": 1}', 'found an object in "labels"'),
        ("[1.5]", 'expected "labels": ["a", "b"], or whole numbers such as [3, 17]'),
        ('"x, y"', "found a text with ',' in \"labels\""),
        ('"x, y"', 'expected a list: ["x", "y"] for several labels, ["x, y"] for one'),
        ('"x, y,"', 'expected a list: ["x", "y"] for several labels, ["x, y,"] for one'),
        ('"x,"', 'expected a list: ["a", "b"] for several labels, ["x,"] for one'),
        ('","', 'expected a list: ["a", "b"] for several labels, [","] for one'),
        (f'"{"x" * 99}; y"', 'expected a list such as "labels": ["a", "b"]'),
    ],
)
def test_what_is_no_label_is_told_with_an_example(tmp_path, value, said):
    path = tmp_path / "points.jsonl"
    path.write_text(f'{{"text": "a", "labels": {value}}}\n')
    with pytest.raises(InputError) as error:
        list(read_rows(path, "jsonl"))
    assert str(error.value).startswith(f"{path}:1: ") and said in str(error.value)


def test_null_is_no_text_and_no_label(tmp_path):
    path = tmp_path / "points.jsonl"
    path.write_text('{"text": "a", "labels": null}\n{"text": null, "labels": ["b"]}\n')
    rows = list(read_rows(path, "jsonl"))
    assert [(row.text, row.labels) for row in rows] == [("a", ()), ("", ("b",))]
    path.write_text('{"text": "a"}\n')
    with pytest.raises(InputError, match="no 'labels' among 'text'"):
        list(read_rows(path, "jsonl"))


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_columns_are_apart_by_what_the_header_has(tmp_path, mark):
    """The first of these that it has; a row may hold the others."""
    path = tmp_path / "points.csv"
    path.write_text(f'text{mark}labels\na b{mark}"x,y"\n')
    assert [row.labels for row in read_rows(path, "csv")] == [("x", "y")]
    path.write_text(f'"old, new; both"{mark}text{mark}labels\n1{mark}a{mark}x\n')
    assert [row.labels for row in read_rows(path, "csv")] == [("x",)]


def test_a_row_of_several_lines_is_named_by_its_first(tmp_path):
    """As the editor shows it; the header and the blank line count too."""
    path = tmp_path / "points.csv"
    path.write_text('"text",labels\n"one\ntwo\nthree",a\n\n"four\nfive",b\n')
    assert [row.where for row in read_rows(path, "csv")] == [f"{path}:2", f"{path}:6"]
    path.write_text('text,labels\n"one\ntwo",a,b\n')
    with pytest.raises(InputError, match=r"points\.csv:2: found 3 fields, expected 2"):
        list(read_rows(path, "csv"))


def test_utf_16_is_told(tmp_path):
    path = tmp_path / "points.csv"
    path.write_text("text,labels\na,b\n", encoding="utf-16")
    with pytest.raises(InputError, match=r"points.csv:1: found bytes .* expected UTF-8, as `iconv"):
        list(read_rows(path, "csv"))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.fasttext"])
def test_a_nul_byte_is_refused(tmp_path, name):
    """It would part a word in two."""
    path = tmp_path / name
    path.write_bytes(b"text,labels\nbel\0ow,a\n")
    with pytest.raises(InputError, match=f"{name}:2: found a NUL byte, expected text"):
        list(numbered_lines(path))


def test_labels_that_look_the_same_are_one(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,labels\none,"caf\u00e9,cafe\u0301,cafe"\n', encoding="utf-8")
    (row,) = read_rows(path, "csv")
    assert row.labels == ("caf\u00e9", "cafe")


@pytest.mark.parametrize("header", [
    "text;labels;price, EUR", "text\tlabels\tprice, EUR; net", "text,labels,price; EUR",
    'text;labels;"price, EUR"',
])  # fmt: skip
def test_the_delimiter_that_makes_the_wanted_columns(tmp_path, header):
    mark = header[4]
    path = tmp_path / "in.csv"
    path.write_text(f'{header}\na saw{mark}"hardware,net"{mark}3\n')
    rows = [(row.text, row.labels) for row in read_rows(path, "csv")]
    assert rows == [("a saw", ("hardware", "net"))]


def test_no_delimiter_makes_the_wanted_columns(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("title;labels;price, EUR\na saw;tool;3\n")
    with pytest.raises(InputError, match="no column 'text' among title;labels;price,  EUR"):
        list(read_rows(path, "csv"))
    path.write_text("text;la\rbels;price, EUR\na saw;tool;3\n")
    with pytest.raises(InputError, match="a carriage return in the header"):
        list(read_rows(path, "csv"))
