"""What is written reads back, streams equal reading, and files of names, filters and weights."""

import gzip
import itertools

import numpy as np
import pytest
from data.formats.text_files import GOOD, written
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from snm.data.formats import dispatch as formats
from snm.data.formats import text_errors
from snm.data.formats.text import TextReader
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
    formats.write_text(path, *matrices)
    matrices[0].eliminate_zeros()
    for matrix, back in zip(matrices, formats.read_text(path), strict=True):
        same(matrix, back)
    assert list(path.parent.iterdir()) == [path]


def test_write_leaves_the_old_file_when_it_fails(tmp_path):
    path = written(tmp_path, GOOD)
    features, labels = formats.read_text(path)
    with pytest.raises(InputError, match="3 rows of features and 2 of labels"):
        formats.write_text(path, features, labels[:2])
    assert path.read_text() == GOOD
    with pytest.raises(InputError, match="not finite"):
        formats.write_text(path, features * np.float32(np.inf), labels)
    assert path.read_text() == GOOD
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match="no such file"):
        formats.write_text(tmp_path / "none" / "train.txt", features, labels)


def all_inputs(folder, features, labels):
    """Writes the same features in every format that streaming reads."""
    formats.write_text(folder / "one.txt", features, labels)
    formats.write_text(folder / "bare.txt", features, sparse.csr_matrix(labels.shape))
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
        pieces = list(formats.iter_features(path, 8, chunk_rows))
        sizes = [piece.shape[0] for piece in pieces]
        assert all(size == chunk_rows for size in sizes[:-1]), path
        assert sum(sizes) == 23 and 0 < sizes[-1] <= chunk_rows, path
        assert all(piece.dtype == np.float32 for piece in pieces)
        same(sparse.vstack(pieces, "csr"), features)
        with pytest.raises(InputError, match=r"found .*8 features, expected 9"):
            next(formats.iter_features(path, 9, chunk_rows))


def test_streaming_yields_what_comes_before_a_fault(tmp_path, monkeypatch):
    monkeypatch.setattr("snm.data.formats.text._BLOCK_BYTES", 6)
    path = written(tmp_path, "3 5 4\n0 0:1\n1 1:1\n1 9:1\n")
    reader = TextReader(path, text_errors.ONE_FILE)
    blocks = reader.blocks()
    assert next(blocks).ids.tolist() == [0]
    assert next(blocks).ids.tolist() == [1]
    with pytest.raises(InputError, match=r"train\.txt:4: found feature index 9"):
        next(blocks)


def test_filters(tmp_path):
    path = written(tmp_path, "0 3\n2 1\r\n0 3\n", "filter_labels_test.txt")
    pairs = formats.read_filter(path, 3, 4)
    assert pairs.dtype == np.int64
    assert pairs.tolist() == [[0, 3], [2, 1], [0, 3]]
    for text, message in [
        ("0 1\n3 1\n", "txt:2: found row index 3, expected an index from 0 to 2"),
        ("0 4\n", "txt:1: found label index 4, expected an index from 0 to 3"),
        ("0 1\n0\n", "txt:2: found '0', expected two indices"),
        ("0 -1\n", "txt:1: found '0 -1', expected two indices"),
        ("0 1\n\n1 1\n", "txt:2: found '', expected two indices"),
    ]:
        with pytest.raises(InputError, match=message):
            formats.read_filter(written(tmp_path, text, path.name), 3, 4)
    assert formats.read_filter(written(tmp_path, "", path.name), 3, 4).shape == (0, 2)
    for end in ("\n", "\r\n\n"):
        read = formats.read_filter(written(tmp_path, f"0 1\n2 3\n{end}", path.name), 3, 4)
        assert read.tolist() == [[0, 1], [2, 3]]


def test_names(tmp_path):
    path = written(tmp_path, "a\nnaïve\u2028one \n\n", "labels.txt")
    assert formats.read_names(path, 3) == ("a", "naïve\u2028one ", "")
    with pytest.raises(InputError, match=r"labels\.txt:2: found 2 names, expected 1, one a label"):
        formats.read_names(path, 1)
    assert formats.read_names(path, 2) == ("a", "naïve\u2028one ")  # blank lines are the end
    with pytest.raises(InputError, match=r"labels\.txt:4: found 3 names, expected 4"):
        formats.read_names(path, 4)
    with pytest.raises(InputError, match=r"labels\.txt:2: found bytes that are not UTF-8"):
        formats.read_names(written(tmp_path, b"a\n\xff\n", "labels.txt"), 2)
    marked = written(tmp_path, b"\xef\xbb\xbfa\nb\n", "labels.txt")  # as spreadsheets save it
    assert formats.read_names(marked, 2) == ("a", "b")
    packed = written(tmp_path, "a\nb", "labels.txt.gz")
    assert formats.read_names(packed, 2) == ("a", "b")
    packed.write_bytes(packed.read_bytes()[:-4])
    with pytest.raises(InputError, match="truncated gzip"):
        formats.read_names(packed, 2)


def test_weights(tmp_path):
    path = written(tmp_path, "0\n1.5\r\n3e-2\n", "weights.txt")
    weights = formats.read_weights(path, 3)
    ended = written(tmp_path, "0\n1.5\n3e-2\n\n\n", "ended.txt")
    assert formats.read_weights(ended, 3).tolist() == weights.tolist()
    assert weights.dtype == np.float32
    np.testing.assert_array_equal(weights, np.array([0, 1.5, 0.03], np.float32))
    for text, message in [
        ("1\n-1\n2\n", r"weights\.txt:2: found '-1', expected a finite number of at least 0"),
        ("1\n2\nnan\n", "txt:3: found 'nan'"),
        ("1e39\n2\n1\n", "txt:1: found '1e39'"),
        ("1_0\n2\n1\n", "txt:1: found '1_0'"),
        ("1\x1e\n2\n1\n", r"txt:1: found '1\\x1e'"),
        ("1\n\n1\n", "txt:2: found ''"),
        ("1\n1\n", r"txt:3: found 2 weights, expected 3, one a training point"),
        ("0\n0\n0\n", r"weights\.txt: found only zeros"),
    ]:
        with pytest.raises(InputError, match=message):
            formats.read_weights(written(tmp_path, text, path.name), 3)
    for text, message in [
        ("1\n0\n2\n", r"weights\.txt:2: found '0', expected a finite number above 0"),
        ("1e-60\n2\n1\n", "txt:1: found '1e-60'"),  # 0 as a float32
        ("1\n1\n", r"txt:3: found 2 weights, expected 3, one a label"),
    ]:
        with pytest.raises(InputError, match=message):
            formats.read_weights(written(tmp_path, text, path.name), 3, "label", zero=False)
