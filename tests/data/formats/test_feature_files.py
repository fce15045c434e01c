"""What is written reads back, and streams equal reading."""

import gzip
import itertools

import numpy as np
import pytest
from data.formats.text_files import GOOD, written
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from snm.data.formats import text_errors
from snm.data.formats.feature_files import iter_features
from snm.data.formats.text import TextReader, read_text
from snm.data.formats.text_writer import write_text
from snm.errors import InputError


@st.composite
def points(draw):
    n, d, k = (draw(st.integers(1, 6)) for _ in range(3))
    value = st.floats(width=32, allow_nan=False, allow_infinity=False)
    features = draw(st.lists(st.dictionaries(st.integers(0, d - 1), value), min_size=n, max_size=n))
    labels = draw(st.lists(st.sets(st.integers(0, k - 1)), min_size=n, max_size=n))

    def csr(rows, values, width):
        indptr = np.cumsum([0, *map(len, rows)])
        ids = list(itertools.chain.from_iterable(rows))
        return sparse.csr_matrix((np.array(values, np.float32), ids, indptr), shape=(n, width))

    flat = [v for row in features for v in row.values()]
    count = sum(map(len, labels))
    return csr(features, flat, d), csr(labels, np.ones(count), k)


def same(one, other):
    one, other = one.sorted_indices(), other.sorted_indices()
    assert one.shape == other.shape
    assert one.indptr.tolist() == other.indptr.tolist()
    assert one.indices.tolist() == other.indices.tolist()
    assert one.data.tobytes() == other.data.tobytes()


@settings(deadline=None)
@given(points(), st.sampled_from(["x.txt", "x.txt.gz"]))
def test_what_is_written_reads_back_bit_for_bit(tmp_path_factory, matrices, name):
    path = tmp_path_factory.mktemp("round") / name
    write_text(path, *matrices)
    matrices[0].eliminate_zeros()
    for matrix, back in zip(matrices, read_text(path), strict=True):
        same(matrix, back)
    assert list(path.parent.iterdir()) == [path]


def test_write_leaves_the_old_file_when_it_fails(tmp_path):
    path = written(tmp_path, GOOD)
    features, labels = read_text(path)
    with pytest.raises(InputError, match="3 rows of features and 2 of labels"):
        write_text(path, features, labels[:2])
    assert path.read_text() == GOOD
    with pytest.raises(InputError, match="not finite"):
        write_text(path, features * np.float32(np.inf), labels)
    assert path.read_text() == GOOD
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match="no such file"):
        write_text(tmp_path / "none" / "train.txt", features, labels)


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
    monkeypatch.setattr("snm.data.formats.text._BLOCK_BYTES", 6)
    path = written(tmp_path, "3 5 4\n0 0:1\n1 1:1\n1 9:1\n")
    reader = TextReader(path, text_errors.ONE_FILE)
    blocks = reader.blocks()
    assert next(blocks).ids.tolist() == [0]
    assert next(blocks).ids.tolist() == [1]
    with pytest.raises(InputError, match=r"train\.txt:4: found feature index 9"):
        next(blocks)
