"""Rows of Parquet are read as those of JSON lines are; a faulty file is told in one line."""

import base64
import datetime
import gzip
import os
import pickle
import random
import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import call, contents, refused
from data.documents import LABELS, TEXTS, data_set, write_jsonl
from data.logs import log, write_csv
from pyarrow.parquet import encryption

from snm.data.formats.detection import detect
from snm.data.formats.foreign import read_rows
from snm.data.formats.parquet import read_parquet
from snm.errors import InputError

ROWS = [
    {"text": None if row == 3 else text, "labels": names, "first": (names or [None])[0],
     "number": row % 7, "weight": (0.5, 1.0, 3.0)[row % 3]}
    for row, (text, names) in enumerate(zip(TEXTS, [*LABELS[:-1], []], strict=True))
]  # fmt: skip
TABLE = pa.Table.from_pylist(ROWS)


def encoded(table, column, kind):
    """The table with another type of a column."""
    place = table.schema.get_field_index(column)
    return table.set_column(place, column, table[column].cast(kind))


WORDS = pa.dictionary(pa.int32(), pa.string())
WRITTEN = {
    "plain": (TABLE, {}),
    "row groups": (TABLE, dict(row_group_size=7, data_page_size=64, compression="zstd")),
    "no dictionary": (TABLE, dict(use_dictionary=False, compression=None)),
    "pages of version 2": (TABLE, dict(data_page_version="2.0", write_page_checksum=True)),
    "large texts": (encoded(TABLE, "text", pa.large_string()), {}),
    "views": (encoded(TABLE, "text", pa.string_view()), {}),
    "dictionaries": (encoded(encoded(TABLE, "text", WORDS), "first", WORDS), {}),
    "large lists": (encoded(TABLE, "labels", pa.large_list(pa.large_string())), {}),
    "other numbers": (
        encoded(encoded(TABLE, "number", pa.uint8()), "weight", pa.decimal128(4, 2)),
        dict(compression="gzip"),
    ),
    "Spark": (TABLE, dict(flavor="spark", store_schema=False)),
}
OPTIONS = {
    "lists": ("--test-fraction", 0.3, "--weight-column", "weight"),
    "numbers": ("--labels", "number"),
    "columns": ("--labels", "labels", "first", "--text", "text", "first"),
    "items": ("--text", "labels", "--labels", "first", "--same-items"),
}


def written(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def imported(source, out, *options):
    call("data", "import", source, "--out", out, *options)
    return data_set(out)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_data_set_is_that_of_json_lines_to_the_bit(tmp_path, options):
    lines = write_jsonl(tmp_path / "points.jsonl", ROWS)
    expected = imported(lines, tmp_path / "of lines", *OPTIONS[options])
    assert expected["train.txt"] and expected["labels.txt"]
    for name, (table, how) in WRITTEN.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(table, path, **how)
        assert imported(path, tmp_path / name, *OPTIONS[options]) == expected, name


def test_a_file_is_known_by_its_bytes_or_its_name(tmp_path):
    path = written(tmp_path / "points", text=["a"], labels=["x"])
    for name in ("b.csv", "b.PARQUET", "b"):
        path = path.rename(tmp_path / name)
        assert detect(path, label_file=None) == "parquet"
    assert detect(tmp_path / "none.parquet", label_file=None) == "parquet"
    path.write_text("PAR1 is a gene\n")
    assert detect(path, label_file=path) == "raw"


def test_names_of_the_classes_of_a_hub_data_set(tmp_path, capsys):
    points = written(tmp_path / "points.parquet", text=["red saw", "saw", "red"], label=[2, 0, 2])
    (tmp_path / "names.txt").write_text("neg\npos\nother\n")
    written(tmp_path / "names.parquet", name=["neg", "pos", "other"])
    options = ("--labels", "label", "--label-names")
    expected = imported(points, tmp_path / "a", *options, tmp_path / "names.txt")
    assert expected["labels.txt"] == b"neg\npos\nother\n"
    names = (tmp_path / "names.parquet", "--label-name-field", "name")
    assert imported(points, tmp_path / "b", *options, *names) == expected
    command = ("data", "import", points, "--out", tmp_path / "c", *options)
    said = refused(capsys, *command, *names[:2], "title")
    assert said.startswith(f"{names[0]}: found no column 'title' among name")


@pytest.mark.parametrize("kind", ["s", "ns", "zone", "day", "number"])
def test_a_log_is_that_of_csv(tmp_path, kind):
    begin, zone = datetime.datetime(2026, 1, 31), "Europe/Berlin"
    rows = [(user, item, begin + datetime.timedelta(hours=at)) for user, item, at in log()]
    at = [time for *_, time in rows]
    spelled = [time.isoformat() for time in at]
    column = pa.array(at, pa.timestamp("ns" if kind == "ns" else "s"))
    if kind == "zone":
        column, spelled = column.cast(pa.timestamp("us")), [f"{time}+00:00" for time in spelled]
        column = column.cast(pa.timestamp("us", zone))  # as UTC, shown in that zone
    elif kind == "day":
        column, spelled = column.cast(pa.date32()), [text[:10] for text in spelled]
    elif kind == "number":
        column = pa.array([time.timestamp() for time in at])
        spelled = [str(time.timestamp()) for time in at]
    table = pa.table({"user": [row[0] for row in rows], "item": [row[1] for row in rows]})
    table = table.append_column("at", column).append_column("raw", [[b"\xff"] * len(rows)])
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=50)
    lines = [(user, item, at) for (user, item, _), at in zip(rows, spelled, strict=True)]
    write_csv(tmp_path / "log.csv", lines, ("user", "item", "at"))
    for options in ((), ("--time", "at"), ("--time", "at", "--leave-last", 1)):
        found = []
        for form in ("csv", "parquet"):
            out = tmp_path / f"{form}{len(options)}"
            call("data", "interactions", tmp_path / f"log.{form}", "--out", out, *options)
            found.append({path.name: raw for path, raw in contents(out).items()})
        assert found[0] == found[1] and found[0]["train.txt"]


def test_a_log_out_of_order_is_told(tmp_path, capsys):
    at = [datetime.date(2026, 5, 2), datetime.date(2026, 5, 1)] * 2
    path = written(tmp_path / "log", user=list("aabb"), item=list("wxyz"), at=at)
    call("data", "interactions", path, "--out", tmp_path / "out")
    assert "rows are not in the order of 'at'" in capsys.readouterr().out


def test_ids_of_data_warehouses_are_exact(tmp_path):
    """As decimals without digits after the point: these two are one float64."""
    ids = [2**53, 2**53 + 1]
    decimals = pa.array([Decimal(one) for one in ids], pa.decimal128(38, 0))
    path = written(tmp_path / "points", text=["a", "b"], labels=decimals)
    found = [row.labels for row in read_rows(path, "parquet")]
    assert found == [(str(one),) for one in ids]


def test_a_file_without_a_column_that_can_be_read(tmp_path):
    path = written(tmp_path / "points", text=[b"a"])
    with pytest.raises(InputError, match="column 'text' of binary"):
        list(read_parquet(path))


INVALID = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0"), pa.py_buffer(b"ok\xff\xfe")]
)
REFUSED = {
    "no rows": (dict(text=pa.array([], pa.string()), labels=pa.array([], pa.string())), (),
                ": found no row, expected at least one point"),
    "no text": (dict(title=["a"], labels=["x"]), (),
                ": found no column 'text' among title, labels, expected the text's column"),
    "case": (dict(text=["a"], Labels=["x"]), (), "as 'Labels' does not"),
    "no weight": (dict(text=["a"], labels=["x"]), ("--weight-column", "w"),
                  ": found no column 'w' among text, labels, expected the weights' column"),
    "wrong weight": (dict(text=["a", "b"], labels=["x", "y"], w=[1, -1]), ("--weight-column", "w"),
                     ": row 2: found w: -1, expected a finite number of at least 0"),
    "bytes": (dict(text=[b"a"], labels=["x"]), (), ": found column 'text' of binary, expected"),
    "lists of bytes": (dict(text=["a"], labels=[[b"x"]]), (), ": found column 'labels' of list<"),
    "numbers": (dict(text=[3], labels=["x"]), (), ": row 1: found text: 3, expected a text in "),
    "decimals": (dict(text=["a"], labels=[1.5]), (), ": row 1: found 1.5, a decimal number, in"),
    "objects": (dict(text=["a"], labels=[{"n": 1}]), (), ': row 1: found an object in "labels"'),
    "null in a list": (dict(text=["a"], labels=[["x", None]]), (), ": row 1: found null in the"),
    "separator": (dict(text=["a", "b"], labels=["x", "y;z"]), (),
                  ": row 2: found a text with ';' in \"labels\", expected a list: [\"y\", \"z\"]"),
    "not UTF-8": (dict(text=INVALID, labels=["x", "y"]), (),
                  ": row 2: found bytes that are not UTF-8 (b'\\xff\\xfe') in 'text'"),
    "far dates": (dict(text=["a", "b"], labels=pa.array([0, 10**7], pa.date32())), (),
                  ": row 2: found labels: "),
    "--label-separator": (dict(text=["a"], labels=["x"]), ("--label-separator", "|"),
                          "found labels that are apart already (parquet)"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_leaves_no_folder(tmp_path, capsys, what):
    columns, options, said = REFUSED[what]
    path = written(tmp_path / "points.parquet", **columns)
    found = refused(capsys, "data", "import", path, "--out", tmp_path / "out", *options)
    assert said in found and found.startswith((str(path), "--label-separator"))
    assert [one.name for one in tmp_path.iterdir()] == ["points.parquet"]


def test_a_column_that_is_there_twice(tmp_path):
    path = tmp_path / "points.parquet"
    pq.write_table(pa.Table.from_arrays([["a"], ["b"], ["x"]], ["text", "text", "labels"]), path)
    with pytest.raises(InputError, match=r"points\.parquet: found column 'text' twice"):
        list(read_rows(path, "parquet"))


def test_rows_are_counted_over_all_row_groups(tmp_path):
    path = tmp_path / "points.parquet"
    labels = [["x"]] * 2500 + [[None]]
    pq.write_table(pa.table({"text": ["a"] * 2501, "labels": labels}), path, row_group_size=1100)
    with pytest.raises(InputError, match="row 2501: found null"):
        list(read_rows(path, "parquet"))


class Keys(encryption.KmsClient):
    """Keeps keys as they are."""

    def wrap_key(self, key_bytes, master_key_identifier):
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key, master_key_identifier):
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("plain_footer", [False, True])
def test_encrypted_files_are_told(tmp_path, plain_footer):
    path, table = tmp_path / "points.parquet", pa.table({"text": ["a"], "labels": ["x"]})
    options = encryption.EncryptionConfiguration(
        footer_key="k", column_keys={"k": ["text"]}, double_wrapping=False,
        plaintext_footer=plain_footer,
    )  # fmt: skip
    keys = encryption.CryptoFactory(lambda _: Keys())
    properties = keys.file_encryption_properties(encryption.KmsConnectionConfig(), options)
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as out:
        out.write_table(table)
    with pytest.raises(InputError, match=r"points\.parquet: found an encrypted Parquet file"):
        list(read_rows(path, "parquet"))


def test_files_that_are_no_whole_parquet_are_told(tmp_path):
    path = written(tmp_path / "points.parquet", text=["a"], labels=["x"])
    raw = path.read_bytes()
    for content, said in (
        (b"", "an empty file, expected a Parquet file"),
        (raw[:3], "a file that begins with b'PAR', expected a Parquet file"),
        (raw[:200], "a truncated Parquet file, expected a complete file"),
        (raw[:-8] + b"\xff\xff\0\0PAR1", "damaged Parquet data ("),
        (raw[:4] + bytes(len(raw) - 12) + raw[-8:], "damaged Parquet data ("),
        (gzip.compress(raw), "gzip data, expected the Parquet file in it, which `gunzip`"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a file that begins with b'version ht"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError) as error:
            list(read_rows(path, "parquet"))
        assert str(error.value).startswith(f"{path}: found {said}")
        assert len(str(error.value).splitlines()) == 1
    with pytest.raises(InputError, match="found no such file or directory, expected"):
        list(read_rows(tmp_path / "none.parquet", "parquet"))


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_pickled_type_is_not_unpickled(tmp_path):
    """Older versions of pyarrow ran it."""
    made = tmp_path / "made"
    metadata = {
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": pickle.dumps(Payload(str(made))),
    }
    schema = pa.schema([pa.field("text", pa.string(), metadata=metadata), ("labels", pa.string())])
    path = tmp_path / "points.parquet"
    pq.write_table(pa.table([["a"], ["x"]], schema=schema), path)
    assert [row.text for row in read_rows(path, "parquet")] == ["a"]
    assert not made.exists()
    pickle.loads(metadata["ARROW:extension:metadata"])  # it would have
    assert made.exists()


def test_without_columns_all_that_json_has_is_read(tmp_path):
    day = datetime.date(2026, 11, 30)
    path = written(
        tmp_path / "points.parquet",
        a=["x"], day=[day], price=[Decimal("1.25")], raw=[b"x"], n=pa.array([2**63], pa.uint64()),
        image=[{"bytes": b"x"}], of=[{"n": [1.5, None]}], half=pa.array([0.5], pa.float16()),
        nothing=pa.nulls(1), **{"a.b": [True]},
    )  # fmt: skip
    ((where, record),) = read_parquet(path)
    assert where == f"{path}: row 1"
    assert record == {
        "a": "x", "day": "2026-11-30", "price": 1.25, "n": 2**63, "of": {"n": [1.5, None]},
        "half": 0.5, "nothing": None, "a.b": True,
    }  # fmt: skip
    assert next(read_parquet(path, {"a": "", "a.b": ""}))[1] == {"a": "x", "a.b": True}


def test_the_package_that_is_missing_is_named(tmp_path):
    path = written(tmp_path / "points.parquet", text=["a"], labels=["x"])
    code = (
        "import sys\nfrom pathlib import Path\nfrom snm.data.formats.foreign import read_rows\n"
        "from snm.system.imports import hide_package\n"
        "with hide_package('pyarrow'):\n    list(read_rows(Path(sys.argv[1]), 'parquet'))"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert done.stderr.rstrip().endswith(
        f"InputError: {path}: found no pyarrow, expected "
        "pip install -e '.[parquet]' -c constraints.txt"
    )


def test_a_large_column_is_not_read_at_once(tmp_path):
    """One row group of 32 MiB that do not compress."""
    path, made = tmp_path / "points.parquet", random.Random(0)
    texts = [made.randbytes(4096).hex() for _ in range(4096)]
    pq.write_table(pa.table({"text": texts, "labels": ["x"] * 4096}), path, use_dictionary=False)
    del texts
    pool = pa.default_memory_pool()
    pool.release_unused()
    before, most = pool.bytes_allocated(), 0
    for _ in read_rows(path, "parquet"):
        most = max(most, pool.bytes_allocated() - before)
    assert most < 20 << 20
