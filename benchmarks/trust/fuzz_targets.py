"""Fuzz targets: readers of files and requests as functions of bytes, which refuse or read them.

`benchmarks.trust.fuzz` calls them with inputs of atheris; a test calls them with the saved inputs.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.trust.fuzz_exports import (
    hub_arrays,
    hub_config,
    mapped_array,
    mapped_manifest,
    seeds_of_exports,
    with_valid_checksum,
)
from snm.checkpoints.manifest import DamagedError
from snm.checkpoints.store import Checkpoints
from snm.compare.records import read_record, write_record
from snm.config.settings import Config, config_text, preset, read_config
from snm.data import cache
from snm.data.formats.binary import read_npy, read_npz
from snm.data.formats.foreign import ReadOptions, read_rows
from snm.data.formats.line_files import read_filter, read_names, read_weights
from snm.data.formats.questions import read_questions
from snm.data.formats.repository_text.reader import read_text
from snm.data.repository.unpack import unpack
from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.export.manifest import read_manifest as read_export
from snm.export.manifest import write_manifest as write_export
from snm.memory.memory import Memory, MemorySettings
from snm.memory.store import load_memory, save_memory
from snm.runs.folder import read_json
from snm.runs.manifest import Manifest, read_manifest
from snm.runs.schema import MemoryRecord, RunOrigin, RunResult
from snm.runs.typed_json import parse_json

__all__ = ["TARGETS", "seeds"]

POINTS, FEATURES, LABELS = 12, 30, 20
Target = Callable[[Path, bytes], None]


def read_or_refuse(
    read: Callable[..., Any], path: Path, raw: bytes, *sizes: Any, **more: Any
) -> Any:
    """Reads some bytes; returns None if the reader refuses them with an `InputError`."""
    path.write_bytes(raw)
    try:
        return read(path, *sizes, **more)
    except InputError as error:
        assert "\n" not in str(error), "more than one line"
        return None


def check_matrix(matrix: Any) -> None:
    """Asserts the invariants of matrices that all other code relies on."""
    assert matrix.format == "csr" and matrix.dtype == np.float32
    assert np.isfinite(matrix.data).all()
    assert len(matrix.indices) == len(matrix.data) == matrix.indptr[-1]
    assert (np.diff(matrix.indptr) >= 0).all() and matrix.indptr[0] == 0
    if matrix.nnz:
        assert matrix.indices.min() >= 0 and matrix.indices.max() < matrix.shape[1]
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        place = row * np.int64(matrix.shape[1]) + matrix.indices
        assert (np.diff(place) > 0).all(), "ids of a row that do not ascend"


def reread_text(raw: bytes, features: Any, labels: Any) -> None:
    """Compares an accepted text file with a parser in plain Python."""
    lines = raw.decode().replace("\r\n", "\n").split("\n")
    n, d, k = (int(word) for word in lines[0].split())
    assert features.shape == (n, d) and labels.shape == (n, k)
    for row, line in enumerate(lines[1 : n + 1]):
        front, _, rest = line.partition(" ") if ":" not in line.split(" ")[0] else ("", "", line)
        ids = labels.indices[slice(*labels.indptr[row : row + 2])]
        assert {int(word) for word in front.split(",") if word.strip()} == set(ids.tolist())
        there = slice(*features.indptr[row : row + 2])
        pairs = {int(j): float(v) for j, v in (word.split(":") for word in rest.split())}
        assert pairs.keys() == set(features.indices[there].tolist())
        wanted = [pairs[j] for j in features.indices[there].tolist()]
        np.testing.assert_allclose(features.data[there], wanted, rtol=1e-6)


# -- data ------------------------------------------------------------------------------------


def text(place: Path, raw: bytes) -> None:
    found = read_or_refuse(read_text, place / "train.txt", raw)
    if found is not None:
        for matrix in found:
            check_matrix(matrix)
        reread_text(raw, *found)


def packed_text(place: Path, raw: bytes) -> None:
    found = read_or_refuse(read_text, place / "train.txt.gz", raw)
    for matrix in found or ():
        check_matrix(matrix)


def npz(place: Path, raw: bytes) -> None:
    found = read_or_refuse(read_npz, place / "X.trn.npz", raw)
    if found is not None:
        check_matrix(found)


def npy(place: Path, raw: bytes) -> None:
    found = read_or_refuse(read_npy, place / "X.trn.npy", raw)
    if found is not None:
        check_matrix(found)


def names(place: Path, raw: bytes) -> None:
    found = read_or_refuse(read_names, place / "labels.txt", raw, LABELS)
    assert found is None or len(found) == LABELS


def weights(place: Path, raw: bytes) -> None:
    found = read_or_refuse(read_weights, place / "weights.txt", raw, POINTS)
    assert found is None or (found.shape == (POINTS,) and np.isfinite(found).all())


def filters(place: Path, raw: bytes) -> None:
    found = read_or_refuse(read_filter, place / "filter.txt", raw, FEATURES, LABELS)
    assert found is None or (found.min(initial=0) >= 0 and (found < [FEATURES, LABELS]).all())


def rows_of(form: str, place: Path, raw: bytes) -> None:
    path = place / f"rows.{form}"
    if form == "raw":
        (place / "names.txt").write_text("a b\n" * (raw.count(b"\n") + 1))
    options = ReadOptions(label_file=place / "names.txt" if form == "raw" else None)
    for row in read_or_refuse(lambda path: list(read_rows(path, form, options)), path, raw) or ():
        assert row.where.startswith(str(path)) and (row.text is None) == (form == "svmlight")
        assert all(name == " ".join(name.split()) != "" for name in row.labels)
        if row.entries is not None:
            ids, values = row.entries
            assert (np.diff(ids) > 0).all() and np.isfinite(values).all()


def questions(place: Path, raw: bytes) -> None:
    def read(path: Path, of_texts: bool) -> list[Any]:
        found = read_questions(path, num_features=FEATURES, of_texts=of_texts, run=place)
        return [*found.texts, *found.lines]

    for of_texts in (True, False):
        read_or_refuse(read, place / "points", raw, of_texts)


def archive(place: Path, raw: bytes) -> None:
    out = place / "unpacked"
    out.mkdir(exist_ok=True)
    read_or_refuse(
        unpack, place / "archive", raw, {"train.txt": "a/train.txt"}, {"b.txt": "b.txt"}, out
    )
    left = {path.name for path in out.iterdir()}
    assert left <= {"train.txt", "b.txt"}, left
    for name in left:
        (out / name).unlink()


# -- our own files ---------------------------------------------------------------------------


def config(place: Path, raw: bytes) -> None:
    path = place / "config.toml"
    found = read_or_refuse(read_config, path, raw)
    if found is not None:
        assert isinstance(found, Config)
        # What was accepted reads back as itself.
        path.write_text(config_text(found), encoding="utf-8")
        assert read_config(path) == found


def objects(place: Path, raw: bytes) -> None:
    """`run.json`, `result.json` and `memory.json`, with what they must hold."""
    path = place / "run.json"
    found = read_or_refuse(read_json, path, raw)
    for kind in (RunOrigin, RunResult, MemoryRecord):
        if found is not None:
            with contextlib.suppress(InputError):
                parse_json(kind, found, str(path))


def run_manifest(place: Path, raw: bytes) -> None:
    (place / "run.json").write_bytes(b"{}")

    def read(path: Path) -> Manifest | None:
        found = read_manifest(path.parent)
        assert found is None or isinstance(found, Manifest)
        for name in ("run.json", "config.toml"):
            if found is not None:
                found.check(place / name)
        return found

    for content in (raw, with_valid_checksum(raw)):
        read_or_refuse(read, place / "manifest.json", content)


def export_manifest(place: Path, raw: bytes) -> None:
    for content in (raw, with_valid_checksum(raw)):
        read_or_refuse(
            lambda path: read_export(path.parent, "faiss"), place / "manifest.json", content
        )


def record(place: Path, raw: bytes) -> None:
    """A result of a comparison: with its checksum it is read, with another refused."""
    path = place / "record.json"
    read_or_refuse(read_record, path, raw)
    found = read_or_refuse(read_record, path, with_valid_checksum(raw))
    assert found is None or isinstance(found, dict)


def weighting(place: Path, raw: bytes) -> None:
    read_or_refuse(Weighting.load, place / "weighting.npz", raw)


def vectorizer(place: Path, raw: bytes) -> None:
    found = read_or_refuse(Vectorizer.read, place / "vectorizer.json", raw)
    if found is not None and found.num_features <= 10**6:
        assert found.transform(["word1 word2"]).shape == (1, found.num_features)


def memory(place: Path, raw: bytes) -> None:
    path = place / "memory.npz"
    found = read_or_refuse(load_memory, path, raw, num_features=FEATURES, num_labels=LABELS)
    assert found is None or found.features.shape[1] == FEATURES


def checkpoint(place: Path, raw: bytes) -> None:
    """The manifest of a checkpoint."""
    folder = place / "checkpoints" / "4"
    folder.mkdir(parents=True, exist_ok=True)
    for content in (raw, with_valid_checksum(raw)):
        (folder / "manifest.json").write_bytes(content)
        try:
            Checkpoints(folder.parent).verify(4)
        except DamagedError as error:
            assert "\n" not in str(error)


def cached(place: Path, raw: bytes) -> None:
    """The first half is the manifest of a cache entry, the second one of its arrays."""
    entry = place / "v3-key"
    if not entry.exists():
        matrix = _matrix()
        cache.write(place, "key", {"train": (matrix, matrix)})
    manifest, _, array = raw.partition(b"\n\n")
    (entry / "manifest.json").write_bytes(manifest)
    (entry / "train.features.data.npy").write_bytes(array)
    for matrix in (cache.read(place, "key") or {}).get("train", ()):
        assert np.isfinite(matrix.data).all()


TARGETS: dict[str, Target] = {
    **{run.__name__: run for run in (
        text, packed_text, npz, npy, names, weights, filters, questions, archive, config, objects,
        run_manifest, export_manifest, record, weighting, vectorizer, memory, checkpoint, cached,
        hub_config, hub_arrays, mapped_manifest, mapped_array)},
    **{form: functools.partial(rows_of, form)
       for form in ("jsonl", "csv", "raw", "fasttext", "svmlight")},
}  # fmt: skip
"""Name -> a function of a folder of its own and some bytes; it raises where a reader is wrong."""


# -- valid files -----------------------------------------------------------------------------


def _matrix() -> Any:
    found = sparse.random(POINTS, FEATURES, 0.3, "csr", np.float32, rng=np.random.default_rng(0))
    found.sort_indices()
    return found


def _text() -> bytes:
    rng, lines = np.random.default_rng(0), [f"{POINTS} {FEATURES} {LABELS}"]
    for _ in range(POINTS):
        labels = ",".join(map(str, rng.choice(LABELS, 2, replace=False)))
        ids = np.sort(rng.choice(FEATURES, 4, replace=False))
        lines.append(f"{labels} " + " ".join(f"{j}:{rng.integers(1, 9) / 4}" for j in ids))
    return ("\n".join(lines) + "\n").encode()


def seeds() -> dict[str, bytes]:
    """Name of a target -> a valid file, from which a fuzzer starts."""
    import gzip

    with tempfile.TemporaryDirectory() as name:
        place, matrix = Path(name), _matrix()
        out = io.BytesIO()
        sparse.save_npz(out, matrix, compressed=False)
        dense, zipped = io.BytesIO(), io.BytesIO()
        np.save(dense, matrix.toarray())
        with zipfile.ZipFile(zipped, "w") as files:
            files.writestr("a/train.txt", "1 1 1\n0 0:1\n")
        (place / "config.toml").write_text(config_text(preset("default")), encoding="utf-8")
        Manifest({"run.json": [[3, 4]]}, [1]).write(place)
        exported = place / "exported"
        exported.mkdir()
        (exported / "index.faiss").write_bytes(b"...")
        write_export(exported, {"format": "snm-index-1", "index": {"library": "faiss"}})
        write_record(place / "record.json", {"data": "x", "metrics": {"P@1": 0.5}})
        Vectorizer("counts", 2, vocabulary=("word1", "word2")).write(place / "vectorizer.json")
        labels = sparse.csr_matrix(np.eye(POINTS, LABELS, dtype=np.float32))
        settings = MemorySettings(neighbors=3, power=1.0, feature_share=1.0, weight=2.0)
        stored = Memory(matrix, labels, None, np.arange(POINTS), settings)
        save_memory(place / "memory.npz", stored)
        Weighting("tfidf", np.linspace(1, 2, 30, dtype=np.float32)).save(place / "weighting.npz")
        cache.write(place, "key", {"train": (matrix, matrix)})
        entry = place / "v3-key"
        two = ((entry / name).read_bytes() for name in ("manifest.json", "train.features.data.npy"))
        return {
            "text": _text(),
            "packed_text": gzip.compress(_text(), 1, mtime=0),
            "npz": out.getvalue(),
            "npy": dense.getvalue(),
            "names": b"".join(b"name %d\n" % label for label in range(LABELS)),
            "weights": b"".join(b"%d.5\n" % (row % 3) for row in range(POINTS)),
            "filters": b"".join(b"%d %d\n" % (row, row % 20) for row in range(30)),
            "questions": b'{"text": "a", "more": 1}\n{"text": "b"}\n',
            "archive": zipped.getvalue(),
            "config": (place / "config.toml").read_bytes(),
            "objects": json.dumps({"data": "x", "sha256": "y", "num_features": 30,
                                   "num_labels": 20, "warm_start": None}).encode(),
            "run_manifest": (place / "manifest.json").read_bytes(),
            "export_manifest": (exported / "manifest.json").read_bytes(),
            "record": (place / "record.json").read_bytes(),
            "weighting": (place / "weighting.npz").read_bytes(),
            "vectorizer": (place / "vectorizer.json").read_bytes(),
            "memory": (place / "memory.npz").read_bytes(),
            "checkpoint": b'{"progress": {}, "score": null, "about": {}, "files": {}, "crc": 1}',
            "cached": b"\n\n".join(two),
            "jsonl": b'{"text": "a b", "labels": ["x", 2]}\n',
            "csv": b'text,labels\n"a, ""b""","x,y"\n',
            "raw": b"a b\nc d\n",
            "fasttext": b"__label__a __label__b some words\n",
            "svmlight": b"1,2 3:0.5 7:1 # note\n",
            **seeds_of_exports(),
        }  # fmt: skip


def saved_inputs(file: Path) -> Iterator[tuple[str, bytes]]:
    """The inputs of a file that `benchmarks.trust.fuzz --keep` wrote: target and bytes."""
    for line in file.read_text(encoding="ascii").splitlines():
        name, _, raw = line.partition(" ")
        yield name, bytes.fromhex(raw)
