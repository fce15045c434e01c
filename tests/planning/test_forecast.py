"""The plan: tables by hand, the time of a step, what is refused, and the measured peak."""

import dataclasses
import itertools
import json
import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
import tiny
from command_line import call, refused
from planning.example_sizes import MIB

import snm
from snm.config.resolve import resolve
from snm.machine.platform import compiling_for
from snm.machine.ram import resident_ram
from snm.memory.memory import Memory, MemorySettings
from snm.planning import fit_check
from snm.planning import programs as module
from snm.planning.fit_check import device_memory
from snm.planning.forecast import count_parameters, forecast
from snm.planning.programs import seconds_per_step
from snm.planning.remedies import _changes


def test_memory_is_that_of_the_device_that_is_compiled_for():
    with compiling_for("tpu", 16 << 30):
        assert device_memory() == 16 << 30
    with compiling_for("cpu", 1):  # the memory of this machine
        assert device_memory() > resident_ram()


def test_tables_and_optimizer_by_hand(dataset):
    """30 features and 20 labels of 8 numbers, 20 biases, one multiplier, and the dense layer."""
    for optimizer, accumulators in (("sgd", 0), ("adagrad", 30 + 20)):
        settings = dataclasses.replace(tiny.CONFIG, row_optimizer=optimizer, encoder="relu")
        found = forecast(dataset, resolve(settings, dataset))[0].sizes
        tower = 8 * 8  # and its momentum, and a step's count
        assert found.tables == 4 * ((30 + 20) * 8 + 20 + 1 + tower)
        assert found.optimizer == 4 * (accumulators + tower + 1)
        assert found.dataset == sum(
            4 * m.nnz + 4 * m.nnz + m.indptr.nbytes
            for part in (dataset.train, dataset.test)
            for m in (part.features, part.labels)
        )


@pytest.mark.parametrize(("dtype", "row_bytes"), [("float32", 4), ("bfloat16", 2)])
def test_parameters_by_hand(dtype, row_bytes, dataset):
    """As above, of two members; without the optimizers' numbers."""
    settings = dataclasses.replace(
        tiny.CONFIG, row_optimizer="adagrad", encoder="relu", table_dtype=dtype, members=2
    )
    rows, others = (30 + 20) * 8, 20 + 1 + 8 * 8
    expected = 2 * (rows + others), 2 * (row_bytes * rows + 4 * others)
    assert count_parameters(resolve(settings, dataset), dataset) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mesh", "of_features", "of_labels"),
    [("data=2,label=4", 8, 5), ("data=8", 4, 20), ("data=4,label=2", 8, 10)],
)
def test_a_mesh_divides_tables_and_batches(mesh, of_features, of_labels, dataset, planned):
    """30 features over the longer axis, 20 labels over `label`, the dense layer in each."""
    settings = dataclasses.replace(
        tiny.CONFIG, encoder="relu", mesh=mesh, row_optimizer="adagrad", learning_rate=0.1
    )
    found, programs = forecast(dataset, resolve(settings, dataset))
    sizes = found.sizes
    assert programs.mesh.size == sizes.devices == 8
    assert sizes.tables == 4 * ((of_features + of_labels) * 8 + of_labels + 1 + 64)
    assert sizes.optimizer == 4 * (of_features + of_labels + 64 + 1)
    assert sizes.unsharded_state == 4 * ((30 + 20) * (8 + 1) + 20 + 1 + 64 + 64 + 1)
    assert sizes.batch_stack < planned[0].sizes.batch_stack  # of points half, of the sample all
    assert found.device["training"]["tables"] == sizes.tables
    assert found.host["training"]["tables"] == 8 * sizes.tables  # which one CPU plays
    assert found.host["training"]["checkpoint"] == sizes.unsharded_state


@pytest.mark.parametrize(
    ("changes", "aside"),
    [
        ({"checkpoint_every": 4}, True),
        ({"checkpoint_every": 0}, False),  # 12 steps: the last alone is saved
        ({"checkpoint_every": 0, "validation_fraction": 0.3}, True),  # and the best before it
    ],
)
def test_a_copy_is_counted_where_a_checkpoint_comes_before_the_last(dataset, changes, aside):
    settings = dataclasses.replace(tiny.CONFIG, epochs=3, **changes)
    assert forecast(dataset, resolve(settings, dataset))[0].sizes.background_checkpoints == aside


def test_a_memory_of_neighbours_is_counted_as_it_is_kept(planned):
    made = snm.generate(points=600, test_points=0, features=120, labels=60, seed=0)
    train = dataclasses.replace(made.train, weights=np.ones(600, np.float32))
    made = dataclasses.replace(made, train=train)
    settings = dataclasses.replace(tiny.CONFIG, dim=16, members=2, sampled=40, memory="on")
    found, programs = forecast(made, resolved := resolve(settings, made))
    whole = Memory(
        made.train.features,
        made.train.labels,
        np.zeros((600, 2 * settings.dim), np.float16),
        np.arange(600),
        MemorySettings(10, 1.0, 0.5, 1.0),
        train.weights,
    )
    assert found.sizes.memory == whole.nbytes
    assert planned[0].sizes.memory == 0  # of a run without
    # What would fit is counted as it would be kept, too.
    ways = dict(_changes(found.sizes, resolved, programs.model))
    for flag, change in (("--members 1", {"members": 1}), ("--dim 8", {"dim": 8})):
        fresh, _ = forecast(made, resolve(dataclasses.replace(settings, **change), made))
        assert ways[flag].memory == fresh.sizes.memory < whole.nbytes
        assert ways[flag].unsharded_state == pytest.approx(fresh.sizes.unsharded_state, rel=0.1)


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_step_is_timed(at_once, planned):
    assert 0 < seconds_per_step(planned[1], at_once) < 60


def test_a_failure_of_one_member_ends_the_timing(planned, monkeypatch):
    """In a thread, so that the test does not wait for ever where the timing does."""
    numbers = itertools.count()

    def initial(model, mesh):
        if next(numbers) == 1:
            raise MemoryError("no room for the second")
        return real(model, mesh)

    real = module.init_state_on
    monkeypatch.setattr(module, "init_state_on", initial)
    failures = []

    def timed():
        try:
            seconds_per_step(planned[1], 3)
        except MemoryError as error:
            failures.append(str(error))

    thread = threading.Thread(target=timed, daemon=True)
    thread.start()
    thread.join(300)
    assert failures == ["no room for the second"]


def test_members_at_once_take_their_time_together(folder, capsys):
    words = ["plan", folder, *tiny.FLAGS, "--members=4", "--members-at-once=2"]
    call(*words)
    out = capsys.readouterr().out
    assert "a step of 2 members at once, 4 steps an epoch" in out
    epoch, whole = (float(text) for text in re.findall(r"([0-9.e-]+) s (?:an epoch|of steps)", out))
    assert whole == pytest.approx(2 * 3 * epoch, rel=0.1)  # four members, two at a time; two digits


@pytest.mark.slow
def test_a_plan_counts_every_stage_of_b(dataset, monkeypatch):
    """B 4, 8, 16 for a third of the run each: the most bytes, and the mean of the seconds."""
    one, three = (
        forecast(dataset, resolve(dataclasses.replace(tiny.CONFIG, **changes), dataset))
        for changes in (
            dict(sampled=16, mined=2),
            dict(sampled=4, sampled_start=16, mined=2),
        )
    )
    assert [one.stage.model.spec.sampled for one in three[1].stages] == [16, 8, 4]
    for name in ("step_temporaries", "batch_stack"):
        assert getattr(three[0].sizes, name) == getattr(one[0].sizes, name)
    seconds = {16: 3.0, 8: 2.0, 4: 0.1}
    monkeypatch.setattr(
        module, "_seconds_of_stage", lambda _, one, start: seconds[one.stage.model.spec.sampled]
    )
    assert seconds_per_step(three[1]) == pytest.approx(5.1 / 3)
    assert seconds_per_step(one[1]) == pytest.approx(3.0)


def test_plan_on_the_command_line(folder, capsys):
    words = ["plan", folder, *tiny.FLAGS]
    call(*words)
    out = capsys.readouterr().out
    assert "tables" in out and "4 steps an epoch" in out
    (fits,) = (line for line in out.splitlines() if line.startswith("fits: "))
    assert " at the peak, " in fits and "leave half a GiB more" in fits
    assert "these times were measured just now, on a few steps: they vary" in out
    call(*words, "--json", "--device-memory", "1MiB")
    found = json.loads(capsys.readouterr().out)
    assert not found["fits"] and found["limit_bytes"] == MIB
    assert found["peak_host_bytes"] == max(sum(s.values()) for s in found["host_bytes"].values())
    assert found["seconds_per_epoch"] == pytest.approx(4 * found["seconds_per_step"])
    call(*words, "--mesh=label=2", "--device-memory", "1GiB")
    out = capsys.readouterr().out
    assert "each of 2 devices, MiB" in out and "one CPU simulates the devices" in out
    assert "fits: " in out and "half a GiB" not in out  # a device holds no libraries
    said = refused(capsys, *words, "--device-memory", "much")
    assert "--device-memory: found 'much', expected a size such as" in said


def test_a_run_that_cannot_fit_is_refused_before_it_begins(folder, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"
    words = ["train", folder, "--run-dir", run, *tiny.FLAGS]
    said = refused(capsys, *words, "--device-memory", "2MiB")
    assert "--device-memory: found a run that needs " in said and "at most 2 MiB" in said
    with monkeypatch.context() as limited:
        for name in ("device_memory", "available_ram"):
            limited.setattr(fit_check, name, lambda: 3 << 20)
        limited.setattr(fit_check, "ram_limit_name", lambda: "ulimit -d")
        said = refused(capsys, *words)
    assert said.startswith("ulimit -d: found a run that needs ") and "at most 3 MiB" in said
    assert not run.exists()
    call(*words, "--device-memory", "80GiB", "--epochs=1")


SIZES = {  # labels, features, dim, members
    "small": (20_000, 20_000, 128, 1),
    "medium": (200_000, 100_000, 256, 3),
    "large": (500_000, 150_000, 256, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_the_peak_is_the_predicted_one(size, tmp_path):
    """Within 15%, each in a process of its own; a plan, then the run."""
    labels, features, dim, members = SIZES[size]
    env = {**os.environ, "SNM_CACHE": str(tmp_path / "cache"), "XLA_FLAGS": ""}  # as users run it

    def run(*words):
        done = subprocess.run([sys.executable, "-m", "snm", *map(str, words)], env=env,
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("data", "synth", tmp_path / "data", "--points", 6000, "--test-points", 500, "--features",
        features, "--labels", labels, "--labels-per-point", 3)  # fmt: skip
    flags = [tmp_path / "data", "--dim", dim, "--members", members, "--epochs", 1]
    predicted = json.loads(run("plan", *flags, "--json"))["peak_host_bytes"]
    run("train", *flags, "--run-dir", tmp_path / "run")
    measured = json.loads((tmp_path / "run" / "result.json").read_text())["peak_memory_bytes"]
    print(f"{size}: {predicted / MIB:,.0f} MiB predicted, {measured / MIB:,.0f} measured")
    assert predicted == pytest.approx(measured, rel=0.15)
