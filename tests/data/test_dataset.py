"""Data sets: all folder layouts, inconsistent files, and a cache that never changes the result."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from real_data import real_data_folder
from scipy import sparse

from snm.data import content as content_module
from snm.data.dataset import Dataset, Points
from snm.data.formats import dispatch as formats
from snm.data.load import absolute_source, load
from snm.errors import InputError

TRAIN = "3 5 4\n1,3 0:1 4:2\n 2:1\n0 1:1\n"
TEST = "2 5 4\n3 4:1\n2 0:1 2:2\n"
TRAIN_X = [[1, 0, 0, 0, 2], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0]]
TRAIN_Y = [[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]]
TEST_X = [[0, 0, 0, 0, 1], [1, 0, 2, 0, 0]]
TEST_Y = [[0, 0, 0, 1], [0, 0, 1, 0]]


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    """Keeps the tests away from the user's cache."""
    monkeypatch.setenv("SNM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def put(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def one_file(folder):
    return put(folder, **{"train.txt": TRAIN, "test.txt": TEST})


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


def check(data):
    assert data.train.features.toarray().tolist() == TRAIN_X
    assert data.train.labels.toarray().tolist() == TRAIN_Y
    assert data.test.features.toarray().tolist() == TEST_X
    assert data.test.labels.toarray().tolist() == TEST_Y
    for points in (data.train, data.test):
        for matrix in (points.features, points.labels):
            assert matrix.dtype == np.float32
            assert matrix.format == "csr"
            assert matrix.has_sorted_indices
        assert (points.num_features, points.num_labels) == (5, 4)
    assert (data.train.num_points, data.test.num_points) == (3, 2)


@pytest.mark.parametrize("make", [one_file, gzipped, pairs, arrays, dense_arrays])
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
        ({}, "no training file, expected one of train.txt; trn_X_Xf.txt + trn_X_Y.txt; X.trn.npz"),
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


def entries(cache_folder):
    return sorted(path.name for path in cache_folder.iterdir())


def test_a_cached_data_set_is_not_parsed_again(tmp_path, cache_folder, monkeypatch):
    folder = one_file(tmp_path / "toy")
    data = load(folder)
    assert entries(cache_folder) == [f"v3-{data.sha256}"]
    with monkeypatch.context() as patch:
        patch.setattr(formats, "read_text", lambda path: pytest.fail("parsed again"))
        check(load(folder))
        with pytest.raises(pytest.fail.Exception):
            load(folder, cache=None)
    (folder / "test.txt").write_text(TEST.replace("4:1", "4:7"))
    assert load(folder).test.features[0, 4] == 7
    assert len(entries(cache_folder)) == 2


def test_location_of_the_cache(tmp_path, monkeypatch):
    folder = one_file(tmp_path / "toy")
    load(folder, cache=tmp_path / "given")
    monkeypatch.delenv("SNM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    load(folder)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    load(folder)
    for place in ("given", "xdg/snm", "home/.cache/snm"):
        assert len(entries(tmp_path / place)) == 1


def damage_cut(entry):
    file = entry / "train.features.data.npy"
    file.write_bytes(file.read_bytes()[:-3])


def damage_flip(entry):
    file = entry / "test.labels.indices.npy"
    raw = bytearray(file.read_bytes())
    raw[-4] ^= 1
    file.write_bytes(raw)


def damage_missing(entry):
    (entry / "train.labels.indptr.npy").unlink()


def damage_manifest(entry):
    (entry / "manifest.json").write_text("{")


def damage_shape(entry):
    manifest = json.loads((entry / "manifest.json").read_text())
    manifest["train"]["features"]["shape"] = [9, 5]
    (entry / "manifest.json").write_text(json.dumps(manifest))


def damage_type(entry):
    np.save(entry / "train.features.data.npy", np.ones(4, np.float64))


def damage_all(entry):
    for file in entry.iterdir():
        file.unlink()


@pytest.mark.parametrize(
    "damage",
    [
        damage_cut,
        damage_flip,
        damage_missing,
        damage_manifest,
        damage_shape,
        damage_type,
        damage_all,
    ],
)
def test_a_damaged_cache_is_ignored_and_rewritten(tmp_path, cache_folder, monkeypatch, damage):
    folder = one_file(tmp_path / "toy")
    entry = cache_folder / f"v3-{load(folder).sha256}"
    damage(entry)
    check(load(folder))
    monkeypatch.setattr(formats, "read_text", lambda path: pytest.fail("was not mended"))
    check(load(folder))
    assert entries(cache_folder) == [entry.name]


def test_an_unwritable_cache_is_no_error(tmp_path):
    folder = one_file(tmp_path / "toy")
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    check(load(folder, cache=in_the_way))
    check(load(folder, cache=in_the_way / "below"))
    check(load(folder, cache=Path("/proc/snm-cache")))
    assert in_the_way.read_text() == "not a folder"


def test_an_interrupted_write_leaves_nothing(tmp_path, cache_folder, monkeypatch):
    folder = one_file(tmp_path / "toy")

    def full_disk(path, array):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "save", full_disk)
        check(load(folder))
    assert entries(cache_folder) == []


def test_split_is_a_seeded_partition():
    n = 50
    features = sparse.csr_matrix(np.arange(1, n + 1, dtype=np.float32)[:, None])
    labels = sparse.csr_matrix(np.eye(n, dtype=np.float32))
    pairs = np.stack([np.arange(n), np.arange(n)[::-1]], axis=1)
    data = Dataset("toy", Points(features, labels, pairs), None, None, "0" * 64)
    split = data.split(0.3, seed=1)
    train, held = (part.features.toarray()[:, 0].astype(int) for part in (split.train, split.test))
    assert len(held) == 15
    assert sorted([*train, *held]) == list(range(1, n + 1))
    assert sorted(held) == list(held)
    for part in (split.train, split.test):
        value = part.features.toarray()[:, 0].astype(int)
        assert part.labels.indices.tolist() == (value - 1).tolist()
        rows, others = part.filter[:, 0], part.filter[:, 1]
        assert sorted(rows) == list(range(part.num_points))
        assert (value[rows] - 1 + others == n - 1).all()
    again = data.split(0.3, seed=1).test.features.toarray()[:, 0]
    assert again.tolist() == held.tolist()
    assert data.split(0.3, seed=2).test.features.toarray()[:, 0].tolist() != held.tolist()
    for fraction in (0, 1, -0.1, 0.001, 0.999, float("nan")):
        with pytest.raises(InputError, match="validation_fraction"):
            data.split(fraction, seed=0)


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
    code = (
        "import sys, snm.data.dataset, snm.data.statistics, snm.data.synthetic, snm.data.weighting;"
    )
    code += "sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("mapped", [True, None])
def test_files_that_change_while_they_are_read_are_not_cached(tmp_path, monkeypatch, mapped):
    """The cache would have their points under the key of the old content for good."""
    folder, original = one_file(tmp_path / "data"), content_module.sha256_of

    def replaced(files):
        key = original(files)
        put(folder, **{"train.txt": "3 5 4\n0 2:9\n0 2:9\n0 2:9\n"})
        return key

    with monkeypatch.context() as patch:
        patch.setattr(content_module, "sha256_of", replaced)
        with pytest.raises(InputError, match="found files that changed while they were read"):
            load(folder, mapped=mapped)
    assert not list((tmp_path / "cache").glob("v*"))
    one_file(folder)
    assert load(folder, mapped=mapped).train.features.toarray().tolist() == TRAIN_X


@pytest.mark.parametrize("pair", [(TRAIN_X, TRAIN_Y), np.ones((2, 2)), None])
def test_what_is_no_path_is_refused(pair):
    with pytest.raises(InputError, match=r"^data: found a value of type \w+, expected the path"):
        load(pair)


def test_data_are_shown_in_one_line(tmp_path):
    """Names of labels, which may be millions, are not."""
    (tmp_path / "train.txt").write_text(TRAIN)
    (tmp_path / "test.txt").write_text(TEST)
    (tmp_path / "labels.txt").write_text("one\ntwo\nthree\nfour\n")
    data = load(tmp_path)
    sizes = "5 features, 4 labels"
    assert repr(data) == f"Dataset({data.name!r}: 3 training and 2 test points, {sizes})"
    assert repr(data.train) == f"Points(3 points, {sizes})"
