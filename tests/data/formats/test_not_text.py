"""A file that is no text in UTF-8 is refused in one line, which says how to make text of it."""

import bz2
import gzip
import io
import json
import lzma
import zipfile
from pathlib import Path

import pytest

from snm.data.formats.detection import detect
from snm.data.formats.foreign import ReadOptions, read_rows
from snm.data.formats.questions import read_questions
from snm.errors import InputError

ROWS = b"text,labels\na word,x\n"


def zipped(name, seconds=0):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 12, 0, seconds)), ROWS)
    return stream.getvalue()


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".txt"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"ARROW1\0\0\xff\xff\xff\xff", "an Arrow file, expected JSON lines: `pandas.read_f"),
        (zipped("[Content_Types].xml"), "an Office file, expected CSV in UTF-8"),
        (zipped("docProps/app.xml"), "an Office file, expected CSV in UTF-8"),
        # 20 seconds past a full hour have the byte of a newline, before the name.
        (zipped("xl/workbook.xml", seconds=20), "an Office file, expected CSV in UTF-8"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0", "an Office file, expected CSV in UTF-8"),
        (zipped("rows.csv"), "a zip archive, expected the text in it, which `unzip` unpacks"),
        (gzip.compress(ROWS), "gzip data, expected a name ending in .gz, or the text in it"),
        (bz2.compress(ROWS), "bzip2 data, expected the text in it, which `bunzip2 -c` unpacks"),
        (lzma.compress(ROWS), "xz data, expected the text in it, which `xz -dc` unpacks"),
        (b"\x28\xb5\x2f\xfd\x04\x58", "Zstandard data, expected the text in it"),
    ],
    ids=[
        "arrow",
        "xlsx",
        "openpyxl",
        "newline",
        "xls",
        "zip",
        "gzip",
        "bzip2",
        "xz",
        "zstd",
    ],
)
def test_a_file_of_another_program_is_told(tmp_path, suffix, content, said):
    path = tmp_path / f"points{suffix}"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        list(read_rows(path, detect(path, None)))
    assert str(error.value).startswith(f"{path}: found {said}")
    with pytest.raises(InputError) as error:
        list(read_questions(path, num_features=3, of_texts=True, run=Path("run")).texts)
    assert str(error.value).startswith(f"{path}: found {said}")


def test_parquet_is_told_where_only_text_is_read(tmp_path):
    path = tmp_path / "points.txt"
    path.write_bytes(b"PAR1\x15\x04\x15\x16\x15\x1aL\x15")  # as pyarrow begins one
    for form in ("raw", "csv"):
        with pytest.raises(InputError) as error:
            list(read_rows(path, form, ReadOptions(label_file=path)))
        expected = "found a Parquet file, expected JSON lines: `pandas.read_parquet(FILE)"
        assert str(error.value).startswith(f"{path}: {expected}")


def test_a_file_that_is_packed_twice_is_told(tmp_path):
    path = tmp_path / "points.csv.gz"
    path.write_bytes(gzip.compress(gzip.compress(ROWS)))
    expected = "a file that is packed once, which `gunzip -c` makes of it"
    with pytest.raises(InputError) as error:
        list(read_rows(path, "csv"))
    assert str(error.value) == f"{path}: found gzip data in gzip data, expected {expected}"


@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("name", ["UTF-16", "UTF-32"])
def test_wide_characters_have_their_command(tmp_path, name, order):
    """The mark of UTF-32 begins with that of UTF-16."""
    path = tmp_path / "points.csv"
    path.write_bytes(f"\ufeff{ROWS.decode()}".encode(f"{name}-{order}"))
    expected = f"expected UTF-8, as `iconv -f {name} -t UTF-8` makes of {name}"
    with pytest.raises(InputError) as error:
        list(read_rows(path, "csv"))
    assert str(error.value).startswith(f"{path}:1: ") and str(error.value).endswith(expected)


@pytest.mark.parametrize("text", ["PAR1 is a gene", "BZh91AY", "ARROW1", "[x] done", "PK"])
def test_texts_that_begin_alike_are_texts(tmp_path, text):
    path = tmp_path / "points.txt"
    path.write_text(text + "\n")
    points = read_questions(path, num_features=3, of_texts=True, run=Path("run"))
    assert [question.text for question in points.texts] == [text]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("naïve,x\n".encode("latin-1"), "2: found bytes that are not UTF-8 (b'\\xefve,x\\n'), "
         "expected UTF-8, as `iconv -f WINDOWS-1252 -t UTF-8` makes of Western European text"),
        (b"\x80\x04\x95", "2: found bytes that are not UTF-8 (b'\\x80\\x04\\x95'), expected UTF-8"),
        ("é €".encode()[:-1], "2: found bytes that are not UTF-8 (b'\\xe2\\x82'), expected UTF-8"),
        (b"cut \xe2\x82", "2: found bytes that are not UTF-8 (b'\\xe2\\x82'), expected UTF-8"),
    ],
    ids=["latin-1", "pickle", "with UTF-8", "cut"],
)  # fmt: skip
def test_western_text_has_its_command(tmp_path, content, said):
    """No other bytes have it, as it would make nonsense of them."""
    path = tmp_path / "points.csv"
    path.write_bytes(b"text,labels\n" + content)
    with pytest.raises(InputError) as error:
        list(read_rows(path, "csv"))
    assert str(error.value) == f"{path}:{said}"


@pytest.mark.parametrize(
    ("indent", "said"), [(None, "a JSON array"), (1, "the start of a JSON array")]
)
def test_an_array_of_objects_has_its_command(tmp_path, indent, said):
    path = tmp_path / "points.json"
    path.write_text(json.dumps([{"text": "a", "labels": ["b"]}] * 2, indent=indent))
    expected = "one JSON object a line, as `jq -c '.[]'` makes of an array"
    with pytest.raises(InputError) as error:
        list(read_rows(path, "jsonl"))
    assert str(error.value) == f"{path}:1: found {said}, expected {expected}"


def test_an_object_of_several_lines_has_its_command(tmp_path):
    path = tmp_path / "points.json"
    path.write_text(json.dumps({"text": "a", "labels": ["b"]}, indent=1))
    with pytest.raises(InputError, match=r"points.json:1: found no JSON .* as `jq -c \.` makes of"):
        list(read_rows(path, "jsonl"))
