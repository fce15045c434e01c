"""Measures time and memory to refuse files that claim or unpack to far more than they hold.

    python -m benchmarks.trust.bombs --out benchmarks/results/bombs.json

Each file is read in a separate process. The memory is the peak of the process above what it used
before the read.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from snm.data.formats.binary import read_npy, read_npz
from snm.data.formats.foreign import read_rows
from snm.data.formats.line_files import read_names
from snm.data.formats.questions import read_questions
from snm.data.formats.repository_text.reader import read_text
from snm.data.load import load
from snm.data.repository.unpack import unpack
from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.memory.store import load_memory
from snm.runs.folder import read_json, write_json

_MIB = 1 << 20
_LINE = 300 * _MIB
_CLAIMED = 1_000_000_000


def _long_lines() -> dict[str, tuple[str, Callable[[], bytes], Callable[[Path], Any]]]:
    found = {}
    for what, byte in (("spaces", b" "), ("digits", b"1")):
        for form, name, before, read in (
            ("text of the repository", "train.txt", b"1 1 2\n0 0:", read_text),
            ("JSON lines", "rows.jsonl", b'{"text": "', lambda p: list(read_rows(p, "jsonl"))),
            ("CSV", "rows.csv", b'text,labels\n"', lambda p: list(read_rows(p, "csv"))),
            ("svmlight", "rows.svm", b"a 1:", lambda p: list(read_rows(p, "svmlight"))),
            ("fastText", "tags.txt", b"__label__a ", lambda p: list(read_rows(p, "fasttext"))),
            ("texts to label", "raw.txt", b"", lambda p: list(
                read_questions(p, num_features=3, of_texts=True).texts)),
        ):  # fmt: skip
            raw = lambda before=before, byte=byte: before + byte * _LINE  # noqa: E731
            found[f"a line of 300 MiB of {what}, {form}"] = name, raw, read
            found[f"a line of 300 MiB of {what}, {form}, gzip"] = (
                f"{name}.gz", lambda raw=raw: gzip.compress(raw(), 1), read)  # fmt: skip
    return found


def _arrays(names: tuple[str, ...], count: int) -> bytes:
    """An archive of float32 arrays of zeros, a thousandth as large."""
    with tempfile.NamedTemporaryFile() as out:
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                shape = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count},), }}"
                header = shape.encode().ljust(117) + b"\n"
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    mark = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
                    member.write(mark + header)
                    for _ in range(4 * count // _MIB):
                        member.write(bytes(_MIB))
        return Path(out.name).read_bytes()


def _npy() -> bytes:
    shape = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({_CLAIMED}, 1000), }}"
    header = shape.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(1000)


def _zip_of_zeros() -> bytes:
    with tempfile.NamedTemporaryFile() as out:
        with (
            zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive,
            archive.open("train.txt", "w", force_zip64=True) as member,
        ):
            for _ in range(1024):
                member.write(b"0" * _MIB)
        return Path(out.name).read_bytes()


_HEADERS = {
    "points": f"{_CLAIMED} 3 3",
    "features": f"2 {_CLAIMED} 3",
    "labels": f"2 3 {_CLAIMED}",
}
_PARTS = ("data", "indices", "indptr", "shape", "format")
BOMBS: dict[str, tuple[str, Callable[[], bytes], Callable[[Path], Any]]] = {
    **_long_lines(),
    **{
        f"a header of 10^9 {what}": (
            "train.txt",
            lambda header=header: f"{header}\n0,1 0:1\n1 1:1\n".encode(),
            lambda path: load(path.parent, cache=None),
        )
        for what, header in _HEADERS.items()
    },
    "10^9 rows promised, 40 million empty ones in gzip": (
        "train.txt.gz",
        lambda: gzip.compress(f"{_CLAIMED} 3 3\n".encode() + b"\n" * (40 * _MIB), 9),
        read_text,
    ),
    "a dense array that claims 4 TB": ("X.trn.npy", _npy, read_npy),
    "sparse arrays of 400 MB each in 2 MB": (
        "X.trn.npz", lambda: _arrays(_PARTS, 10**8), read_npz),
    "a weighting of 800 MB in 1 MB": (
        "weighting.npz", lambda: _arrays(("kind", "idf"), 10**8), Weighting.load),
    "a memory of 400 MB in 0.4 MB": (
        "memory.npz", lambda: _arrays(("rows",), 10**8),
        lambda path: load_memory(path, num_features=3, num_labels=3)),
    "a zip archive of 1 GiB in 1 MiB": (
        "data.zip", _zip_of_zeros,
        lambda path: unpack(path, {"train.txt": "train.txt"}, {}, path.parent)),
    "JSON of 200,000 levels, JSON lines": (
        "rows.jsonl", lambda: b"[" * 200_000, lambda p: list(read_rows(p, "jsonl"))),
    "JSON of 200,000 levels, vectorizer": (
        "vectorizer.json", lambda: b'{"vocabulary":' * 200_000, Vectorizer.read),
    "JSON of 200,000 levels, run.json": ("run.json", lambda: b"[" * 200_000, read_json),
    "label names of 200 MiB of zeros in gzip": (
        "labels.txt.gz", lambda: gzip.compress(bytes(200 * _MIB), 9),
        lambda path: read_names(path, 20)),
}  # fmt: skip
"""Name -> file name, content, and the reader."""


def read_one(name: str, path: Path) -> dict[str, Any]:
    """Reads a bomb in this process; returns time and memory."""
    read = BOMBS[name][2]
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = _peak()
    begun, line = time.monotonic(), None
    try:
        read(path)
    except InputError as error:
        line = str(error)
    seconds = time.monotonic() - begun
    return {"seconds": round(seconds, 2), "MiB": round((_peak() - before) / 1024),
            "refused": line is not None and "\n" not in line,
            "said": "" if line is None else line.replace(str(path), path.name)[:160]}  # fmt: skip


def _peak() -> int:
    """KiB of memory of this process at its peak."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def measure() -> list[dict[str, Any]]:
    """Makes and reads each bomb."""
    rows = []
    for name, (file, content, _) in BOMBS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / file
            path.write_bytes(content())
            size = path.stat().st_size
            words = [sys.executable, "-m", "benchmarks.trust.bombs", "--only", name, str(path)]
            found = subprocess.run(words, capture_output=True, text=True, check=True)
        rows.append({"bomb": name, "bytes": size, **json.loads(found.stdout)})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    """Prints the results, and writes them as JSON."""
    if sys.argv[1:2] == ["--only"]:
        print(json.dumps(read_one(sys.argv[2], Path(sys.argv[3]))))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    args = parser.parse_args()
    rows = measure()
    lines = [row for row in rows if row["bomb"].startswith("a line of")]
    found = {"bombs": rows, "tries": len(rows), "failed": sum(not row["refused"] for row in rows),
             "long lines": {"tries": len(lines), "seconds": max(row["seconds"] for row in lines),
                            "MiB": max(row["MiB"] for row in lines)}}  # fmt: skip
    if args.out is not None:
        write_json(args.out, found)


if __name__ == "__main__":
    main()
