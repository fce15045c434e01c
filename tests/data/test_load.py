"""Loading: all folder layouts, and inconsistent files."""

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from data.toy_folders import TEST, TEST_X, TEST_Y, TRAIN, TRAIN_X, TRAIN_Y, check, one_file, put
from real_data import real_data_folder
from scipy import sparse

from snm.data.load import absolute_source, load
from snm.errors import InputError


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch):
    """Each test parses its files: the cache of all tests may have the same content."""
    monkeypatch.setenv("SNM_CACHE", str(tmp_path / "cache"))


def pairs(folder):
    return put(
        folder,
        **{
            "trn_X_Xf.txt": "3 5\n0:1 4:2\n2:1\n1:1\n",
            "trn_X_Y.txt": "3 4\n1:1 3:1\n\n0:1\n",
            "tst_X_Xf.txt": "2 5\n4:1\n0:1 2:2\n",
            "tst_X_Y.txt": "2 4\n3:1\n2:1\n",
        },
    )


def earlier_pairs(folder):
    for file in pairs(folder).iterdir():
        name = file.name.replace("X_Xf", "ft_mat").replace("X_Y", "lbl_mat")
        file.rename(folder / name)
    return folder


def gzipped(folder):
    for file in one_file(folder).iterdir():
        (folder / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    return folder


def arrays(folder, dense=False):
    folder.mkdir()
    for part, x, y in (("trn", TRAIN_X, TRAIN_Y), ("tst", TEST_X, TEST_Y)):
        if dense:
            np.save(folder / f"X.{part}.npy", np.array(x, np.float32))
        else:
            sparse.save_npz(folder / f"X.{part}.npz", sparse.csr_matrix(np.array(x, np.float64)))
        sparse.save_npz(folder / f"Y.{part}.npz", sparse.csr_matrix(np.array(y, np.int64)))
    return folder


def dense_arrays(folder):
    return arrays(folder, dense=True)


@pytest.mark.parametrize("make", [one_file, gzipped, pairs, earlier_pairs, arrays, dense_arrays])
def test_every_layout(tmp_path, make):
    folder = make(tmp_path / "toy")
    first, again, uncached = load(folder), load(str(folder)), load(folder, cache=None)
    for data in (first, again, uncached):
        check(data)
        assert data.name == "toy"
        assert data.label_names is None
        assert data.sha256 == first.sha256
        assert len(data.sha256) == 64
        assert data.label_frequency().tolist() == [1, 1, 0, 1]
        assert data.label_frequency().dtype == np.int64


@pytest.mark.parametrize("mapped", [False, True])
def test_features_of_value_0_are_left_out(tmp_path, mapped):
    lines = "2 5 4\n0 0:0 1:0 2:1 4:-0\n 0:0 3:1e-60\n"
    one = put(tmp_path / "one", **{"train.txt": lines})
    pair = {"trn_X_Xf.txt": "2 5\n0:0 2:1\n3:0\n", "trn_X_Y.txt": "2 4\n0:1\n\n"}
    two = put(tmp_path / "two", **pair)
    stored = sparse.csr_matrix(([0.0, 0, 1, 0], [0, 1, 2, 4], [0, 3, 4]), shape=(2, 5))
    packed = arrays(tmp_path / "npz")
    sparse.save_npz(packed / "X.trn.npz", stored)
    sparse.save_npz(packed / "Y.trn.npz", sparse.csr_matrix([[1, 0, 0, 0], [0, 0, 0, 0]]))
    for folder in (one, two, packed):
        for _ in range(2):  # parsed, and from the cache
            train = load(folder, mapped=mapped).train
            assert train.features.indices.tolist() == [2]
            assert train.features.indptr.tolist() == [0, 1, 1]
            assert train.labels.indptr.tolist() == [0, 1, 1]


def test_train_without_test_names_and_filters(tmp_path):
    folder = put(tmp_path / "toy", **{"train.txt": TRAIN, "labels.txt": "a\nb\nc\nd\n"})
    data = load(folder)
    assert data.test is None
    assert data.label_names == ("a", "b", "c", "d")
    assert data.train.filter is None
    put(folder, **{"test.txt": TEST, "filter_labels_test.txt": "1 2\n"})
    put(folder, **{"filter_labels_train.txt": "0 1\n2 3\n"})
    full = load(folder)
    assert full.train.filter.tolist() == [[0, 1], [2, 3]]
    assert full.test.filter.tolist() == [[1, 2]]
    assert full.sha256 != data.sha256
    (folder / "labels.txt").rename(folder / "Y.txt")
    assert load(folder).label_names == data.label_names


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no training file, expected one of train.txt; trn_X_Xf.txt + trn_X_Y.txt; trn_ft_"),
        ({"test.txt": TEST}, "no train.txt"),
        ({"trn_X_Xf.txt": "1 5\n0:1\n"}, "no trn_X_Y.txt, expected trn_X_Xf.txt + trn_X_Y.txt"),
        (
            {"train.txt": TRAIN, "trn_X_Xf.txt": ""},
            "several layouts (one-file text and text pairs)",
        ),
        ({"train.txt": TRAIN, "train.txt.gz": ""}, "train.txt and train.txt.gz, expected one"),
        ({"train.txt": TRAIN, "labels.txt": "a\n", "Y.txt": "a\n"}, "one file of label names"),
        ({"train.txt": TRAIN, "labels.txt": "a\nb\n"}, "labels.txt:3: found 2 names, expected 4"),
        ({"train.txt": TRAIN, "test.txt": "1 6 4\n0 0:1\n"}, "test.txt:1: found 6 features, exp"),
        ({"train.txt": TRAIN, "test.txt": "1 5 3\n0 0:1\n"}, "test.txt:1: found 3 labels, expec"),
        (
            {"train.txt": TRAIN, "filter_labels_train.txt": "3 0\n"},
            "train.txt:1: found row index 3",
        ),
        ({"train.txt": TRAIN[:-3] + "9\n"}, "train.txt:4: found"),
    ],
)
def test_inconsistent_files(tmp_path, files, message):
    folder = put(tmp_path / "toy", **files)
    for _ in range(2):  # the cache must not hide it
        with pytest.raises(InputError) as caught:
            load(folder)
        assert message in str(caught.value)
        assert str(folder) in str(caught.value)


def test_parts_of_pairs_that_do_not_fit(tmp_path):
    folder = pairs(tmp_path / "toy")
    (folder / "tst_X_Y.txt").write_text("2 5\n3:1\n2:1\n")
    with pytest.raises(InputError, match=r"tst_X_Y\.txt:1: found 5 labels, expected 4"):
        load(folder)
    (folder / "tst_X_Y.txt").unlink()
    with pytest.raises(InputError, match=r"no tst_X_Y\.txt, expected tst_X_Xf\.txt \+ tst_X_Y"):
        load(folder)
    folder = arrays(tmp_path / "arrays")
    sparse.save_npz(folder / "Y.trn.npz", sparse.csr_matrix(np.ones((2, 4))))
    with pytest.raises(InputError, match=r"Y\.trn\.npz: found 2 rows, expected 3"):
        load(folder)


def test_no_folder(tmp_path):
    with pytest.raises(InputError, match="found no such folder, expected a folder of data"):
        load(tmp_path / "none")
    folder = put(tmp_path, **{"train.txt": TRAIN, "other.txt": TRAIN})
    with pytest.raises(InputError, match=f"a file of a data set, expected its folder, {folder}"):
        load(folder / "train.txt")
    with pytest.raises(InputError, match="found a file, expected a folder of data"):
        load(folder / "other.txt")


def test_load_synthetic_by_name(tmp_path, monkeypatch):
    data = load("synthetic")
    assert (data.name, data.train.num_points, data.test.num_points) == ("synthetic", 8000, 2000)
    monkeypatch.chdir(tmp_path)
    one_file(tmp_path / "synthetic")
    check(load("./synthetic"))
    check(load(Path("synthetic")))


def test_a_source_is_named_for_other_folders(tmp_path, monkeypatch):
    """As runs and comparisons keep it: what `load` takes by its name keeps that name."""
    monkeypatch.chdir(tmp_path)
    for name in ("synthetic", "here"):
        (tmp_path / name).mkdir()
    for source, said in (
        ("synthetic", "synthetic"),
        ("./synthetic", f"{tmp_path}/synthetic"),
        (Path("here"), f"{tmp_path}/here"),
        ("bibtex", "bibtex"),  # a fetched set
        ("gs://bucket/sets/a", "gs://bucket/sets/a"),
        (Path("gs://bucket/sets/a"), "gs://bucket/sets/a"),
    ):
        assert absolute_source(source) == said


def test_real_data_is_what_its_readme_says():
    for name, train, test, d, k, average in [
        ("delicious", 12920, 3185, 500, 983, 19.04),
        ("citeulike-t-14k", 20755, 5189, 20000, 13883, 9.34),
        ("gowalla", 24000, 5858, 40981, 40981, 7.28),
    ]:
        data = load(real_data_folder(name))
        assert (data.train.num_points, data.test.num_points) == (train, test)
        assert (data.train.num_features, data.train.num_labels) == (d, k)
        assert round(data.train.labels.nnz / train, 2) == average
        assert (data.label_names is not None) == (name == "citeulike-t-14k")


def test_loading_data_does_not_import_jax():
    modules = ("dataset", "statistics", "generated.synthetic", "weighting")
    code = f"import sys, {', '.join(f'snm.data.{name}' for name in modules)};"
    code += "sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("pair", [(TRAIN_X, TRAIN_Y), np.ones((2, 2)), None])
def test_what_is_no_path_is_refused(pair):
    with pytest.raises(InputError, match=r"^data: found a value of type \w+, expected the path"):
        load(pair)
