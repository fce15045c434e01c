"""Data and runs are copied once from a store, and anew where the store changes."""

import dataclasses
import os
import random
import time
from pathlib import Path

import numpy as np
import pytest
import tiny
from command_line import call, refused

import snm
from snm.cli.main import with_local_copies
from snm.errors import InputError
from snm.stores import copies
from snm.stores.copies import local_copy
from snm.stores.marks import CopiedFolder, CopiedRun, OwnAddress
from snm.system.files import disk

DATA = "flaky://bucket/data/tiny"


@pytest.fixture
def data(tmp_path):
    return tiny.write(tmp_path / "data", names=True)


def put(flaky, folder, address):
    for path in folder.rglob("*"):
        if path.is_file():
            flaky.content[f"{address}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()


def copied(flaky):
    """The names of objects that are downloaded from here on."""
    names = []
    flaky.before = staticmethod(lambda kind, name: kind == "get" and names.append(name))
    return names


def test_weights_of_points_and_labels_are_copied_too(flaky, data):
    shapes = snm.load_data(data, cache=None).train.labels.shape
    for name, count in zip(("weights.txt", "label_weights.txt"), shapes, strict=True):
        (data / name).write_text("".join(f"{1 + n % 3}\n" for n in range(count)))
    put(flaky, data, DATA)
    expected, found = snm.load_data(data, cache=None).train, snm.load_data(DATA).train
    np.testing.assert_array_equal(found.weights, expected.weights)
    np.testing.assert_array_equal(found.label_weights, expected.label_weights)
    assert expected.weights.max() == expected.label_weights.max() == 3


def test_data_are_copied_once(flaky, data):
    put(flaky, data, DATA)
    flaky.content[f"{DATA}/raw.tar"] = b"of no use"
    names = copied(flaky)
    expected = snm.load_data(data, cache=None)
    found = snm.load_data(DATA)
    assert found.sha256 == expected.sha256 and found.name == "tiny"
    assert found.label_names == expected.label_names
    assert sorted(names) == [f"{DATA}/{name}.txt" for name in ("labels", "test", "train")]
    names.clear()
    assert snm.load_data(DATA).sha256 == expected.sha256 and not names
    text = (data / "labels.txt").read_bytes()
    flaky.content[f"{DATA}/labels.txt"] = text.replace(b"name 0\n", b"name x\n")
    assert snm.load_data(DATA).label_names[0] == "name x" and len(names) == 3


@pytest.mark.parametrize("seed", range(5))
def test_data_from_a_store_that_fails(seed, flaky, data):
    put(flaky, data, DATA)
    flaky.rng, flaky.share = random.Random(seed), 0.3
    assert snm.load_data(DATA).sha256 == snm.load_data(data).sha256
    assert flaky.failed


def test_data_that_change_meanwhile_are_copied_again(flaky, data):
    """A copy never has files of two versions."""
    put(flaky, data, DATA)
    other = (data / "train.txt").read_bytes().replace(b":1", b":2")

    def change(kind, name):
        if kind == "get" and name.endswith("labels.txt"):
            flaky.content[f"{DATA}/train.txt"] = other
            flaky.content[f"{DATA}/labels.txt"] = b"l\n" * tiny.LABELS

    flaky.before = staticmethod(change)
    place = local_copy(DATA)
    assert (place / "train.txt").read_bytes() == other
    assert (place / "labels.txt").read_bytes() == b"l\n" * tiny.LABELS


def test_copied_data_survive_a_power_cut(flaky, data, monkeypatch):
    """Nothing else would tell that a file lost its content."""
    put(flaky, data, DATA)
    synced, sync = set(), disk.sync
    monkeypatch.setattr(disk, "sync", lambda path: (synced.add(path.name), sync(path)))
    local_copy(DATA)
    assert {"train.txt", "test.txt", "labels.txt"} <= synced


def test_nothing_at_an_address_is_one_line(flaky, capsys):
    told = "flaky://bucket/none: found nothing there, expected a folder of the store"
    assert refused(capsys, "data", "stats", "flaky://bucket/none") == told
    assert refused(capsys, "evaluate", "flaky://bucket/none") == told
    out = "flaky://bucket/out"
    assert refused(capsys, "data", "synth", out).startswith(
        f"{out}: found an address of a store, expected a path of this machine"
    )


@dataclasses.dataclass
class _Verb:
    model: CopiedRun[Path] = Path()
    table: CopiedFolder[Path | None] = None
    kept: OwnAddress[str | Path] = ""
    run: str | Path = ""  # no mark, whatever its name


def test_marks_say_which_options_of_a_verb_are_copied(flaky, data):
    put(flaky, data, DATA)
    address = Path(DATA)
    before = _Verb(model=address, table=address, kept=address, run=DATA)
    after = with_local_copies(before)
    assert after.model == after.table == local_copy(DATA)
    assert (after.kept, after.run) == (address, DATA)
    hub = _Verb(model=Path("hf://owner/name"))
    assert with_local_copies(hub) == hub
    with pytest.raises(InputError, match=r"run: found the address .* a path of this machine"):
        with_local_copies(_Verb(run=address))
    with pytest.raises(InputError, match="nowhere: found no such folder, expected the folder of a"):
        with_local_copies(_Verb(model=Path("nowhere")))


def test_a_store_that_gives_up_is_one_line(flaky, data, capsys):
    put(flaky, data, DATA)
    flaky.broken = "train.txt"
    call("data", "stats", DATA, status=1)
    told = f"{DATA}/train.txt: gave up after 8 tries (ConnectionError: 503 the store is down)"
    assert capsys.readouterr().err == f"snm: error: {told}\n"


def test_a_run_that_somebody_copied_there(flaky, tiny_run):
    run = "flaky://bucket/runs/copied"
    put(flaky, tiny_run / "run", run)
    assert snm.evaluate(run)["metrics"] == snm.evaluate(tiny_run / "run")["metrics"]
    call("evaluate", run, "--json")
    call("doctor", run)


def test_copies_that_nobody_uses_are_removed(flaky, data):
    put(flaky, data, DATA)
    old = local_copy(DATA)
    flaky.content[f"{DATA}/test.txt"] += b"\n"
    assert local_copy(DATA) != old and old.exists()  # it may be read at this moment
    yesterday = time.time() - 100_000
    os.utime(old.parent, (yesterday, yesterday))
    local_copy(DATA)
    assert old.exists()  # a server may serve it for weeks, and start workers that open it
    copies._used.pop(old.parent).close()  # as at its end
    local_copy(DATA)
    assert not old.exists()
