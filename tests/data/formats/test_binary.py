"""Readers of SciPy .npz and dense .npy: exact values, and a one-line error for every fault."""

import zipfile

import numpy as np
import pytest
from scipy import sparse

from snm.data.formats.binary import read_npy, read_npz
from snm.errors import InputError


def npz(path, **members):
    good = sparse.csr_matrix(np.array([[0, 1, 2], [0, 0, 0], [3, 0, 0]], np.float32))
    whole = {name: getattr(good, name) for name in ("data", "indices", "indptr")}
    whole |= {"shape": np.array(good.shape), "format": np.array(b"csr")}
    whole |= members
    np.savez(path, **{name: value for name, value in whole.items() if value is not None})
    return path


def test_npz_is_read_with_sorted_ids(tmp_path):
    path = npz(tmp_path / "x.npz", indices=np.array([2, 1, 0], np.int64), data=np.array([2, 1, 3]))
    matrix = read_npz(path)
    assert matrix.toarray().tolist() == [[0, 1, 2], [0, 0, 0], [3, 0, 0]]
    assert matrix.dtype == np.float32
    assert matrix.indices.tolist() == [1, 2, 0]
    assert read_npz(npz(path, format=np.array("csr"))).nnz == 3


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"indptr": None}, "no member indptr, expected a SciPy CSR matrix; a dense one is .npy"),
        ({"format": np.array(b"csc")}, "format \\['csc'\\], expected 'csr'"),
        ({"shape": np.array([3])}, "shape \\[3\\]"),
        ({"shape": np.array([3, 2**40])}, "two sizes from 1"),
        ({"shape": np.array([2**30, 3])}, "indptr: found 4 entries, expected 1073741825"),
        ({"indptr": np.array([0, 2, 1, 3])}, "row pointers that decrease or pass the end at row 1"),
        ({"indptr": np.array([0, 2, 2, 4])}, "row pointers that decrease or pass the end at row 2"),
        ({"indptr": np.array([1, 2, 2, 3])}, "1 first, expected 0"),
        ({"indptr": np.array([0, 2, 2, 2])}, "2 last, expected 3"),
        ({"indptr": np.array([0.0, 2, 2, 3])}, "an array of float64"),
        ({"indices": np.array([1, 3, 0])}, "row 0: feature index 3, expected an index from 0 to 2"),
        ({"indices": np.array([1, 2, -1])}, "row 2: feature index -1"),
        ({"indices": np.array([1, 2**33, 0])}, "row 0: feature index 8589934592"),
        ({"indices": np.array([2, 2, 0])}, "row 0: feature 2 twice"),
        ({"indices": np.array([2, 0])}, "2 entries, expected 3"),
        ({"data": np.array([1, 2, np.nan], np.float32)}, "row 2: value nan, expected a finite"),
        ({"data": np.array([1, np.inf, 2], np.float32)}, "row 0: value inf"),
        ({"data": np.array([1, 1e39, 2])}, "row 0: value 1e\\+39"),
        ({"data": np.array([[1, 2, 3]])}, "2 axes"),
        ({"data": np.array(["a", "b", "c"])}, "an array of <U1"),
        ({"data": np.array([1, 2, None])}, "data: found damaged data or no array"),
    ],
)
def test_errors_of_npz(tmp_path, members, message):
    path = npz(tmp_path / "x.npz", **members)
    with pytest.raises(InputError, match=message):
        read_npz(path)


def test_damage_of_a_member_packed_by_lzma(tmp_path):
    """Another program may pack so; the error of Python's module is no ValueError."""
    good, path = npz(tmp_path / "good.npz"), tmp_path / "x.npz"
    with zipfile.ZipFile(good) as plain, zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as packed:
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    assert read_npz(path).nnz == 3
    whole = path.read_bytes()
    begin = whole.index(b"data.npy") + len("data.npy") + 12
    path.write_bytes(whole[:begin] + b"\xff" * 20 + whole[begin + 20 :])
    with pytest.raises(InputError, match="data: found damaged data or no array"):
        read_npz(path)


def test_labels_in_npz_are_ones(tmp_path):
    path = npz(tmp_path / "y.npz", data=np.array([1, 1, 0.5]))
    with pytest.raises(InputError, match=r"row 2: value 0\.5, expected 1"):
        read_npz(path, noun="label")


def test_damaged_binary_files(tmp_path):
    path = npz(tmp_path / "x.npz")
    raw = bytearray(path.read_bytes())
    path.write_bytes(raw[:-40])
    with pytest.raises(InputError, match=r"expected a SciPy \.npz file"):
        read_npz(path)
    raw[raw.index(np.float32(3).tobytes())] ^= 1  # still a finite number, but the CRC is wrong
    path.write_bytes(raw)
    with pytest.raises(InputError, match="damage"):
        read_npz(path)
    path.write_text("rubbish")
    with pytest.raises(InputError, match=r"expected a SciPy \.npz file"):
        read_npz(path)
    dense = tmp_path / "x.npy"
    dense.write_text("rubbish")
    with pytest.raises(InputError, match="no array"):
        read_npy(dense)
    np.save(dense, np.ones((9, 9)))
    dense.write_bytes(dense.read_bytes()[:-8])
    with pytest.raises(InputError, match="no array"):
        read_npy(dense)


def test_dense_inputs(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.array([[0, 1.5], [0, 0], [-2, 3]], np.float64))
    matrix = read_npy(path)
    assert matrix.dtype == np.float32
    assert matrix.nnz == 3
    assert matrix.toarray().tolist() == [[0, 1.5], [0, 0], [-2, 3]]
    for array, message in [
        (np.array([[0, 1], [np.nan, 1]]), "row 1: value nan, expected a finite"),
        (np.ones(3), "shape \\(3,\\)"),
        (np.array([[1, None]]), "no array"),
        (np.array([["a"]]), "<U1"),
        (np.ones((0, 3)), "at least one row"),
    ]:
        np.save(path, array)
        with pytest.raises(InputError, match=message):
            read_npy(path)
