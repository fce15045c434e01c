"""Files that random edits do not reach: huge values, pickles and false headers."""

import numpy as np
import pytest
import tiny
from data.formats.bounded_reads import bounded, outcome

from snm.checkpoints.store import Checkpoints
from snm.config.settings import read_config
from snm.data import cache
from snm.data.formats.binary import read_npy, read_npz
from snm.data.load import load
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.runs.folder import read_json


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = " + "[" * 100_000, "no TOML"),
        ("dim = " + "9" * 5000, "no TOML"),
        ("dim = 99999999999999999999999", "dim: found 99999999999999999999999, expected"),
        ("dim = 1\x00", "no TOML"),
    ],
)
def test_configs_with_huge_values(tmp_path, text, expected):
    path = tmp_path / "config.toml"
    path.write_text(text)
    found = outcome(read_config, path)
    assert isinstance(found, InputError) and expected in str(found)


def test_unterminated_json(tmp_path):
    path = tmp_path / "run.json"
    path.write_text("[" * 200_000)
    assert isinstance(outcome(read_json, path), InputError)


def test_nothing_that_is_read_is_unpickled(tmp_path):
    """Object arrays, whose unpickling would run code, in every file that holds arrays."""

    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("code was run",))

    evil = np.array([Evil()], object)
    np.save(tmp_path / "X.trn.npy", evil, allow_pickle=True)
    np.savez(tmp_path / "X.npz", data=evil, indices=evil, indptr=evil, shape=evil, format=evil)
    np.savez(tmp_path / "w.npz", kind=evil, idf=evil)
    for read, name in (
        (read_npy, "X.trn.npy"),
        (read_npz, "X.npz"),
        (Weighting.load, "w.npz"),
    ):
        assert isinstance(outcome(read, tmp_path / name), InputError)


@pytest.mark.parametrize("step", ["4", "../4", "4.orbax-checkpoint-tmp", "04x", "٤"])
def test_folders_that_are_no_checkpoints(tmp_path, step):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / step).mkdir(parents=True, exist_ok=True)
    assert checkpoints.latest() is None and checkpoints.best() is None
    state, note, damaged = checkpoints.load_newest_intact({})
    assert state is None and note is None
    assert [error.path.name for error in damaged] == (["4"] if step == "4" else [])


@pytest.mark.parametrize("header", ["shape", "length"])
def test_a_cache_that_declares_gigabytes(header, tmp_path):
    """A damaged array header is compared with the manifest before anything is allocated."""
    tiny.write(tmp_path / "data")
    load(tmp_path / "data", cache=tmp_path / "cache")
    (entry,) = (tmp_path / "cache").glob("v3-*")
    path = entry / "train.features.data.npy"
    raw = path.read_bytes()
    if header == "shape":
        size = raw[raw.index(b"(") + 1 : raw.index(b",)")]
        wrong = raw.replace(size + b",)", b"2000000000,)", 1)
    else:  # version 2.0 has four bytes of length where 1.0 has two
        wrong = raw[:6] + b"\x02\x00" + b"\xff\xff\xff\x7f" + raw[12:]
    path.write_bytes(wrong)
    with bounded():
        assert cache.read(tmp_path / "cache", entry.name.removeprefix("v3-")) is None
