"""Whether the disk has room for a run: what is refused, and what is warned of."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny

from snm.config.resolve import resolve
from snm.errors import InputError
from snm.memory.memory import Memory, MemorySettings
from snm.memory.store import save_memory
from snm.planning import fit_check
from snm.planning.forecast import memory_bytes


def check_disk(monkeypatch, dataset, folder, free, run_dir=None, **changes):
    """The warning on a disk with `free` GiB free, for checkpoints of a GiB."""
    found = SimpleNamespace(disk_usage=lambda path: SimpleNamespace(free=int(free * 2**30)))
    monkeypatch.setattr(fit_check, "shutil", found)
    monkeypatch.setattr(fit_check, "_state_size", lambda config, dataset: 2**30 - (1 << 16))
    config = resolve(dataclasses.replace(tiny.CONFIG, **changes), dataset)
    return fit_check.check_disk(dataset, config, folder, run_dir or folder)


def test_a_folder_of_checkpoints_is_no_checkpoint(dataset, tmp_path, monkeypatch):
    """It is made before anything is written; what a kill leaves there is removed."""
    (tmp_path / "checkpoints" / "4").mkdir(parents=True)
    found = "found 512 MiB free on its disk, expected at least 1.00 GiB, the size of a checkpoint"
    with pytest.raises(InputError, match=found):
        check_disk(monkeypatch, dataset, tmp_path, 0.5)
    (tmp_path / "checkpoints" / "4" / "manifest.json").touch()
    assert check_disk(monkeypatch, dataset, tmp_path, 0.5) is not None


def test_a_run_in_a_store_is_named_as_typed(dataset, tmp_path, monkeypatch):
    found = "gs://bucket/a: found 512 MiB free on the disk of its copy on this machine,"
    with pytest.raises(InputError, match=found):
        check_disk(monkeypatch, dataset, tmp_path, 0.5, Path("gs://bucket/a"))


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        (dict(epochs=1, members=2), 2),
        (dict(epochs=2), 2),
        (dict(epochs=5), 3),  # two are kept, and one is written
        (dict(epochs=5, members=3), 9),
        (dict(epochs=5, keep_checkpoints=3), 4),
        (dict(epochs=5, validation_fraction=0.3), 4),  # and the best
        (dict(epochs=2, validation_fraction=0.5), 3),  # four steps of 30 points, and two best
        (dict(epochs=5, validation_fraction=0.3, patience=1, refit=True), 7),
    ],
)
def test_all_checkpoints_that_are_kept_need_room(dataset, tmp_path, monkeypatch, changes, number):
    """One an epoch."""
    told = check_disk(monkeypatch, dataset, tmp_path, number - 0.5, **changes)
    assert f"the checkpoints take up to {number}.00 GiB" in told
    assert check_disk(monkeypatch, dataset, tmp_path, number, **changes) is None


@pytest.mark.parametrize("refit", [False, True])
def test_the_data_are_not_split_where_the_disk_has_much_room(dataset, tmp_path, monkeypatch, refit):
    """Seven checkpoints of a member, with those of the refit: more than any run keeps."""
    counted = []
    count_steps = fit_check.count_steps_per_epoch
    monkeypatch.setattr(
        fit_check, "count_steps_per_epoch", lambda *args: counted.append(1) or count_steps(*args)
    )
    changes = dict(epochs=5, members=2, validation_fraction=0.3)
    changes |= dict(patience=1, refit=True) if refit else {}
    assert check_disk(monkeypatch, dataset, tmp_path, 14, **changes) is None
    assert not counted
    told = check_disk(monkeypatch, dataset, tmp_path, 13.5, **changes)
    assert counted and (told is not None) == refit


def test_checkpoints_that_are_there_need_no_more_room(dataset, tmp_path, monkeypatch):
    """Two of three are."""
    for step in ("4", "8"):
        (tmp_path / "checkpoints" / step).mkdir(parents=True)
        (tmp_path / "checkpoints" / step / "manifest.json").touch()
    monkeypatch.setattr(fit_check, "_bytes_below", lambda folder: 2 * 2**30)
    told = check_disk(monkeypatch, dataset, tmp_path, 0.5)
    assert told.endswith("has 512 MiB free on its disk; the checkpoints take up to 1.00 GiB more")
    assert check_disk(monkeypatch, dataset, tmp_path, 1) is None


@pytest.mark.parametrize("weights", [None, np.ones(600, np.float32)], ids=["", "weighted"])
def test_the_file_of_a_memory_is_no_larger_than_told(tmp_path, weights):
    """Of a recommender, whose six items a point are features and labels; beside a few headers."""
    dataset = tiny.tastes()
    train = dataclasses.replace(dataset.train, weights=weights)
    dataset = dataclasses.replace(dataset, train=train)
    config = resolve(dataclasses.replace(tiny.CONFIG, memory="on", seen="drop"), dataset)
    stored = train.baskets()
    assert stored.features.nnz == stored.labels.nnz == 6 * 600
    queries, settings = np.zeros((600, config.dim), np.float16), MemorySettings(30, 4.0, 0.5, 1.0)
    memory = Memory(
        stored.features, stored.labels, queries, np.arange(600), settings, stored.weights
    )
    save_memory(tmp_path / "memory.npz", memory)
    size, told = (
        (tmp_path / "memory.npz").stat().st_size,
        memory_bytes(config, dataset).stored,
    )
    assert told - 8000 < size < told + 8000
