"""Damaged files give a clear error or a correct result, in bounded time and memory.

A valid file is changed by a few random edits (flipped bits, cuts, insertions, repeated parts, large
numbers) and then read. The short form always runs. The long form is marked slow; `tests/README.md`
has its results.
"""

import gzip
import io
import json
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny
from data.formats.bounded_reads import bounded, outcome
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from snm.checkpoints.manifest import DamagedError
from snm.checkpoints.store import Checkpoints
from snm.config.settings import Config, config_text, read_config
from snm.data import cache
from snm.data.formats.binary import read_npy, read_npz
from snm.data.formats.line_files import read_filter, read_names
from snm.data.formats.parquet import read_parquet
from snm.data.formats.repository_text.reader import read_text
from snm.data.load import load
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.runs.folder import read_json

# Insertions that turn sizes and ids into wrong or very large numbers.
NUMBERS = [b"0", b"-1", b"4294967296", b"9223372036854775807", b"9" * 30, b"1e400", b"nan"]
SPLICES = st.one_of(st.binary(max_size=12), st.sampled_from([*NUMBERS, b"\n", b" ", b"[" * 3000]))
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "overwrite", "repeat", "drop"]),
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 400),
        SPLICES,
    ),
    min_size=1,
    max_size=4,
)


def edited(raw, edits):
    """Applies edits: (kind, position as a share of the length, length, new bytes)."""
    for kind, share, length, new in edits:
        place = int(share * len(raw))
        end = place + length
        if kind == "flip":
            bit = bytes(b ^ (1 << length % 8) for b in raw[place : place + 1])
            raw = raw[:place] + bit + raw[place + 1 :]
        elif kind == "cut":
            raw = raw[:place]
        elif kind == "insert":
            raw = raw[:place] + new + raw[place:]
        elif kind == "overwrite":
            raw = raw[:place] + new + raw[place + len(new) :]
        elif kind == "repeat":
            raw = raw[:end] + raw[place:end] * 3 + raw[end:]
        else:
            raw = raw[:place] + raw[end:]
    return raw


# -- the valid files -------------------------------------------------------------------------


def text_file():
    return "\n".join([f"12 {tiny.FEATURES} {tiny.LABELS}", *tiny.rows(12, 0)]).encode() + b"\n"


def csr(rows, columns, ones):
    matrix = sparse.random(rows, columns, 0.3, "csr", np.float32, rng=np.random.default_rng(0))
    matrix.sort_indices()
    if ones:
        matrix.data[:] = 1
    return matrix


def npz_file(matrix, compressed):
    out = io.BytesIO()
    sparse.save_npz(out, matrix, compressed=compressed)
    return out.getvalue()


def npy_file():
    out = io.BytesIO()
    np.save(out, csr(12, tiny.FEATURES, False).toarray())
    return out.getvalue()


def check_matrix(matrix, width=None):
    """Asserts the invariants of matrices that all other code relies on."""
    assert matrix.format == "csr" and matrix.dtype == np.float32
    assert np.isfinite(matrix.data).all()
    assert matrix.has_sorted_indices
    assert len(matrix.indices) == len(matrix.data) == matrix.indptr[-1]
    assert (np.diff(matrix.indptr) >= 0).all() and matrix.indptr[0] == 0
    if matrix.nnz:
        assert matrix.indices.min() >= 0 and matrix.indices.max() < matrix.shape[1]
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    assert len(set(zip(row.tolist(), matrix.indices.tolist(), strict=True))) == matrix.nnz
    if width is not None:
        assert matrix.shape[1] == width


# -- data ------------------------------------------------------------------------------------


def reread_text(raw, features, labels):
    """Compares an accepted text file with a parser in plain Python."""
    lines = raw.decode().replace("\r\n", "\n").split("\n")
    n, d, k = (int(word) for word in lines[0].split())
    assert features.shape == (n, d) and labels.shape == (n, k)
    for row, line in enumerate(lines[1 : n + 1]):
        front, _, rest = line.partition(" ") if ":" not in line.split(" ")[0] else ("", "", line)
        found = {int(word) for word in front.split(",") if word.strip()}
        assert found == set(labels[row].indices.tolist())
        pairs = dict(word.split(":") for word in rest.split())
        there = {int(j) for j, value in pairs.items() if np.float32(value) != 0}
        assert there == set(features[row].indices.tolist())
        for j, value in pairs.items():
            assert features[row, int(j)] == pytest.approx(float(value), rel=1e-6)


def fuzz_text(folder, edits, packed):
    raw = edited(text_file(), edits)
    path = folder / ("train.txt.gz" if packed else "train.txt")
    path.write_bytes(gzip.compress(raw, 1) if packed else raw)
    found = outcome(read_text, path)
    if not isinstance(found, InputError):
        for matrix in found:
            check_matrix(matrix)
        reread_text(raw, *found)


def fuzz_packed(folder, edits):
    """Edits the compressed bytes."""
    path = folder / "train.txt.gz"
    path.write_bytes(edited(gzip.compress(text_file(), 1, mtime=0), edits))
    found = outcome(read_text, path)
    if not isinstance(found, InputError):
        for matrix in found:
            check_matrix(matrix)


def fuzz_npz(folder, edits, compressed, inside):
    matrix = csr(12, tiny.FEATURES, False)
    raw = npz_file(matrix, compressed)
    if inside:  # past the archive's own checksums: a member is changed and packed again
        out, names = io.BytesIO(), ("indptr", "indices", "data", "shape", "format")
        with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(out, "w") as new:
            for number, name in enumerate(names):
                member = old.read(f"{name}.npy")
                which = edits[0][2] % len(names)
                new.writestr(f"{name}.npy", edited(member, edits) if number == which else member)
        raw = out.getvalue()
    else:
        raw = edited(raw, edits)
    path = folder / "X.trn.npz"
    path.write_bytes(raw)
    found = outcome(read_npz, path)
    if not isinstance(found, InputError):
        check_matrix(found)
        if not inside:  # its checksums hold
            assert (found != matrix).nnz == 0


def fuzz_npy(folder, edits):
    path = folder / "X.trn.npy"
    path.write_bytes(edited(npy_file(), edits))
    found = outcome(read_npy, path)
    if not isinstance(found, InputError):
        check_matrix(found)


def fuzz_words(folder, edits, packed):
    """Edits files of label names and label filters."""
    names = "".join(f"name {label}\n" for label in range(20)).encode()
    pairs = "".join(f"{row} {row % 20}\n" for row in range(30)).encode()
    end = ".gz" if packed else ""
    for name, raw, read, sizes in (
        ("labels.txt", names, read_names, (20,)),
        ("filter.txt", pairs, read_filter, (30, 20)),
    ):
        path = folder / f"{name}{end}"
        raw = edited(raw, edits)
        path.write_bytes(gzip.compress(raw, 1) if packed else raw)
        found = outcome(read, path, *sizes)
        if isinstance(found, InputError):
            continue
        if name == "labels.txt":
            assert len(found) == 20
            text = raw.decode("utf-8-sig").replace("\r\n", "\n")
            # Blank lines end a file; one may also be the last name.
            assert "\n".join(found).rstrip("\n") == text.rstrip("\n")
        else:
            text = raw.decode("utf-8-sig").replace("\r\n", "\n").rstrip("\n")
            wanted = [[int(word) for word in line.split()] for line in text.split("\n") if text]
            assert found.tolist() == wanted
            assert found.min(initial=0) >= 0 and (found < [30, 20]).all()


def fuzz_parquet(folder, edits, small):
    path = folder / "points.parquet"
    rows = [{"text": f"word{i}", "labels": ["a", f"b{i}"], "n": 0.5 * i} for i in range(40)]
    if not path.exists():
        pq.write_table(pa.Table.from_pylist(rows), folder / "whole", row_group_size=7)
    path.write_bytes(edited((folder / "whole").read_bytes(), edits))
    columns = {"text": "the text"} if small else None
    found = outcome(lambda: list(read_parquet(path, columns)))
    if not isinstance(found, InputError):
        for number, (where, record) in enumerate(found, 1):
            assert where == f"{path}: row {number}" and isinstance(record, dict)


# -- our own files ---------------------------------------------------------------------------


def fuzz_config(folder, edits):
    path = folder / "config.toml"
    path.write_text(config_text(tiny.CONFIG))
    raw = edited(path.read_bytes(), edits)
    path.write_bytes(raw)
    found = outcome(read_config, path)
    if not isinstance(found, InputError):
        assert isinstance(found, Config)
        path.write_text(
            config_text(found), encoding="utf-8"
        )  # what was accepted reads back as itself
        assert read_config(path) == found


def fuzz_json(folder, edits):
    path = folder / "run.json"
    path.write_bytes(edited(json.dumps({"data": "x", "num_labels": 20}).encode(), edits))
    outcome(read_json, path)


def fuzz_weighting(folder, edits):
    path = folder / "weighting.npz"
    Weighting("tfidf", np.linspace(1, 2, 30, dtype=np.float32)).save(path)
    path.write_bytes(edited(path.read_bytes(), edits))
    found = outcome(Weighting.load, path)
    if not isinstance(found, InputError):
        np.testing.assert_array_equal(found.idf, np.linspace(1, 2, 30, dtype=np.float32))


def fuzz_cache(folder, edits, number):
    """A damaged cache is ignored: loading always gives the data of the source."""
    data, place = folder / "data", folder / "cache"
    if not data.exists():
        tiny.write(data)
    whole = load(data, cache=place)
    (entry,) = place.glob("v3-*")
    files = sorted(entry.iterdir())
    path = files[number % len(files)]
    path.write_bytes(edited(path.read_bytes(), edits))
    with bounded():
        found = cache.read(place, entry.name.removeprefix("v3-"))
    again = load(data, cache=place)
    for part in ("train", "test"):
        for name in ("features", "labels"):
            first = getattr(getattr(whole, part), name)
            assert (first != getattr(getattr(again, part), name)).nnz == 0
            if found is not None:
                assert (first != found[part][name == "labels"]).nnz == 0
    for old in place.glob("v3-*"):  # whole again for the next
        for file in old.iterdir():
            file.unlink()
        old.rmdir()


STATE = {
    "rows": np.linspace(-1, 1, 600, dtype=np.float32).reshape(60, 10),
    "scalar": np.array(3, np.int32),
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A checkpoint store, and the content of its files."""
    folder = tmp_path_factory.mktemp("checkpoints")
    checkpoints = Checkpoints(folder, keep=2, about={"data_sha256": "a", "seed": 0})
    checkpoints.save(4, STATE, {"step": 4, "best_step": 0}, 1.5)
    files = {p: p.read_bytes() for p in sorted(checkpoints.path(4).rglob("*")) if p.is_file()}
    return checkpoints, files


def fuzz_checkpoint(checkpoint, edits, number):
    """A damaged checkpoint is refused, or loads exactly what was saved."""
    checkpoints, files = checkpoint
    path = list(files)[number % len(files)]
    raw = edited(files[path], edits)
    path.write_bytes(raw)
    try:
        note = outcome(checkpoints.read, 4)
        found = outcome(checkpoints.load, 4, STATE)
        if isinstance(found, DamagedError):
            assert raw != files[path], "an unchanged file was refused"
            return
        assert note.progress == {"step": 4, "best_step": 0} and note.score == 1.5
        for name, value in STATE.items():
            np.testing.assert_array_equal(found[name], value)
    finally:
        path.write_bytes(files[path])


# -- short and long form ---------------------------------------------------------------------

FUZZERS = {
    "text": (fuzz_text, dict(packed=st.booleans())),
    "packed text": (fuzz_packed, {}),
    "npz": (fuzz_npz, dict(compressed=st.booleans(), inside=st.booleans())),
    "npy": (fuzz_npy, {}),
    "parquet": (fuzz_parquet, dict(small=st.booleans())),
    "names and filters": (fuzz_words, dict(packed=st.booleans())),
    "config": (fuzz_config, {}),
    "run.json": (fuzz_json, {}),
    "weighting": (fuzz_weighting, {}),
    "cache": (fuzz_cache, dict(number=st.integers(0, 100))),
    "checkpoint": (fuzz_checkpoint, dict(number=st.integers(0, 100))),
}


def attack(name, place, count):
    fuzzer, more = FUZZERS[name]
    tried = []

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(edits=EDITS, **more)
    def run(edits, **drawn):
        tried.append(1)
        fuzzer(place, edits, **drawn)

    run()
    return len(tried)


@pytest.mark.parametrize("name", FUZZERS)
def test_changed_files(name, tmp_path, request):
    place = request.getfixturevalue("checkpoint") if name == "checkpoint" else tmp_path
    assert attack(name, place, 40) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("name", FUZZERS)
def test_many_changed_files(name, tmp_path, request):
    place = request.getfixturevalue("checkpoint") if name == "checkpoint" else tmp_path
    print(f"{name}: {attack(name, place, 1000)} inputs")
