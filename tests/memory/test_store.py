import dataclasses
import zipfile

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.memory.memory import Memory, MemorySettings
from snm.memory.store import load_memory, save_memory


def made(queries: bool) -> Memory:
    rng = np.random.default_rng(0)
    features = csr_matrix(rng.random((7, 5)) * (rng.random((7, 5)) < 0.5), dtype=np.float32)
    labels = csr_matrix(rng.random((7, 4)) < 0.4, dtype=np.float32)
    stored = rng.normal(size=(7, 3)).astype(np.float16) if queries else None
    settings = MemorySettings(30, 4.0, 0.5 if queries else 1.0, 2.5)
    return Memory(features, labels, stored, np.array([0, 1, 4, 5, 6, 8, 9]), settings)


@pytest.mark.parametrize("queries", [True, False])
def test_reads_what_was_written(queries, tmp_path):
    before = made(queries)
    save_memory(tmp_path / "memory.npz", before)
    assert [path.name for path in tmp_path.iterdir()] == ["memory.npz"]
    after = load_memory(tmp_path / "memory.npz", num_features=5, num_labels=4)
    assert after.settings == before.settings and type(after.settings.neighbors) is int
    assert after.rows.tolist() == [0, 1, 4, 5, 6, 8, 9]
    assert (after.features != before.features).nnz == 0 == (after.labels != before.labels).nnz
    if queries:
        np.testing.assert_array_equal(after.queries, before.queries)
    else:
        assert after.queries is None


def test_weights_are_kept(tmp_path):
    path, weights = tmp_path / "memory.npz", np.arange(1, 8, dtype=np.float32)
    save_memory(path, dataclasses.replace(made(True), weights=weights))
    after = load_memory(path, num_features=5, num_labels=4)
    np.testing.assert_array_equal(after.weights, weights)
    save_memory(path, dataclasses.replace(made(True), weights=weights[:3]))
    with pytest.raises(InputError, match="another model"):
        load_memory(path, num_features=5, num_labels=4)


def test_refuses_a_missing_a_damaged_and_another_models_file(tmp_path):
    path = tmp_path / "memory.npz"
    with pytest.raises(InputError, match="no such file"):
        load_memory(path, num_features=5, num_labels=4)
    save_memory(path, made(True))
    with pytest.raises(InputError, match="another model"):
        load_memory(path, num_features=6, num_labels=4)
    with pytest.raises(InputError, match="another model"):
        load_memory(path, num_features=5, num_labels=3)
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):  # every flipped byte is refused, or changes nothing
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        try:
            found = load_memory(path, num_features=5, num_labels=4)
        except InputError as error:
            assert "a memory that `snm train` wrote" in str(error)
        else:
            assert (found.features != made(True).features).nnz == 0
            np.testing.assert_array_equal(found.queries, made(True).queries)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="a memory that"):
        load_memory(path, num_features=5, num_labels=4)


def test_members_that_are_no_arrays_are_refused(tmp_path):
    """NumPy gives the bytes of a member without the mark of an array."""
    save_memory(tmp_path / "memory.npz", made(True))
    Weighting("tfidf", np.ones(3, np.float32)).save(tmp_path / "weighting.npz")

    def sizes(path):
        return load_memory(path, num_features=5, num_labels=4)

    for name, read in (("memory.npz", sizes), ("weighting.npz", Weighting.load)):
        with zipfile.ZipFile(tmp_path / name) as file:
            members = {one: file.read(one) for one in file.namelist()}
        for bad in members:
            with zipfile.ZipFile(tmp_path / name, "w") as file:
                for one, raw in members.items():
                    file.writestr(one, b"no array" if one == bad else raw)
            with pytest.raises(InputError, match="found no "):
                read(tmp_path / name)
