"""Checkpoints that are written beside the training, and disks that are full."""

import contextlib
import os
import subprocess
import time

import jax
import numpy as np
import pytest
import tiny
from command_line import refused
from orbax.checkpoint import v1 as ocp
from runs.faults.faulty_runs import command, last_good, small_disk, until
from small_runs import arrays, config, same

import snm
from snm.checkpoints.store import Checkpoints, SavingError
from snm.checkpoints.writer import Writer
from snm.distributed.host_copy import host_copy
from snm.model.model import abstract_state
from snm.runs.events import Saved, Stepped
from snm.runs.folder import RunFolder
from snm.trainer import training as trainer


class Overtaken:
    """A checkpoint that is written once a later step was taken; the last one, of step 12, at once.

    Attributes:
      steps: those that were taken.
      found: of each checkpoint, whether a later step came before it was written.
    """

    def __init__(self, write, waits):
        self.steps, self.found, self._write, self._waits = [0], [], write, waits

    def __call__(self, store, step, *args):
        end = time.monotonic() + 60
        while self._waits and step < 12 and self.steps[-1] <= step and time.monotonic() < end:
            time.sleep(0.01)
        self.found.append(self.steps[-1] > step)
        return self._write(store, step, *args)


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


@pytest.mark.parametrize("in_background", [False, True])
def test_training_goes_on_while_a_checkpoint_is_written(
    data, whole, tmp_path, monkeypatch, in_background
):
    monkeypatch.setattr("snm.checkpoints.writer.has_memory_for_copy", lambda state: in_background)
    slow = Overtaken(Checkpoints.save, in_background)
    monkeypatch.setattr(Checkpoints, "save", lambda *args: slow(*args))
    run, saved = tmp_path / "run", []
    for event in trainer.training(data, tiny.CONFIG, run):
        if isinstance(event, Stepped):
            slow.steps.append(event.step)
        if isinstance(event, Saved):
            saved.append(event.step)
            assert (run / "checkpoints" / str(event.step)).is_dir()
    assert slow.found == [in_background, in_background, False]
    assert saved == [4, 8, 12]
    assert same(arrays(run), arrays(whole[0]))


def test_the_last_checkpoint_is_not_copied(data, whole, tmp_path, monkeypatch):
    """No step follows that could overwrite it."""
    copied = []

    def counted(state, into=None):
        copied.append(state)
        return host_copy(state, into)

    monkeypatch.setattr("snm.checkpoints.writer.host_copy", counted)
    saved = [e.step for e in trainer.training(data, tiny.CONFIG, tmp_path / "run")
             if isinstance(e, Saved)]  # fmt: skip
    assert saved == [4, 8, 12] and len(copied) == 2
    assert same(arrays(tmp_path / "run"), arrays(whole[0]))


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
    begin, found = Checkpoints._arrays, {}
    for in_background in (False, True):
        monkeypatch.setattr(
            "snm.checkpoints.writer.has_memory_for_copy",
            lambda state, in_background=in_background: in_background,
        )
        run, slow = tmp_path / str(in_background), Overtaken(begin, in_background)
        monkeypatch.setattr(Checkpoints, "_arrays", lambda *args, slow=slow: slow(*args))
        for event in trainer.training(data, config(mesh="label=8"), run):
            if isinstance(event, Stepped):
                slow.steps.append(event.step)
        assert slow.found == [in_background, in_background, False]
        store = RunFolder(run).checkpoints(2)
        like = abstract_state(snm.load(run).model)
        found[in_background] = [jax.tree.leaves(store.load(step, like)) for step in (8, 12)]
    assert same(
        *[
            [leaf for step in found[in_background] for leaf in step]
            for in_background in (False, True)
        ]
    )


def test_a_writer_raises_the_error_of_the_previous_write(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    with Writer(Checkpoints(blocked / "checkpoints"), in_background=True) as writer:
        writer.save(1, {"a": np.zeros(3)}, {}, None)
        with pytest.raises(OSError):
            writer.save(2, {"a": np.zeros(3)}, {}, None)


@pytest.mark.parametrize("in_background", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_full_disk_stops_the_run_with_one_line(data, whole, tmp_path, monkeypatch, in_background):
    """The disk fails when half of the second checkpoint is written."""
    monkeypatch.setattr("snm.checkpoints.writer.has_memory_for_copy", lambda state: in_background)
    from snm.checkpoints import store as module

    save = ocp.save_checkpointables_async

    def full(path, *args, **kwargs):
        if path.endswith("/8"):
            half = path + module._UNFINISHED
            os.mkdir(half)  # noqa: PTH102
            with open(os.path.join(half, "part"), "wb") as out:  # noqa: PTH118, PTH123
                out.write(b"half")
            raise ValueError("RESOURCE_EXHAUSTED: writing [OS error 28: No space left on device]")
        return save(path, *args, **kwargs)

    monkeypatch.setattr(ocp, "save_checkpointables_async", full)
    run = tmp_path / "run"
    expected = r"checkpoints/8: no space left on device; .* that of step 4 is whole"
    with pytest.raises(SavingError, match=expected):
        snm.train(data, tiny.CONFIG, run)
    last_good(run)
    monkeypatch.undo()
    snm.train(data, tiny.CONFIG, run)
    assert same(arrays(run), arrays(whole[0]))


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path):
    """A file system of 4 MiB, with room for two checkpoints but not for three."""
    with small_disk(tmp_path / "disk", 4) as disk:
        flags = ["--dim=8192", "--encoder=linear", "--epochs=5"]
        folder = tiny.write(tmp_path / "data")
        with command(folder, disk / "run", *flags) as process:
            assert process.wait() == 1
            said = process.stderr.read()
        (said,) = (line for line in said.splitlines() if line.startswith("snm: "))
        assert "checkpoints/12: no space left on device" in said
        assert "that of step 8 is whole" in said
        subprocess.run(["mount", "-o", "remount,size=40m", str(disk)], check=True)
        with command(folder, disk / "run", *flags) as process:
            assert process.wait() == 0
        with command(folder, tmp_path / "whole", *flags) as process:
            assert process.wait() == 0
        assert same(arrays(disk / "run"), arrays(tmp_path / "whole"))


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 2000])
def test_a_disk_that_fills_up_while_training(tmp_path, left):
    """The error is one line, whether the log, the curves or a checkpoint fails to be written."""
    with small_disk(tmp_path / "disk", 8) as disk:
        run = disk / "run"
        with command(tiny.write(tmp_path / "data"), run, "--epochs=100000") as process:
            until(run, 2, process)
            with contextlib.suppress(OSError), (disk / "fill").open("wb", buffering=0) as fill:
                while True:
                    fill.write(bytes(1 << 12))
            os.truncate(disk / "fill", (disk / "fill").stat().st_size - left)
            assert process.wait(300) == 1  # a checkpoint that is removed leaves room for some more
            said = process.stderr.read()
        (said,) = (line for line in said.splitlines() if line.startswith("snm: "))
        assert "no space left on device" in said
        newest = RunFolder(run).checkpoints(2).latest()
        RunFolder(run).checkpoints(2).load(newest, abstract_state(snm.load(run).model))


def test_a_folder_that_cannot_be_written_to(folder, tmp_path, capsys):
    (tmp_path / "file").write_text("no folder")
    run = tmp_path / "file" / "run"
    said = refused(capsys, "train", folder, "--run-dir", run, *tiny.FLAGS)
    assert f"--run-dir {tmp_path / 'file' / 'run'}: found not a directory" in said
