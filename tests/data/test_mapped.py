"""Data that stay in files: what is read and computed is the same, and is in files too."""

import dataclasses

import numpy as np
import pytest
import tiny
from scipy import sparse

import snm
from snm.config.resolve import resolve
from snm.data import load as loading
from snm.data.load import cache_key, load
from snm.data.mapped import is_mapped, mapped_zeros, select_rows
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.trainer.memory.notes import why_no_memory


def same(one, other):
    assert one.shape == other.shape
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.fixture
def folder(tmp_path):
    return tiny.write(tmp_path / "data", names=True)


@pytest.mark.parametrize("cached", [False, True])
def test_mapped_data_are_the_same(folder, tmp_path, cached):
    whole = load(folder, cache=tmp_path / "cache" if cached else None)
    assert not is_mapped(whole.train.features.data)
    mapped = load(folder, cache=tmp_path / "cache", mapped=True)
    assert mapped.sha256 == whole.sha256 and mapped.label_names == whole.label_names
    for one, other in ((mapped.train, whole.train), (mapped.test, whole.test)):
        for name in ("features", "labels"):
            found = getattr(one, name)
            assert is_mapped(found.data) and is_mapped(found.indices)
            same(found, getattr(other, name))


def test_pieces_are_the_entry_that_is_written_whole(folder, tmp_path):
    key = cache_key(folder)
    for name, mapped in (("whole", False), ("pieces", True)):
        load(folder, cache=tmp_path / name, mapped=mapped)
    files = {}
    for name in ("whole", "pieces"):
        place = tmp_path / name / f"v3-{key}"
        files[name] = {file.name: file.read_bytes() for file in place.iterdir()}
    assert files["whole"] == files["pieces"] and len(files["whole"]) == 13


def test_pairs_of_files_in_many_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("snm.data.formats.repository_text.reader._BLOCK_BYTES", 64)
    folder = tmp_path / "pairs"
    folder.mkdir()
    made = snm.generate(points=40, test_points=9, features=30, labels=12, seed=3)
    for part, points in (("trn", made.train), ("tst", made.test)):
        for name, matrix in (("X_Xf", points.features), ("X_Y", points.labels)):
            lines = [f"{matrix.shape[0]} {matrix.shape[1]}"]
            lines += [
                " ".join(f"{j}:{v:g}" for j, v in zip(row.indices, row.data, strict=True))
                for row in matrix
            ]
            (folder / f"{part}_{name}.txt").write_text("\n".join(lines) + "\n")
    mapped = load(folder, cache=tmp_path / "cache", mapped=True)
    for one, other in ((mapped.train, made.train), (mapped.test, made.test)):
        same(one.labels, other.labels)
        np.testing.assert_allclose(one.features.toarray(), other.features.toarray(), rtol=1e-5)
    with (folder / "trn_X_Y.txt").open("a") as more:
        more.write("3:1\n")
    with pytest.raises(InputError, match=r"trn_X_Y\.txt:42"):
        load(folder, cache=tmp_path / "cache", mapped=True)
    assert [file.name for file in (tmp_path / "cache").iterdir()] == [f"v3-{mapped.sha256}"]


def test_large_files_are_mapped(folder, tmp_path, monkeypatch):
    size = sum(file.stat().st_size for file in folder.glob("*.txt") if file.stem != "labels")
    for free, mapped in ((4 * size + 4, False), (4 * size - 4, True)):
        monkeypatch.setattr(loading, "available_ram", lambda free=free: free)
        assert is_mapped(load(folder, cache=tmp_path / "cache").train.features.data) == mapped
    assert not is_mapped(load(folder, cache=None).train.features.data)  # nowhere to keep them


@pytest.mark.parametrize(("dtype", "growth"), [("int8", 8), ("float16", 4), ("float64", 1)])
def test_dense_files_count_as_the_entries_they_become(dtype, growth, tmp_path, monkeypatch):
    (folder := tmp_path / "dense").mkdir()
    np.save(folder / "X.trn.npy", np.ones((400, 30), dtype))
    sparse.save_npz(folder / "Y.trn.npz", sparse.csr_matrix(np.eye(400, 3)))
    size = growth * (folder / "X.trn.npy").stat().st_size
    size += 4 * (folder / "Y.trn.npz").stat().st_size
    for free, mapped in ((4 * size + 4, False), (4 * size - 4, True)):
        monkeypatch.setattr(loading, "available_ram", lambda free=free: free)
        assert is_mapped(load(folder, cache=tmp_path / "cache").train.features.data) == mapped
    (folder / "X.trn.npy").write_bytes(b"no array")
    with pytest.raises(InputError, match=r"X\.trn\.npy"):
        load(folder, cache=tmp_path / "cache")


def test_no_room_for_what_is_to_be_mapped(folder, tmp_path, monkeypatch):
    """Data that memory holds are read whole; larger ones, and what was asked for, are refused."""
    (place := tmp_path / "file").touch()
    size = sum(file.stat().st_size for file in folder.glob("*.txt") if file.stem != "labels")
    monkeypatch.setattr(loading, "available_ram", lambda: 2 * size)
    assert not is_mapped(load(folder, cache=place).train.features.data)
    with pytest.raises(
        InputError, match=r"cache folder .*file: found .*, expected a folder for the"
    ):
        load(folder, cache=place, mapped=True)
    (arrays := tmp_path / "arrays").mkdir()
    for part, points in (("trn", whole := load(folder, cache=None).train), ("tst", whole)):
        sparse.save_npz(arrays / f"X.{part}.npz", points.features)
        sparse.save_npz(arrays / f"Y.{part}.npz", points.labels)
    assert is_mapped(load(arrays, cache=tmp_path / "c", mapped=True).train.features.data)
    with pytest.raises(InputError, match=r"file: found no entry that can be written and mapped"):
        load(arrays, cache=place, mapped=True)
    with pytest.raises(InputError, match="mapped: found True without a cache folder"):
        load(folder, cache=None, mapped=True)
    monkeypatch.setattr(loading, "available_ram", lambda: size // 2)
    with pytest.raises(
        InputError, match=r"cache folder .*file: found file exists, expected a folder"
    ):
        load(folder, cache=place)


def test_the_free_memory_is_within_the_limit_of_the_process(monkeypatch):
    # The use is a number of the test: threads of other tests end between two readings of it.
    ram = snm.machine.ram
    monkeypatch.setattr(ram, "_status", {"VmData": 60 << 20, "VmSize": 97 << 20}.get)
    for limited, free in ((ram.resource.RLIMIT_DATA, 40), (ram.resource.RLIMIT_AS, 3)):
        limits = {limited: 100 << 20}
        monkeypatch.setattr(
            ram.resource,
            "getrlimit",
            lambda one, limits=limits: (limits.get(one, ram.resource.RLIM_INFINITY),) * 2,
        )
        assert ram.available_ram() == free << 20


@pytest.mark.parametrize("kind", ["tfidf", "l2", "standard", "none"])
def test_weighted_values_are_in_a_file_without_a_name(folder, tmp_path, kind):
    whole, mapped = load(folder, cache=None), load(folder, cache=tmp_path / "c", mapped=True)
    before = sorted((tmp_path / "c").iterdir())
    weighting = Weighting.fit(kind, mapped.train.features)
    found = weighting.apply(mapped.train.features)
    assert is_mapped(found.data) and sorted((tmp_path / "c").iterdir()) == before
    same(found, Weighting.fit(kind, whole.train.features).apply(whole.train.features))


def test_rows_of(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("snm.data.mapped._ENTRIES", 50)
    whole, mapped = load(folder, cache=None), load(folder, cache=tmp_path / "c", mapped=True)
    rows = np.flatnonzero(np.arange(tiny.POINTS) % 7)
    every = np.arange(tiny.POINTS)
    for some in (rows, rows[::-1], rows[:1], rows[:0], every[::-1]):
        found = select_rows(mapped.train.features, some)
        assert is_mapped(found.data) == is_mapped(found.indices) == (len(some) > 0)
        same(found, whole.train.features[some])
        assert not is_mapped(select_rows(whole.train.features, some).data)
    assert select_rows(mapped.train.features, every) is mapped.train.features
    empty = mapped_zeros(mapped.train.features.data, 0, np.float32)
    assert empty.shape == (0,) and not is_mapped(empty)


def test_parts_of_mapped_data_are_mapped(folder, tmp_path):
    whole, mapped = load(folder, cache=None), load(folder, cache=tmp_path / "c", mapped=True)
    for one, other in (
        (whole.train.take(np.arange(9)), mapped.train.take(np.arange(9))),
        *zip(
            (whole.split(0.3, 1).train, whole.split(0.3, 1).test),
            (mapped.split(0.3, 1).train, mapped.split(0.3, 1).test),
            strict=True,
        ),
    ):
        for name in ("features", "labels"):
            assert is_mapped(getattr(other, name).data) and is_mapped(getattr(other, name).indices)
            same(getattr(one, name), getattr(other, name))


def test_no_memory_of_neighbours_of_mapped_data(tmp_path):
    folder = tiny.neighbour_data(tmp_path / "data")
    whole = load(folder, cache=None)
    mapped = load(folder, cache=tmp_path / "cache", mapped=True)
    config = dataclasses.replace(tiny.REMEMBERING, memory="auto")
    assert resolve(config, whole).memory == "on" and why_no_memory(config, whole) is None
    assert resolve(config, mapped).memory == "off"
    for asked in (config, snm.preset("fast")):  # whose memory is on
        assert "the data take a large part" in why_no_memory(asked, mapped)
    assert resolve(snm.preset("fast"), mapped).memory == "off"
    assert why_no_memory(dataclasses.replace(config, memory="off"), mapped) is None
    with pytest.raises(InputError, match="data that are mapped, because they take a large part"):
        resolve(tiny.REMEMBERING, mapped)


def test_a_run_on_mapped_data_has_the_same_bits(folder, tmp_path):
    """Some points have no label, so that rows are left out."""
    lines = (folder / "train.txt").read_text().splitlines()
    lines[5::9] = [" " + line.partition(" ")[2] for line in lines[5::9]]
    (folder / "train.txt").write_text("\n".join(lines) + "\n")
    config = dataclasses.replace(tiny.CONFIG, members=2, checkpoint_every=1000)
    results = []
    for mapped in (False, True):
        data = load(folder, cache=tmp_path / "cache", mapped=mapped)
        assert is_mapped(data.train.features.data) == mapped
        result = snm.train(data, config, tmp_path / f"run-{mapped}")
        model = snm.load(tmp_path / f"run-{mapped}")
        results.append((result["metrics"], *model.predict(data.test.features, 3)))
    (one, labels, scores), (other, same_labels, same_scores) = results
    assert one == other
    np.testing.assert_array_equal(labels, same_labels)
    np.testing.assert_array_equal(scores, same_scores)
