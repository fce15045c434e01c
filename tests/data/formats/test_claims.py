"""Files that claim more than they hold: one line, soon, in bounded memory."""

import gzip
import json
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import snm
from snm.data.formats.binary import read_npy
from snm.data.formats.foreign import read_rows
from snm.data.formats.questions import read_questions
from snm.data.formats.repository_text.reader import read_text
from snm.errors import InputError

SECONDS, MEBIBYTES = 60.0, 200  # on a busy machine; the large forms print what they took


def refused(name, read):
    """The error of a reader, and a line of its time and memory."""
    tracemalloc.start()
    begun = time.monotonic()
    with pytest.raises(InputError) as error:
        read()
    seconds = time.monotonic() - begun
    peak = tracemalloc.get_traced_memory()[1] >> 20
    tracemalloc.stop()
    print(f"\n{name}: {seconds:.1f} s, {peak} MiB: {error.value}")
    assert "\n" not in str(error.value)
    assert seconds < SECONDS and peak < MEBIBYTES
    return str(error.value)


SIZES = [17, pytest.param(300, marks=pytest.mark.slow)]


def texts(path):
    """What `snm predict` reads of a file."""
    return list(read_questions(path, num_features=3, of_texts=True, run=Path("run")).texts)


@pytest.mark.parametrize("mebibytes", SIZES)
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("byte", [b" ", b"1"])
def test_one_long_line(tmp_path, mebibytes, packed, byte):
    """A value of so many digits, or so many spaces, in each format of text."""
    long = byte * (mebibytes << 20)
    contents = {
        "train.txt": b"1 1 2\n0 0:" + long,
        "rows.jsonl": b'{"text": "' + long + b'", "labels": []}',
        "rows.csv": b'text,labels\n"' + long + b'",a',
        "rows.svm": b"a 1:" + long,
        "raw.txt": long,
        "tags.txt": b"__label__a " + long,
    }
    readers = {
        "train.txt": read_text,
        "rows.jsonl": lambda path: list(read_rows(path, "jsonl")),
        "rows.csv": lambda path: list(read_rows(path, "csv")),
        "rows.svm": lambda path: list(read_rows(path, "svmlight")),
        "raw.txt": texts,
        "tags.txt": lambda path: list(read_rows(path, "fasttext")),
    }
    for name, raw in contents.items():
        path = tmp_path / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(raw, 1) if packed else raw)
        said = refused(path.name, lambda path=path, name=name: readers[name](path))
        assert "a line of over 16777216 bytes" in said
        path.unlink()


def test_headers_that_claim_a_billion(tmp_path):
    for header in ("1000000000 3 3", "2 1000000000 3", "2 3 1000000000", "2 2147483647 2147483647"):
        (tmp_path / "train.txt").write_text(f"{header}\n0,1 0:1\n1 1:1\n")
        said = refused(header, lambda: snm.load_data(tmp_path, cache=None))
        assert "header says" in said or "bytes, expected at most 16777216" in said
    # What is rather wide in truth is read.
    (tmp_path / "train.txt").write_text("2 16000000 16000000\n0,1 0:1\n1 1:1\n")
    assert snm.load_data(tmp_path, cache=None).train.num_labels == 16_000_000


def test_a_wide_dense_matrix_is_converted_in_pieces(tmp_path):
    """Each piece has 64 MiB: 40,000 rows of 2000 columns would be 305 as float32."""
    path = tmp_path / "X.npy"
    dense = np.lib.format.open_memmap(path, "w+", np.uint8, (40_000, 2000))
    dense[::7, 3] = 5
    dense.flush()
    tracemalloc.start()
    found = read_npy(path)
    assert tracemalloc.get_traced_memory()[1] < MEBIBYTES << 20
    tracemalloc.stop()
    assert (
        found.shape == (40_000, 2000) and found.nnz == -(-40_000 // 7) and (found.data == 5).all()
    )


def test_an_array_with_a_header_of_gigabytes(tmp_path):
    """For a length of its header that is beyond the file, numpy allocates that much."""
    path = tmp_path / "X.npy"
    with path.open("wb") as out:
        np.lib.format.write_array(out, np.eye(12, dtype=np.float32), version=(3, 0))
    read_npy(path)
    raw = bytearray(path.read_bytes())
    raw[11] = 0x27
    path.write_bytes(raw)
    assert "no array that numpy reads" in refused("npy", lambda: read_npy(path))


def test_deep_json_lines(tmp_path):
    path = tmp_path / "rows.jsonl"
    for text in ("[" * 200_000, '{"text":' * 200_000, json.dumps({"text": ["a" * 10**6]})):
        path.write_text(text)
        said = refused("deep", lambda: list(read_rows(path, "jsonl")))
        assert len(said) < 500
        refused("deep", lambda: texts(path))
    unnamed = tmp_path / "rows"  # its first line tells the form
    unnamed.write_text('{"text":' * 200_000)
    assert "rows:1: found no JSON" in refused("deep", lambda: texts(unnamed))


@pytest.mark.parametrize("size", ["points", "test_points", "features", "labels", "topics"])
@pytest.mark.parametrize("count", [2**31 - 1, 10**15])
def test_generating_more_than_fits(size, count, monkeypatch):
    monkeypatch.setattr("snm.machine.ram.available_ram", lambda: 16 << 30)
    sizes = {"points": 10, "test_points": 0, "features": 10, "labels": 10, "labels_per_point": 2,
             "nonzeros_per_point": 2}  # fmt: skip
    said = refused(size, lambda: snm.generate(**{**sizes, size: count}))
    assert "GiB of memory" in said or "expected a number from" in said
