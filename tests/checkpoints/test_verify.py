"""Of several processes, all take part in the verification, and all find the same."""

import numpy as np
import pytest
from denied import deny

from snm.checkpoints import store
from snm.checkpoints.manifest import MANIFEST, DamagedError
from snm.checkpoints.store import Checkpoints
from snm.errors import InputError
from snm.system.files import checksums

STEP = 3


@pytest.fixture
def saved(tmp_path):
    made = Checkpoints(tmp_path / "checkpoints")
    made.save(STEP, {"rows": np.arange(6.0)}, {"step": STEP}, None)
    return made


@pytest.fixture
def together(monkeypatch):
    """What this process tells the others, and what they tell it."""
    told, others = [], []

    def least(number):
        told.append(number)
        return min([number, *others])

    monkeypatch.setattr(store, "min_over_processes", least)
    return told, others


def unreadable(*_):
    raise OSError(5, "Input/output error")


def test_a_process_that_cannot_read_takes_part(saved, together, monkeypatch):
    told, _ = together
    note = saved.verify(STEP)
    assert told == [store._NO_DAMAGE] and note.files
    with monkeypatch.context() as patch:
        patch.setattr(store, "fingerprints", unreadable)
        with pytest.raises(DamagedError, match="Input/output error"):
            saved.verify(STEP)
    (saved.path(STEP) / MANIFEST).write_text("{")
    with pytest.raises(DamagedError, match=MANIFEST):
        saved.verify(STEP)
    assert told[1:] == [0, 0]


def test_a_file_that_may_not_be_read_is_not_damaged(saved, together, monkeypatch):
    told, _ = together
    name, *_ = sorted(saved.read(STEP).files)
    deny(monkeypatch, saved.path(STEP) / name)
    with pytest.raises(InputError, match="found permission denied, expected permission") as said:
        saved.load_newest_intact({"rows": np.zeros(6)})
    assert said.value.where == str(saved.path(STEP) / name) and told == [0]


@pytest.mark.parametrize("record", [5, [], [3], [3, "x"], None, {"0": 3}])
def test_records_of_another_form_are_damage(record, saved):
    """The manifest's own checksum is right."""
    path = saved.path(STEP) / MANIFEST
    note = checksums.read_sealed(path)
    note["files"][min(note["files"])] = record
    checksums.write_sealed(path, note)
    with pytest.raises(DamagedError, match=f"{MANIFEST}: no progress, description or files"):
        saved.verify(STEP)


def test_a_lack_of_memory_is_no_damage(saved, monkeypatch):
    """Orbax makes an error of its own of one that a thread or an allocation raised."""
    like = {"rows": np.zeros(6)}

    def load(*_):
        try:
            raise causes[0]
        except Exception as error:
            raise KeyError("incompatible handler") from error

    monkeypatch.setattr("orbax.checkpoint.v1.load_checkpointables", load)
    causes = [RuntimeError("can't start new thread"), MemoryError(), OSError(12, "no"),
              ValueError("INTERNAL: std::bad_alloc"), ValueError("another shape")]  # fmt: skip
    while len(causes) > 1:
        with pytest.raises(MemoryError, match=f"{STEP}: no room to load"):
            saved.load(STEP, like)
        del causes[0]
    with pytest.raises(DamagedError, match="arrays of another model: 'incompatible handler'"):
        saved.load(STEP, like)


def test_what_another_process_found_is_damage_here_too(saved, together):
    _, others = together
    first, *_ = sorted(saved.read(STEP).files)
    for number, name in ((0, "a file"), (1, first), (999, "a file")):
        others[:] = [number]
        with pytest.raises(DamagedError, match=f"{name} differs, as another process found"):
            saved.verify(STEP)


def test_a_process_verifies_all_files_of_a_folder_of_its_own(saved, monkeypatch):
    """In a shared folder it leaves some of them to the others."""
    asked = []
    monkeypatch.setattr(store, "is_mine", lambda number: asked.append(number))
    path = max((saved.path(STEP) / name for name in saved.read(STEP).files),
               key=lambda file: file.stat().st_size)  # fmt: skip
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    saved.verify(STEP)
    assert asked == list(range(len(saved.read(STEP).files)))
    own = Checkpoints(saved.path(STEP).parent, apart=True)
    with pytest.raises(DamagedError, match="has another checksum"):
        own.verify(STEP)
