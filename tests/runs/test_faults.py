"""Tests faults around a run: other processes, signals, damaged files, full disks, NaN."""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import jax
import numpy as np
import pytest
import tiny

import snm
from snm.batches.epoch_order import Order
from snm.batches.source import Source
from snm.checkpoints.store import Checkpoints, DamagedError, SavingError
from snm.checkpoints.writer import Writer
from snm.cli.main import STOPPED, main
from snm.distributed.host_copy import host_copy
from snm.errors import InputError, StoppedError
from snm.model.model import abstract_state
from snm.runs.events import NonFiniteError, Noted, Saved, Skipped, Stepped
from snm.runs.folder import RunFolder
from snm.system.locks import LOCK, locked
from snm.system.signals import stop_wished
from snm.trainer import training as trainer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.write(tmp_path_factory.mktemp("data") / "tiny")


@pytest.fixture(scope="module")
def data(folder):
    return snm.load_data(folder)


@pytest.fixture(scope="module")
def whole(tiny_run):
    """An uninterrupted run, the reference for the others: its folder and its result."""
    folder = tiny_run / "run"
    return folder, json.loads((folder / "result.json").read_text())


def config(**changes):
    return dataclasses.replace(tiny.CONFIG, **changes)


def arrays(run):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(snm.load(run).state)]


def same(first, second):
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True))


def log(run):
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def command(data, run, *flags):
    """Starts the command line in a process, with the compilation cache of the session."""
    words = ["train", str(data), "--run-dir", str(run), *tiny.FLAGS, *flags]
    return subprocess.Popen(
        [sys.executable, "-m", "snm", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAX_NUM_CPU_DEVICES": "4"},
    )


def refused(capsys, words):
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    said = capsys.readouterr().err
    assert said.startswith("snm: error: ") and said.count("\n") == 1, said
    return stop.value.code, said.removeprefix("snm: error: ").rstrip("\n")


# -- one process a folder --------------------------------------------------------------------


def test_a_folder_in_use_is_refused(folder, data, tmp_path, capsys):
    run = tmp_path / "run"
    events = trainer.training(data, tiny.CONFIG, run)
    next(events)  # under way
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    code, said = refused(capsys, ["train", folder, "--run-dir", run, *tiny.FLAGS])
    assert code == 2
    assert f"--run-dir {run}: found a folder in use by process {os.getpid()} on " in said
    assert before == {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    events.close()
    snm.train(data, tiny.CONFIG, run)  # free again


def test_a_lock_ends_with_its_process(tmp_path):
    """However the process ends; the lock file that remains does not lock."""
    code = (
        "import os, sys, time; from pathlib import Path; from snm.system.locks import locked\n"
        "with locked(Path(sys.argv[1]), 'x'): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / LOCK)],
                              stdout=subprocess.PIPE)  # fmt: skip
    assert holder.stdout.readline() == b"held\n"
    with (
        pytest.raises(InputError, match=f"in use by process {holder.pid} on"),
        locked(tmp_path / LOCK, "x"),
    ):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with locked(tmp_path / LOCK, "x"):
        assert f"process {os.getpid()} " in (tmp_path / LOCK).read_text()


def test_a_run_that_starts_between_the_check_and_the_lock(data, tmp_path, monkeypatch):
    run = tmp_path / "run"
    fit = trainer.fit_weighting

    def meanwhile(*args):
        if not run.exists():
            run.mkdir()
            (run / "config.toml").write_text("dim = 8\n")
        return fit(*args)

    monkeypatch.setattr(trainer, "fit_weighting", meanwhile)
    with pytest.raises(InputError, match="another process began just now"):
        snm.train(data, tiny.CONFIG, run)


# -- signals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [pytest.param(2, marks=pytest.mark.slow), 3, 12])
def test_a_stopped_and_continued_run_is_the_same_run(data, whole, tmp_path, steps):
    """A stop at any step (3 is within a dispatch, 12 is the last) writes its checkpoint."""
    run, seen = tmp_path / "run", []
    with pytest.raises(StoppedError) as stopped:
        for event in trainer.training(
            data, tiny.CONFIG, run, stop=lambda: bool(seen) and seen[-1] >= steps
        ):
            if isinstance(event, Stepped):
                seen.append(event.step)
    newest = RunFolder(run).checkpoints(2).latest()
    assert stopped.value.step == newest >= steps
    assert not (run / "result.json").exists()
    assert snm.train(data, tiny.CONFIG, run)["metrics"] == whole[1]["metrics"]
    assert same(arrays(run), arrays(whole[0]))


def test_signal_handlers_are_unchanged_unless_requested(data, tmp_path):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    for _ in trainer.training(data, config(epochs=1), tmp_path / "run"):
        assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_requests_a_stop(number):
    told, handler = [], signal.getsignal(number)
    with stop_wished(told.append, lambda: None) as wished:
        assert not wished()
        os.kill(os.getpid(), number)
        deadline = time.monotonic() + 10
        while not told:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert wished() and told == [number]
    assert signal.getsignal(number) == handler


def test_the_second_signal_ends_a_blocked_main_thread():
    """Python's handlers would wait for the main thread, here blocked in a join."""
    code = (
        "import ctypes, sys; from snm.system.signals import stop_wished\n"
        "def say(word): print(word, flush=True)\n"
        "with stop_wished(lambda n: say('first'), lambda: say('second')):\n"
        "    print('ready', flush=True)\n"
        "    libc = ctypes.CDLL(None)\n"
        "    [libc.sleep(30) for _ in iter(int, 1)]"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == b"first\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 128 + signal.SIGTERM
        assert process.stdout.read() == b"second\n"


def until(run, epochs, process):
    while (RunFolder(run).checkpoints(2).latest() or 0) < epochs * 4:
        time.sleep(0.02)
        assert process.poll() is None, process.stderr.read()


@pytest.mark.slow
def test_sigterm_on_the_command_line(folder, tmp_path):
    """Ends with status 75 and a checkpoint; the same command continues from it."""
    run = tmp_path / "run"
    long = "--epochs=100000"
    with command(folder, run, long) as process:
        until(run, 2, process)
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
        assert process.wait(60) == STOPPED == 75
    first, last = said.splitlines()
    assert first.startswith("snm: SIGTERM: finishing the step and taking a checkpoint; again")
    newest = RunFolder(run).checkpoints(2).latest()
    assert last == (
        f"snm: error: stopped as asked, with a checkpoint of step {newest}; "
        "the same command goes on from there"
    )
    assert max(line["step"] for line in log(run) if line["event"] == "stepped") == newest


# -- damaged checkpoints ---------------------------------------------------------------------


def files(checkpoint):
    """The files of a checkpoint: arrays, and the metadata of orbax and of this package."""
    return sorted(path for path in checkpoint.rglob("*") if path.is_file() and path.stat().st_size)


def arrays_file(checkpoint):
    return max(files(checkpoint), key=lambda path: path.stat().st_size)


def truncate(checkpoint):
    path = arrays_file(checkpoint)
    path.write_bytes(path.read_bytes()[:-100])


def flip(checkpoint):
    path = arrays_file(checkpoint)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 4
    path.write_bytes(raw)


def change_the_progress(checkpoint):
    path = checkpoint / "manifest.json"
    text = path.read_text()
    assert '"stale": 0' in text
    path.write_text(text.replace('"stale": 0', '"stale": 3'))


def empty_the_manifest(checkpoint):
    (checkpoint / "manifest.json").write_text("")


def remove_a_file(checkpoint):
    arrays_file(checkpoint).unlink()


DAMAGE = [truncate, flip, change_the_progress, empty_the_manifest, remove_a_file]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_run_continues_from_the_newest_intact_checkpoint(data, whole, tmp_path, damage):
    run = tmp_path / "run"
    shutil.copytree(whole[0], run)
    checkpoints = RunFolder(run).checkpoints(2)
    damage(checkpoints.path(12))
    with pytest.raises(DamagedError, match=r"checkpoints/12: found a damaged checkpoint \(.+\)"):
        snm.load(run)
    events = list(trainer.training(data, tiny.CONFIG, run))
    (noted,) = (event for event in events if isinstance(event, Noted))
    assert str(checkpoints.path(12)) in noted.text and "going on from the one before" in noted.text
    assert [line["text"] for line in log(run) if line["event"] == "noted"] == [noted.text]
    assert [event.step for event in events if isinstance(event, Stepped)] == [10, 12]
    assert events[-1].result["metrics"] == whole[1]["metrics"]
    assert same(arrays(run), arrays(whole[0]))


def test_without_an_intact_checkpoint_the_error_is_one_line(folder, whole, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(whole[0], run)
    # The facts name the folder that the data came from.
    for step in (8, 12):
        flip(RunFolder(run).checkpoints(2).path(step))
    code, said = refused(capsys, ["train", folder, "--run-dir", run, *tiny.FLAGS])
    assert code == 2
    assert "no whole checkpoint" in said and "to begin again" in said


@pytest.mark.slow
def test_a_damaged_member_is_trained_again(data, tmp_path):
    run, settings = tmp_path / "run", config(members=2)
    snm.train(data, settings, run)
    good = arrays(run)
    flip(RunFolder(run).checkpoints(2, "member-2").path(12))
    snm.train(data, settings, run)
    assert same(arrays(run), good)


@pytest.mark.slow
def test_a_damaged_best_checkpoint_is_an_error(data, tmp_path):
    settings = config(epochs=40, validation_fraction=28 / 60, patience=3, evaluate_every=2)
    run = tmp_path / "run"
    result = snm.train(data, settings, run)
    checkpoints = RunFolder(run).checkpoints(2)
    best = checkpoints.best()
    assert best == result["best_step"] < checkpoints.latest()
    empty_the_manifest(checkpoints.path(best))
    with pytest.raises(DamagedError, match=f"checkpoints/{best}: found a damaged checkpoint"):
        snm.train(data, settings, run)


def test_a_checkpoint_of_another_run_is_refused(data, whole, tmp_path):
    about = RunFolder(whole[0]).checkpoints(2).read(12).about
    assert about["data_sha256"] == data.sha256 and about["seed"] == 0
    assert about["versions"]["jax"] == jax.__version__
    # One that was copied here from another run is refused, though it is whole.
    other = tmp_path / "other"
    snm.train(data, config(seed=3), other)
    run = tmp_path / "run"
    shutil.copytree(whole[0], run)
    shutil.rmtree(run / "checkpoints" / "12")
    shutil.copytree(other / "checkpoints" / "12", run / "checkpoints" / "12")
    with pytest.raises(InputError, match="found a checkpoint of a run with seed 3, expected 0"):
        snm.train(data, tiny.CONFIG, run)


def test_other_library_versions_are_noted(data, whole, tmp_path, monkeypatch):
    run = tmp_path / "run"
    shutil.copytree(whole[0], run)
    read = Checkpoints.read

    def older(self, step):
        note = read(self, step)
        versions = {**note.about["versions"], "jax": "0.1.0"}
        return dataclasses.replace(note, about={**note.about, "versions": versions})

    monkeypatch.setattr(Checkpoints, "read", older)
    noted = [e for e in trainer.training(data, config(epochs=4), run) if isinstance(e, Noted)]
    assert "began with jax 0.1.0" in noted[0].text


# -- checkpoints on the side -----------------------------------------------------------------


def test_a_host_copy_survives_donation():
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    state = {"rows": jax.numpy.arange(1000.0), "none": None, "scalar": jax.numpy.float32(2)}
    place = state["rows"].unsafe_buffer_pointer()
    copy = host_copy(state)
    state["rows"] = step(state["rows"])
    # No view of it is left, so the step still changes it in place.
    assert state["rows"].unsafe_buffer_pointer() == place
    np.testing.assert_array_equal(copy["rows"], np.arange(1000.0))
    again = host_copy(state, copy)
    assert again["rows"] is copy["rows"]
    np.testing.assert_array_equal(again["rows"], np.arange(1000.0) + 1)


def test_a_sharded_state_is_copied_completely():
    devices = jax.sharding.Mesh(np.array(jax.devices()[:4]), "label")
    for axes in ("label", None):
        sharding = jax.sharding.NamedSharding(devices, jax.sharding.PartitionSpec(axes))
        rows = jax.device_put(np.arange(24.0).reshape(8, 3), sharding)
        np.testing.assert_array_equal(host_copy({"rows": rows})["rows"], rows)


@pytest.mark.parametrize("aside", [False, True])
def test_training_goes_on_while_a_checkpoint_is_written(data, whole, tmp_path, monkeypatch, aside):
    monkeypatch.setattr("snm.checkpoints.writer.has_room", lambda state: aside)
    save, saving = Checkpoints.save, []

    def slow(self, *args):
        saving.append(True)
        time.sleep(0.3)
        save(self, *args)
        saving.append(False)

    monkeypatch.setattr(Checkpoints, "save", slow)
    run, during, saved = tmp_path / "run", 0, []
    for event in trainer.training(data, tiny.CONFIG, run):
        during += isinstance(event, Stepped) and bool(saving) and saving[-1]
        if isinstance(event, Saved):
            saved.append(event.step)
            assert (run / "checkpoints" / str(event.step)).is_dir()
    assert (during > 0) == aside
    assert saved == [4, 8, 12]
    assert same(arrays(run), arrays(whole[0]))


@pytest.mark.parametrize("axes", ["label", None])
def test_a_started_write_is_not_affected_by_donation(axes, tmp_path):
    """As with several processes: 64 MiB are donated to many steps during the write."""
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    devices = jax.sharding.Mesh(np.array(jax.devices()[:4]), "label")
    sharding = jax.sharding.NamedSharding(devices, jax.sharding.PartitionSpec(axes))
    rows = jax.device_put(np.zeros((1 << 20, 16), np.float32), sharding)
    like = jax.ShapeDtypeStruct(rows.shape, rows.dtype)
    store = Checkpoints(tmp_path / "checkpoints")
    end = store.begin(1, {"rows": rows}, {}, None)
    for _ in range(5):
        rows = step(rows)
    assert float(rows[0, 0]) == 5
    end()
    assert not np.asarray(store.load(1, {"rows": like})["rows"]).any()


@pytest.mark.slow
def test_training_continues_during_a_write_on_a_mesh(data, tmp_path, monkeypatch):
    """20 labels in 8 shards: checkpoints have no padding rows, and the same bits."""
    begin, during, found = Checkpoints._arrays, 0, {}
    for aside in (False, True):
        monkeypatch.setattr("snm.checkpoints.writer.has_room", lambda state, aside=aside: aside)
        run, saving = tmp_path / str(aside), threading.Event()

        def slow(self, *args, saving=saving):
            saving.set()
            time.sleep(0.3)
            end = begin(self, *args)
            saving.clear()
            return end

        monkeypatch.setattr(Checkpoints, "_arrays", slow)
        for event in trainer.training(data, config(mesh="label=8"), run):
            during += isinstance(event, Stepped) and saving.is_set()
        assert (during > 0) == aside
        store = RunFolder(run).checkpoints(2)
        like = abstract_state(snm.load(run).model)
        found[aside] = [jax.tree.leaves(store.load(step, like)) for step in (8, 12)]
    assert same(*[[leaf for step in found[aside] for leaf in step] for aside in (False, True)])


def test_a_writer_raises_the_error_of_the_previous_write(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    with Writer(Checkpoints(blocked / "checkpoints"), aside=True) as writer:
        writer.save(1, {"a": np.zeros(3)}, {}, None)
        with pytest.raises(OSError):
            writer.save(2, {"a": np.zeros(3)}, {}, None)


# -- full disks ------------------------------------------------------------------------------


def last_good(run, whole):
    """No incomplete checkpoint remains, and that of step 4 equals the reference run's."""
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["4"]
    model = snm.load(run).model
    kept = RunFolder(run).checkpoints(2).load(4, abstract_state(model))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(kept))


@pytest.mark.parametrize("aside", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_full_disk_stops_the_run_with_one_line(data, whole, tmp_path, monkeypatch, aside):
    """The disk fails when half of the second checkpoint is written."""
    monkeypatch.setattr("snm.checkpoints.writer.has_room", lambda state: aside)
    from snm.checkpoints import store as module

    save = module.ocp.save_checkpointables_async

    def full(path, *args, **kwargs):
        if path.endswith("/8"):
            half = path + module._UNFINISHED
            os.mkdir(half)  # noqa: PTH102
            with open(os.path.join(half, "part"), "wb") as out:  # noqa: PTH118, PTH123
                out.write(b"half")
            raise ValueError("RESOURCE_EXHAUSTED: writing [OS error 28: No space left on device]")
        return save(path, *args, **kwargs)

    monkeypatch.setattr(module.ocp, "save_checkpointables_async", full)
    run = tmp_path / "run"
    expected = r"checkpoints/8: no space left on device; .* that of step 4 is whole"
    with pytest.raises(SavingError, match=expected):
        snm.train(data, tiny.CONFIG, run)
    last_good(run, whole)
    monkeypatch.undo()
    snm.train(data, tiny.CONFIG, run)
    assert same(arrays(run), arrays(whole[0]))


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path):
    """A file system of 4 MiB, with room for two checkpoints but not for three."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], check=False,
        capture_output=True,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip("mounting is not permitted")
    try:
        flags = ["--dim=8192", "--encoder=linear", "--epochs=5"]
        folder = tiny.write(tmp_path / "data")
        with command(folder, disk / "run", *flags) as process:
            assert process.wait() == 1
            said = process.stderr.read()
        assert said.count("\n") == 1, said
        assert "checkpoints/12: no space left on device" in said
        assert "that of step 8 is whole" in said
        subprocess.run(["mount", "-o", "remount,size=40m", str(disk)], check=True)
        with command(folder, disk / "run", *flags) as process:
            assert process.wait() == 0
        with command(folder, tmp_path / "whole", *flags) as process:
            assert process.wait() == 0
        assert same(arrays(disk / "run"), arrays(tmp_path / "whole"))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 2000])
def test_a_disk_that_fills_up_while_training(tmp_path, left):
    """The error is one line, whether the log, the curves or a checkpoint fails to be written."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)], check=False,
        capture_output=True,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip("mounting is not permitted")
    try:
        run = disk / "run"
        with command(tiny.write(tmp_path / "data"), run, "--epochs=100000") as process:
            until(run, 2, process)
            with contextlib.suppress(OSError), (disk / "fill").open("wb", buffering=0) as fill:
                while True:
                    fill.write(bytes(1 << 12))
            os.truncate(disk / "fill", (disk / "fill").stat().st_size - left)
            assert process.wait(60) == 1
            said = process.stderr.read()
        assert said.startswith("snm: error: ") and said.count("\n") == 1, said
        assert "no space left on device" in said
        newest = RunFolder(run).checkpoints(2).latest()
        RunFolder(run).checkpoints(2).load(newest, abstract_state(snm.load(run).model))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_folder_that_cannot_be_written_to(folder, tmp_path, capsys):
    (tmp_path / "file").write_text("no folder")
    code, said = refused(
        capsys, ["train", folder, "--run-dir", tmp_path / "file" / "run", *tiny.FLAGS]
    )
    assert code == 2 and f"--run-dir {tmp_path / 'file' / 'run'}: found not a directory" in said


# -- not finite ------------------------------------------------------------------------------


def broken_from(monkeypatch, first_broken, last_broken=10**9):
    """Sets the features of the third point of some steps' batches to NaN."""
    stack = Source.stack

    def broken(self, first, count):
        batch = stack(self, first, count)
        for place in range(count):
            if first_broken <= first + place <= last_broken:
                starts = batch.features.starts[place]
                batch.features.values[place, starts[2] : starts[3]] = np.nan
        return batch

    monkeypatch.setattr(Source, "stack", broken)


def test_the_error_names_the_non_finite_tensor_and_its_rows(data, tmp_path, monkeypatch):
    broken_from(monkeypatch, 6)
    run = tmp_path / "run"
    with pytest.raises(NonFiniteError) as found:
        snm.train(data, tiny.CONFIG, run)
    error = found.value
    points = Order(tiny.POINTS, 16, seed=0).epoch(1)[0][2].tolist()  # its third batch
    assert (error.step, error.points, error.culprits) == (6, points, [points[2]])
    assert str(error).startswith(
        f"step 6: the feature values are not finite; its batch: 1 of 16 points, rows {points[2]} "
    )
    entry = log(run)[-1]
    assert (entry["event"], entry["step"], entry["points"]) == ("nonfinite", 6, points)
    last_good(run, None)


@pytest.mark.slow
def test_rows_are_numbered_as_in_the_file_despite_a_validation_split(data, tmp_path, monkeypatch):
    broken_from(monkeypatch, 0)
    settings = config(validation_fraction=28 / 60)
    with pytest.raises(NonFiniteError) as found:
        snm.train(data, settings, tmp_path / "run")
    held = data.split(28 / 60, 0).train.features
    order = Order(32, 16, seed=0).epoch(0)[0][0]
    for row, place in zip(found.value.points, order, strict=True):
        assert (data.train.features[row] != held[place]).nnz == 0


@pytest.mark.parametrize(
    ("changes", "tensor"),
    [
        (dict(loss="powl", phi="exponential", positives="one", score_scale=1e3, mined=8), "loss"),
        pytest.param(
            dict(learning_rate=1e38, score_scale=1e3),
            "feature rows|sums|queries|class rows|loss",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_named_tensor_is_the_first_non_finite_one(data, tmp_path, changes, tensor):
    with pytest.raises(NonFiniteError, match=rf"step \d+: the ({tensor}).* not finite"):
        snm.train(data, config(**changes), tmp_path / "run")


def test_non_finite_batches_can_be_skipped(data, whole, tmp_path, monkeypatch):
    broken_from(monkeypatch, 6, 7)
    run = tmp_path / "run"
    with pytest.raises(NonFiniteError):
        snm.train(data, tiny.CONFIG, run)
    # Going on with another answer to it, from the checkpoint of step 4.
    events = list(trainer.training(data, config(on_nonfinite="skip"), run))
    assert [event.step for event in events if isinstance(event, Skipped)] == [6, 7]
    result = events[-1].result
    assert result["skipped_steps"] == 2 and result["steps"] == 12
    assert [line["step"] for line in log(run) if line["event"] == "skipped"] == [6, 7]
    # Steps 6 and 7 were one dispatch, of which no loss is known.
    assert [line["loss"] for line in log(run) if line.get("step") == 8 and "loss" in line] == [None]
    assert all(np.isfinite(leaf).all() for leaf in arrays(run))
    # The same again in one go; and stopped after the skipped steps.
    snm.train(data, config(on_nonfinite="skip"), tmp_path / "again")
    assert same(arrays(run), arrays(tmp_path / "again"))
    assert not same(arrays(run), arrays(whole[0]))
    assert RunFolder(run).checkpoints(2).read(8).progress["skipped"] == 2


def test_an_epoch_of_skipped_batches_ends_the_run(data, tmp_path, monkeypatch):
    broken_from(monkeypatch, 2)
    with pytest.raises(NonFiniteError, match="4 steps in a row were skipped: that is an epoch"):
        snm.train(data, config(on_nonfinite="skip"), tmp_path / "run")
