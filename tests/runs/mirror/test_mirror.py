"""A run in a store: whole at every moment, resumed to the bit, and clear when it gives up."""

import concurrent.futures
import dataclasses
import errno
import json
import random
import re
import shutil
import threading
import types

import pytest
import tiny
from command_line import call
from flaky_store import KilledError
from small_runs import arrays, same

import snm
from snm.errors import InputError, StoppedError
from snm.runs import mirror
from snm.runs.events import Finished, Noted, Saved
from snm.runs.folder import RunFolder
from snm.runs.mirror import RunUpload, open_location, stage
from snm.stores.address import Address
from snm.stores.objects import Objects
from snm.stores.snapshots import download, newest
from snm.stores.uploads import Uploads
from snm.system.files import disk

RUN = "flaky://bucket/runs/a"
CONFIG = dataclasses.replace(tiny.CONFIG, epochs=4, seed=3)


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    run = tmp_path_factory.mktemp("whole") / "run"
    result = snm.train(data, CONFIG, run)
    return arrays(run), result["metrics"]


@pytest.fixture
def in_turns(monkeypatch):
    """Training waits for each upload; otherwise those of slow stores leave out checkpoints."""
    stage_folder = RunUpload._stage_folder

    def stage_and_wait(self):
        stage_folder(self)
        if self._upload is not None:
            concurrent.futures.wait([self._upload])

    monkeypatch.setattr(RunUpload, "_stage_folder", stage_and_wait)


def forget(tmp_path):
    """What a machine loses that is taken away."""
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))]
)
def test_a_killed_run_goes_on_to_the_same_bits(seed, flaky, data, undisturbed, tmp_path):
    """Killed at three writes, each time with the local disk lost, 5% of all operations failing."""
    rng = random.Random(seed)
    flaky.rng, flaky.share = random.Random(seed), 0.05
    kills, writes = rng.sample(range(5, 45), 3), [0]

    def kill(kind, name):
        writes[0] += kind == "put"
        if kind == "put" and writes[0] in kills:
            raise KilledError

    flaky.before = staticmethod(kill)
    met = 0
    while True:
        try:
            snm.train(data, CONFIG, RUN)
            break
        except KilledError:
            met += 1
            forget(tmp_path)
    assert met and flaky.failed
    flaky.before = staticmethod(lambda kind, name: None)
    forget(tmp_path)
    expected, metrics = undisturbed
    assert same(arrays(RUN), expected)
    assert snm.evaluate(RUN)["metrics"] == metrics


def test_a_reader_finds_whole_checkpoints_at_every_moment(flaky, in_turns, data, tmp_path):
    """Before each operation: no run, or files that fit their checksums; never an older one."""
    seen = []

    def look(kind, name):
        if kind not in ("put", "remove"):
            return
        flaky.before, flaky.share = staticmethod(lambda *_: None), 0.0  # for the reader
        found = newest(objects := Objects(Address.of(RUN)))
        if found is not None and found.files and (not seen or seen[-1][0] != found.number):
            place = tmp_path / str(found.number)
            place.mkdir()
            download(objects, found, place)
            run = RunFolder(place)
            assert run.settings() and run.read_origin() and run.finished() in (False, True)
            checkpoints = run.checkpoints(2)
            step = checkpoints.latest()
            checkpoints.verify(step)
            checkpoints.verify(checkpoints.best())
            seen.append((found.number, step, run.finished()))
        flaky.before, flaky.share = staticmethod(look), 0.05

    flaky.before, flaky.share = staticmethod(look), 0.05
    settings = dict(validation_fraction=0.2, patience=9, evaluate_every=3)
    snm.train(data, dataclasses.replace(CONFIG, **settings), RUN)
    flaky.before = staticmethod(lambda *_: None)
    assert seen == sorted(seen) and len(seen) >= 3 and flaky.failed
    assert RunFolder(copy(tmp_path / "last")).finished()


def copy(place):
    objects = Objects(Address.of(RUN))
    place.mkdir()
    download(objects, newest(objects), place)
    return place


def test_a_store_that_gives_up_ends_the_run_and_keeps_the_folder(
    flaky, in_turns, data, undisturbed, capsys, tmp_path, monkeypatch
):
    # One that is written beside the training may be whole before that of step 4 is staged.
    monkeypatch.setattr("snm.checkpoints.writer.has_memory_for_copy", lambda state: False)
    flaky.broken = "/files/checkpoints/8"
    words = ["train", data, "--run-dir", RUN, *tiny.FLAGS, "--seed=3", "--epochs=4"]
    call(*words, status=1)
    (told,) = (line for line in capsys.readouterr().err.splitlines() if "error" in line)
    folder = tmp_path / "cache" / "runs" / Address.of(RUN).key / "a"
    assert re.fullmatch(
        rf"snm: error: {RUN}/files/checkpoints/8/\S+: gave up after 8 tries \(ConnectionError: 503 "
        rf"the store is down\); the run is whole in {folder}, and the same command goes on",
        told,
    )
    assert RunFolder(folder).checkpoints(2).latest() >= 8
    assert RunFolder(copy(tmp_path / "stored")).checkpoints(2).latest() == 4
    flaky.broken = ""
    call(*words)
    assert "going on from step" in (said := capsys.readouterr().out) and f"written to {RUN}" in said
    assert same(arrays(RUN), undisturbed[0])
    call(*words)  # is finished, and trains nothing
    assert "going on" not in capsys.readouterr().out


def test_a_stopped_run_is_in_the_store(flaky, data, undisturbed, tmp_path):
    asked = []

    def stop():
        asked.append(1)
        return len(asked) >= 5

    with pytest.raises(StoppedError) as stopped:
        snm.train(data, CONFIG, RUN, stop=stop)
    forget(tmp_path)
    assert RunFolder(copy(tmp_path / "stored")).checkpoints(2).latest() == stopped.value.step
    snm.train(data, CONFIG, RUN)
    assert same(arrays(RUN), undisturbed[0])


def test_a_failed_upload_that_nobody_waits_for_is_told(flaky, monkeypatch):
    """Whoever leaves the events early asks for no upload's end."""
    send, begin = Uploads.send, threading.Event()
    monkeypatch.setattr(Uploads, "send", lambda *args: begin.wait(60) and send(*args))
    with pytest.warns(UserWarning, match="503 the store is down.; the run is whole in"):  # noqa: SIM117
        with open_location(RUN) as place:
            place.folder.mkdir()
            (place.folder / "config.toml").write_text("a")
            flaky.broken = "/files/"
            events = place.follow(event for event in [Saved(1)])
            next(events)  # which raises the error of an upload that ended
            begin.set()
            events.close()


def test_a_folder_that_cannot_be_staged_is_not_uploaded_in_part(flaky, monkeypatch):
    link = disk.link

    def full(source, target):
        if source.name == "b":
            raise OSError(errno.ENOSPC, "no space left on device", str(target))
        link(source, target)

    monkeypatch.setattr(disk, "link", full)
    with open_location(RUN) as place:
        place.folder.mkdir()
        for name in "ab":
            (place.folder / name).write_text(name)
        with pytest.raises(OSError, match="no space left"):
            list(place.follow(event for event in [Saved(1)]))
        place._start_next_upload()  # as at the next event
        place._wait_for_uploads()
        assert not list(place.folder.parent.glob(".staged-*"))
    assert not any("/files/" in name for name in flaky.content)


@pytest.mark.parametrize("told", [True, False])
def test_a_long_last_upload_is_told(told, flaky, monkeypatch):
    """Not one that waits for that of the checkpoint before it, where both are short."""
    send, begin = Uploads.send, threading.Event()
    monkeypatch.setattr(Uploads, "send", lambda *args: begin.wait(60) and send(*args))
    if not told:  # no time passes
        monkeypatch.setattr(mirror, "time", types.SimpleNamespace(monotonic=lambda: 0.0))
        begin.set()
    seen = []
    with open_location(RUN) as place:
        place.folder.mkdir()
        (place.folder / "config.toml").write_text("a")
        for event in place.follow(event for event in [Saved(7), Finished({})]):
            seen.append(event)
            if isinstance(event, Noted):
                begin.set()
    note = [Noted(7, f"uploading what is left to {RUN}")]
    assert seen == [Saved(7), *(note if told else []), Finished({})]


def test_one_process_of_a_machine_has_the_run(flaky, data):
    with (
        open_location(RUN),
        pytest.raises(InputError, match=rf"{RUN}: found a folder in use by process"),
    ):
        snm.train(data, CONFIG, RUN)


def test_other_verbs_take_a_run_from_a_store(flaky, data, tmp_path, capsys):
    store = "flaky://bucket/data"
    for path in data.iterdir():
        flaky.content[f"{store}/{path.name}"] = path.read_bytes()
    result = snm.train(store, CONFIG, RUN)
    assert result["data"]["source"] == store
    forget(tmp_path)
    call("evaluate", RUN, "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["metrics"] == pytest.approx(result["metrics"])
    call("export", RUN, "--to", "npy", "--out", tmp_path / "export")
    call("predict", RUN, data / "test.txt", "--out", tmp_path / "from_run")
    call("predict", tmp_path / "export", data / "test.txt", "--out", tmp_path / "from_export")
    assert (tmp_path / "from_run").read_bytes() == (tmp_path / "from_export").read_bytes()
    warm = snm.train(data, CONFIG, tmp_path / "warm", warm_start=RUN)
    assert warm["steps"] and RunFolder(tmp_path / "warm").read_origin().warm_start == RUN


@pytest.mark.parametrize("after", [1, 2])  # files of two
def test_what_is_removed_meanwhile_is_left_out(after, tmp_path, monkeypatch):
    """A checkpoint that goes while its files are linked is not staged, and what came instead is."""
    run = tmp_path / "run"
    for step in (4, 8):
        (run / "checkpoints" / str(step) / "state").mkdir(parents=True)
        (run / "checkpoints" / str(step) / "state" / "rows").write_text(f"{step}")
        (run / "checkpoints" / str(step) / "manifest.json").touch()
    (run / "checkpoints" / "12.orbax-checkpoint-tmp").mkdir()
    (run / "checkpoints" / "12.orbax-checkpoint-tmp" / "manifest.json").touch()
    (run / "log.jsonl").write_text("a line\n")
    (run / ".lock").touch()
    link, linked = disk.link, []

    def link_and_remove(source, target):
        linked.append(source)
        if len(linked) == after + 1:
            (run / "checkpoints" / "4").rename(run / "checkpoints" / "4.dropped")
        link(source, target)

    monkeypatch.setattr(disk, "link", link_and_remove)
    stage(run, tmp_path / "staged")
    found = {path.relative_to(tmp_path / "staged").as_posix()
             for path in (tmp_path / "staged").rglob("*") if path.is_file()}  # fmt: skip
    assert found == {"checkpoints/8/manifest.json", "checkpoints/8/state/rows", "log.jsonl"}
    with (run / "log.jsonl").open("a") as log:
        log.write("another\n")
    assert (tmp_path / "staged" / "log.jsonl").read_text() == "a line\n"
