"""Text formats: exact values, and a one-line error for every fault."""

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from data.formats.text_files import GOOD, written
from hypothesis import given, settings
from hypothesis import strategies as st
from real_data import real_data_folder

from snm.data.formats.feature_files import iter_features
from snm.data.formats.repository_text import errors
from snm.data.formats.repository_text.parser import parse_block
from snm.data.formats.repository_text.reader import TextReader, read_pair, read_text
from snm.errors import InputError


def brute_force(path):
    """Parses the one-file form in plain Python into dense arrays."""
    lines = Path(path).read_text().split("\n")
    n, d, k = map(int, lines[0].split())
    features, labels = np.zeros((n, d), np.float32), np.zeros((n, k), np.float32)
    for row, line in enumerate(lines[1 : n + 1]):
        front, *pairs = line.split(" ")
        labels[row, [int(label) for label in front.split(",") if label]] = 1
        for index, value in (pair.split(":") for pair in pairs if pair):
            features[row, int(index)] = value
    return features, labels


def test_reads_the_one_file_form(tmp_path):
    features, labels = read_text(written(tmp_path, GOOD))
    assert features.dtype == labels.dtype == np.float32
    assert features.toarray().tolist() == [[1, 0, 0, 0, 2.5], [0, 0, 1, 0, 0], [0] * 5]
    assert labels.toarray().tolist() == [[0, 1, 0, 1], [0] * 4, [1, 0, 0, 0]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 5 4\n3,1 4:2 0:1\n", "ids out of order"),
        ("1 5 4\r\n1,3 0:1 4:2\r\n", "Windows line ends"),
        ("1 5 4\n1,3 0:1  4:2 \n", "spaces doubled and at the end"),
        ("1 5 4\n1,3\t0:1\t4:2\n", "tabs"),
        ("1 5 4\n1,3 0:1 4:2", "no last line end"),
        ("1 5 4\n001,3 00:1.0 4:20e-1\n", "other spellings of the numbers"),
        ("1 5 4\n1,3 0:+1 4:.2E1\n", "signs and bare fractions"),
    ],
)
def test_spellings_of_the_same_row(tmp_path, text, why):
    features, labels = read_text(written(tmp_path, text))
    assert features.indices.tolist() == [0, 4], why
    assert features.data.tolist() == [1, 2], why
    assert labels.indices.tolist() == [1, 3], why


VALUES = [
    *("0", "1", "-1", "0.5", ".5", "5.", "-.25", "1.000000", "0.0276331", "123456.789"),
    *("1e-3", "-2.5E+7", "0.1234567890123456789", "16777217", "12345678901234567890", "1e-60"),
    *("3.4028234e38", "999999999999999", "0.000000000000001", "99999999.99999999", "1e38"),
]


def test_values_equal_those_of_python_float(tmp_path):
    row = " ".join(f"{index}:{value}" for index, value in enumerate(VALUES))
    features, _ = read_text(written(tmp_path, f"1 {len(VALUES)} 1\n0 {row}\n"))
    expected = np.array([float(value) for value in VALUES]).astype(np.float32)
    assert features.data.tobytes() == expected[expected != 0].tobytes()


@settings(deadline=None)
@given(st.lists(st.from_regex(r"[0-9]{0,12}\.?[0-9]{1,12}", fullmatch=True), min_size=1))
def test_every_decimal_is_read_as_python_reads_it(numbers):
    text = "0 " + " ".join(f"{i}:{number}" for i, number in enumerate(numbers)) + "\n"
    block = parse_block(text.encode(), errors.ONE_FILE, len(numbers), 1)
    assert block is not None
    expected = np.array([float(number) for number in numbers]).astype(np.float32)
    assert block.values.tobytes() == expected.tobytes()


ERRORS = [
    # text, line, found, expected
    ("", 1, "an empty file", "a header `points features labels`"),
    ("1,2 0:1 1:1\n", 1, "'1,2 0:1 1:1'", "a header"),
    ("\n1 0:1\n", 1, "''", "a header"),
    ("3 5\n", 1, "2 numbers", "a header"),
    ("3 5 4 1\n", 1, "4 numbers", "a header"),
    ("3 -5 4\n", 1, "'3 -5 4'", "a header"),
    ("0 5 4\n", 1, "0 points", "at least 1"),
    ("1 5 0\n0 0:1\n", 1, "0 labels", "at least 1"),
    ("1 5000000000 4\n0 0:1\n", 1, "5000000000 features", "at most 2147483647"),
    ("3 99999999999999999999 5\n", 1, "99999999999999999999 features", "at most 2147483647"),
    (f"{10**20} 3 5\n", 1, f"{10**20} points", "at most 9999999999999999"),
    ("x" * 5000, 1, "'xxx", "a header"),
    ("2 5 4\n0 0:1\n1 5:1\n", 3, "feature index 5", "an index from 0 to 4"),
    ("2 5 4\n0 0:1\n4 0:1\n", 3, "label index 4", "an index from 0 to 3"),
    ("2 5 4\n0 99999999999999999999:1\n1 0:1\n", 2, "feature index '9999", "an index"),
    ("2 5 4\n0 0:1\n1 -1:1\n", 3, "negative feature index -1", "an index from 0 to 4"),
    ("2 5 4\n0 0:1\n1,-2 1:1\n", 3, "negative label index -2", "an index from 0 to 3"),
    ("2 5 4\n0 0:1\n1 a:1\n", 3, "feature index 'a'", "an index"),
    ("2 5 4\n0 0:1\n1 1.5:1\n", 3, "feature index '1.5'", "an index"),
    ("2 5 4\n0 0:1\n1.0 1:1\n", 3, "label index '1.0'", "an index"),
    ("2 5 4\n0 0:1\n1,x 1:1\n", 3, "label index 'x'", "an index"),
    ("2 5 4\n0 0:1\n1,,2 1:1\n", 3, "label index ''", "an index"),
    ("2 5 4\n0 0:1\n1, 1:1\n", 3, "label index ''", "an index"),
    ("2 5 4\n0 0:1\n1, 2 1:1\n", 3, "label index ''", "an index"),
    ("2 5 4\n0 0:1\n1:1 2:1\n", 3, "'1:1' at the start", "a space in a row without labels"),
    ("2 5 4\n0 0:1\n1 :1\n", 3, "feature index ''", "an index"),
    ("2 5 4\n0 0:1\n1 1:\n", 3, "value ''", "a number"),
    ("2 5 4\n0 0:1\n1 1: 2\n", 3, "value ''", "a number"),
    ("2 5 4\n0 0:1\n1 1:2:3\n", 3, "value '2:3'", "a number"),
    ("2 5 4\n0 0:1\n1 1:2,3\n", 3, "value '2,3'", "a number"),
    ("2 5 4\n0 0:1\n1 1:abc\n", 3, "value 'abc'", "a number"),
    ("2 5 4\n0 0:1\n1 1:1_0\n", 3, "value '1_0'", "a number"),
    ("2 5 4\n0 0:1\n1 1:1.2.3\n", 3, "value '1.2.3'", "a number"),
    ("2 5 4\n0 0:1\n1 1:.\n", 3, "value '.'", "a number"),
    ("2 5 4\n0 0:1\n1 1:0x1\n", 3, "value '0x1'", "a number"),
    ("2 5 4\n0 0:1\n1 1:2\r 2:1\n", 3, "value '2\\r'", "a number"),
    ("2 5 4\n0 0:1\n1 1:2\f2:1\n", 3, "value '2\\x0c2:1'", "a number"),
    ("2 5 4\n0 0:1\n1 7\n", 3, "'7'", "a pair feature:value"),
    ("2 5 4\n0 0:1\n1 1:nan\n", 3, "value 'nan'", "a finite"),
    ("2 5 4\n0 0:1\n1 1:-Inf\n", 3, "value '-Inf'", "a finite"),
    ("2 5 4\n0 0:1\n1 1:1e39\n", 3, "value '1e39'", "a finite float32 number"),
    ("2 5 4\n0 0:1\n1 1:1e999\n", 3, "value '1e999'", "a finite"),
    ("3 5 4\n0 0:1\n1 1:1\n", 4, "the end of the file after 2 rows", "3 rows, as the header"),
    ("9999999999999999 5 4\n0 0:1\n", 3, "the end of the file after 1 rows", "9999999999999999"),
    ("1 5 4\n0 0:1\n1 1:1\n", 3, "row 2", "1 rows, as the header says"),
    ("1 5 4\n0 0:1\n \n", 3, "row 2", "1 rows, as the header says"),
    ("1 5 4\n0 0:1\n\n1 1:1\n", 3, "row 2", "1 rows, as the header says"),
    ("2 5 4\n0 0:1\n1 1:1 3:1 1:2\n", 3, "feature 1 twice", "each feature once in a row"),
    ("2 5 4\n0 0:1\n1,2,1 1:1\n", 3, "label 1 twice", "each label once in a row"),
    (b"2 5 4\n0 0:1\n\xff\xfe\x00 1:1\n", 3, "bytes that are not text", "text"),
    (b"\x1f\x8b\x08\x00\x00rubbish", 1, "'", "a header"),
    ("2 5 4\n0 0:1\n\0 1:1\n", 3, "label index '\\x00'", "an index"),
]


@pytest.mark.parametrize(("text", "line", "found", "expected"), ERRORS)
def test_errors_name_file_and_line(tmp_path, text, line, found, expected):
    path = written(tmp_path, text)
    reads = [read_text]
    if text != "3 5\n":  # a header of two numbers is welcome where features alone are
        reads.append(lambda path: list(iter_features(path, 5, 1)))
    for read in reads:
        with pytest.raises(InputError) as caught:
            read(path)
        assert caught.value.where == f"{path}:{line}"
        assert caught.value.found.startswith(found)
        assert expected in caught.value.expected
        assert "\n" not in str(caught.value)


GRAMMAR = st.text(st.sampled_from("0123456789,::. -+e\t\r_\x00aé"), max_size=30)
PIECE = st.sampled_from(["1", "0,2", "3", " ", "0:1", "4:2.5", "2:1e1", "1:-1", ",", ":", "5:1"])
ROWS = st.lists(GRAMMAR | st.lists(PIECE).map("".join) | st.lists(PIECE).map(" ".join), min_size=1)


@settings(max_examples=400, deadline=None)
@given(ROWS, st.sampled_from([errors.ONE_FILE, errors.FEATURES, errors.LABELS]))
def test_explain_finds_a_fault_exactly_where_parse_block_refuses(tmp_path_factory, rows, form):
    header = errors.Header(len(rows), 5, 5)
    numbers = [len(rows), *[5] * (len(form.header) - 1)]
    body = "\n".join(rows) + "\n"
    path = tmp_path_factory.getbasetemp() / "fuzz.txt"
    path.write_bytes(f"{' '.join(map(str, numbers))}\n{body}".encode())
    try:
        list(TextReader(path, form).blocks())
    except InputError as error:
        line = int(error.where.rpartition(":")[2])
        # The line alone gives the same fault, and the lines before it have none.
        with pytest.raises(InputError, match=re.escape(error.found)):
            errors.explain(path, 2, rows[line - 2].encode() + b"\n", form, header)
        body = "".join(f"{row}\n" for row in rows[: line - 2])
    if body:
        with pytest.raises(AssertionError, match="nothing is wrong"):
            errors.explain(path, 2, body.encode(), form, header)


def test_line_numbers_are_right_in_later_blocks(tmp_path, monkeypatch):
    rows = [f"{i % 7} {i % 11}:1 {11 + i % 13}:0.25" for i in range(5000)]
    rows[3210] = "1 3:1 3:2"
    path = written(tmp_path, "5000 24 7\n" + "\n".join(rows) + "\n")
    for block_bytes in (50, 1000, 1 << 20):
        monkeypatch.setattr("snm.data.formats.repository_text.reader._BLOCK_BYTES", block_bytes)
        with pytest.raises(InputError, match=r"train\.txt:3212: found feature 3 twice"):
            read_text(path)


@pytest.mark.parametrize("block_bytes", [1, 7, 64, 1 << 20])
def test_the_block_size_does_not_matter(tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr("snm.data.formats.repository_text.reader._BLOCK_BYTES", block_bytes)
    path = written(tmp_path, "4 5 4\n1,3 4:1 0:2.5\n \n\n2 3:1e1")
    features, labels = read_text(path)
    expected_features, expected_labels = brute_force(path)
    assert np.array_equal(features.toarray(), expected_features)
    assert np.array_equal(labels.toarray(), expected_labels)


BLANK_ENDS = ["\n", "\r\n", "\n\r\n\n", "\n" * 100]


@pytest.mark.parametrize("block_bytes", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("end", BLANK_ENDS)
def test_blank_lines_after_the_last_point_are_the_end(tmp_path, monkeypatch, end, block_bytes):
    """A blank line inside is a point, as the second one here."""
    monkeypatch.setattr("snm.data.formats.repository_text.reader._BLOCK_BYTES", block_bytes)
    path = written(tmp_path, f"3 5 4\n1,3 4:1 0:2.5\n\n2 3:1e1\n{end}")
    features, labels = read_text(path)
    expected_features, expected_labels = brute_force(path)
    assert np.array_equal(features.toarray(), expected_features)
    assert np.array_equal(labels.toarray(), expected_labels)
    pieces = list(iter_features(path, 5, 2))
    assert [piece.shape[0] for piece in pieces] == [2, 1]
    assert np.array_equal(np.vstack([piece.toarray() for piece in pieces]), expected_features)


@pytest.mark.parametrize("end", BLANK_ENDS)
def test_blank_lines_after_the_last_point_of_a_pair(tmp_path, end):
    inputs = written(tmp_path, f"2 5\n4:2.5 0:1\n\n{end}", "trn_X_Xf.txt")
    targets = written(tmp_path, f"2 4\n3:1\n0:1\n{end}", "trn_X_Y.txt")
    features, labels = read_pair(inputs, targets)
    assert features.toarray().tolist() == [[1, 0, 0, 0, 2.5], [0] * 5]
    assert labels.toarray().tolist() == [[0, 0, 0, 1], [1, 0, 0, 0]]


@pytest.mark.parametrize("name", ["train.txt", "train.txt.gz"])
def test_a_byte_order_mark_is_skipped(tmp_path, name):
    """Editors and spreadsheets begin UTF-8 files with it."""
    path = written(tmp_path, b"\xef\xbb\xbf" + GOOD.encode(), name)
    features, labels = read_text(path)
    assert features.toarray().tolist() == [[1, 0, 0, 0, 2.5], [0, 0, 1, 0, 0], [0] * 5]
    assert labels.toarray().tolist() == [[0, 1, 0, 1], [0] * 4, [1, 0, 0, 0]]
    (again,) = iter_features(path, 5, 4)
    assert np.array_equal(again.toarray(), features.toarray())


def test_truncated_gzip_names_the_line_it_breaks_off_in(tmp_path):
    # gzip level 0 stores bytes uncompressed, so the bytes before the cut are intact.
    text = "900 9 9\n" + "".join(f"{i % 9} {i % 9}:{i}.5\n" for i in range(900))
    whole = gzip.compress(text.encode(), compresslevel=0)
    path = tmp_path / "train.txt.gz"
    head = whole.index(b"900 9 9")
    cut = whole.index(b"4 4:400.5")
    path.write_bytes(whole[: cut + 3])
    line = whole[head:cut].count(b"\n") + 1
    with pytest.raises(InputError, match="truncated gzip") as caught:
        read_text(path)
    assert caught.value.where == f"{path}:{line}" == f"{path}:402"
    path.write_bytes(whole[:cut] + b"5" + whole[cut + 1 :])
    with pytest.raises(InputError, match="damaged gzip data"):
        read_text(path)
    path.write_text("not gzip at all")
    with pytest.raises(InputError, match="damaged gzip data"):
        read_text(path)


def test_no_such_file(tmp_path):
    for name in ("no.txt", "no.txt.gz"):
        with pytest.raises(InputError, match="no such file"):
            read_text(tmp_path / name)
    for name in ("no.npz", "no.npy", "no.txt"):
        with pytest.raises(InputError, match="no such file"):
            list(iter_features(tmp_path / name, 5, 2))


def test_a_refused_block_without_a_fault_is_a_bug(tmp_path):
    header = errors.Header(3, 5, 4)
    with pytest.raises(AssertionError, match="nothing is wrong"):
        errors.explain(tmp_path, 2, b"1,3 0:1\n 2:1\n", errors.ONE_FILE, header)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_reads_the_pair(tmp_path, suffix):
    inputs = written(tmp_path, "3 5\n4:2.5 0:1\n\n 2:-1\n", f"trn_X_Xf.txt{suffix}")
    targets = written(tmp_path, "3 4\n3:1 1:1.0\n0:1\n\n", f"trn_X_Y.txt{suffix}")
    features, labels = read_pair(inputs, targets)
    assert features.toarray().tolist() == [[1, 0, 0, 0, 2.5], [0] * 5, [0, 0, -1, 0, 0]]
    assert labels.toarray().tolist() == [[0, 1, 0, 1], [1, 0, 0, 0], [0] * 4]


def test_errors_of_the_pair(tmp_path):
    inputs = written(tmp_path, "2 5\n4:1\n0:1\n", "trn_X_Xf.txt")
    for text, line, message in [
        ("3 4\n0:1\n1:1\n2:1\n", 1, "found a header of 3 rows, expected 2"),
        ("2 4\n0:1\n1:0.5\n", 3, "found label value '0.5', expected 1"),
        ("2 4\n0:1\n4:1\n", 3, "found label index 4, expected an index from 0 to 3"),
        ("2 4\n0:1 0:1\n1:1\n", 2, "found label 0 twice"),
        ("2 4\n0:1\n1\n", 3, "found '1', expected a pair label:value"),
        ("2 5 4\n0:1\n1:1\n", 1, "found 3 numbers"),
    ]:
        targets = written(tmp_path, text, "trn_X_Y.txt")
        with pytest.raises(InputError, match=re.escape(f"trn_X_Y.txt:{line}: {message}")):
            read_pair(inputs, targets)


@pytest.mark.parametrize("name", ["delicious", "citeulike-t-14k", "gowalla"])
def test_real_text_equals_a_brute_force(name):
    path = real_data_folder(name) / "test.txt"
    features, labels = read_text(path)
    lines = path.read_text().split("\n")
    for row in range(0, features.shape[0], 97):
        front, *pairs = lines[row + 1].split(" ")
        entries = sorted((int(i), float(v)) for i, v in (pair.split(":") for pair in pairs))
        assert features[row].indices.tolist() == [i for i, _ in entries]
        assert features[row].data.tolist() == [v for _, v in entries]
        assert labels[row].indices.tolist() == sorted(int(i) for i in front.split(",") if i)
