"""Streams equal reading."""

import gzip

import numpy as np
import pytest
from data.formats.text_files import same, written
from scipy import sparse

from snm.data.formats.feature_files import iter_features
from snm.data.formats.repository_text import errors
from snm.data.formats.repository_text.reader import TextReader
from snm.data.formats.repository_text.writer import write_text
from snm.errors import InputError


def all_inputs(folder, features, labels):
    """Writes the same features in every format that streaming reads."""
    write_text(folder / "one.txt", features, labels)
    write_text(folder / "bare.txt", features, sparse.csr_matrix(labels.shape))
    lines = (folder / "bare.txt").read_text().split("\n")
    pair = [" ".join(lines[0].split()[:2]), *(line.strip() for line in lines[1:])]
    (folder / "Xf.txt").write_text("\n".join(pair))
    for name in ("one.txt", "Xf.txt"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
    sparse.save_npz(folder / "x.npz", features)
    sparse.save_npz(folder / "plain.npz", features, compressed=False)
    np.save(folder / "x.npy", features.toarray())
    return sorted(folder.iterdir())


@pytest.mark.parametrize("chunk_rows", [1, 4, 10, 1000])
def test_streaming_equals_reading(tmp_path, chunk_rows):
    rng = np.random.default_rng(0)
    features = sparse.random(23, 8, 0.3, "csr", np.float32, rng)
    labels = (sparse.random(23, 5, 0.3, "csr", np.float32, rng) > 0).astype(np.float32)
    paths = all_inputs(tmp_path, features, labels)
    assert len(paths) == 8
    for path in paths:
        pieces = list(iter_features(path, 8, chunk_rows))
        sizes = [piece.shape[0] for piece in pieces]
        assert all(size == chunk_rows for size in sizes[:-1]), path
        assert sum(sizes) == 23 and 0 < sizes[-1] <= chunk_rows, path
        assert all(piece.dtype == np.float32 for piece in pieces)
        same(sparse.vstack(pieces, "csr"), features)
        with pytest.raises(InputError, match=r"found .*8 features, expected 9"):
            next(iter_features(path, 9, chunk_rows))


def test_streaming_yields_what_comes_before_a_fault(tmp_path, monkeypatch):
    monkeypatch.setattr("snm.data.formats.repository_text.reader._BLOCK_BYTES", 6)
    path = written(tmp_path, "3 5 4\n0 0:1\n1 1:1\n1 9:1\n")
    reader = TextReader(path, errors.ONE_FILE)
    blocks = reader.blocks()
    assert next(blocks).ids.tolist() == [0]
    assert next(blocks).ids.tolist() == [1]
    with pytest.raises(InputError, match=r"train\.txt:4: found feature index 9"):
        next(blocks)
