"""The cache of data sets never changes the result, whatever happens to its files."""

import json
from pathlib import Path

import numpy as np
import pytest
from data.toy_folders import TEST, check, one_file

from snm.data.load import load
from snm.errors import InputError


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("SNM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def entries(cache_folder):
    return sorted(path.name for path in cache_folder.iterdir())


def test_a_cached_data_set_is_not_parsed_again(tmp_path, cache_folder, monkeypatch):
    folder = one_file(tmp_path / "toy")
    data = load(folder)
    assert entries(cache_folder) == [f"v3-{data.sha256}"]
    with monkeypatch.context() as patch:
        patch.setattr("snm.data.load.read_text", lambda path: pytest.fail("parsed again"))
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


def test_the_folder_may_be_a_string(tmp_path):
    folder = one_file(tmp_path / "toy")
    load(folder, cache=str(tmp_path / "given"), mapped=True)
    assert len(entries(tmp_path / "given")) == 1
    with pytest.raises(InputError, match="cache: found an address, expected a folder of this"):
        load(folder, cache="gs://bucket/cache")
    with pytest.raises(InputError, match="cache: found a value of type bool, expected a folder"):
        load(folder, cache=False)


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
    monkeypatch.setattr("snm.data.load.read_text", lambda path: pytest.fail("was not mended"))
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

    def full_disk(self, values):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("snm.data.cache._GrowingArray.add", full_disk)
        check(load(folder))
    assert entries(cache_folder) == []
