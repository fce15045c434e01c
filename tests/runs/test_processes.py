"""Trains with several processes on one machine: same results, common stop, common errors.

The processes are real and connect over the loopback interface; all such tests are slow.
"""

import dataclasses
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import snm
from snm.batches.batch import OF_POINTS
from snm.batches.build import make_source, source_of
from snm.batches.device_parts import local_data_parts, spread_stack
from snm.checkpoints.store import Checkpoints, SavingError
from snm.checkpoints.writer import TogetherWriter
from snm.config.resolve import resolve
from snm.data.formats.dispatch import write_text
from snm.data.weighting import Weighting
from snm.distributed.launch import GONE, Meeting, launched
from snm.distributed.mesh import make_mesh
from snm.distributed.processes import Agreed
from snm.errors import InputError
from snm.model.from_config import make_model
from snm.runs.folder import RunFolder
from snm.trainer.training import train

STOPPED = 75
TIMEOUT = 6  # seconds of silence after which a process counts as dead
LEEWAY = 20  # for the machine to do so while others use it


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.write(tmp_path_factory.mktemp("data") / "tiny")


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def start(data, run, *flags, processes=2, devices=1, launcher=None, program=("-m", "snm")):
    """Starts the processes of a run; `launcher` returns additions to their environment."""
    port = free_port()
    found = []
    for number in range(processes):
        words = [
            "train",
            str(data),
            "--run-dir",
            str(run),
            *tiny.FLAGS,
            f"--peer-timeout={TIMEOUT}",
        ]
        given = {} if launcher is None else launcher(number, processes)
        if launcher is None:
            words += [f"--coordinator=127.0.0.1:{port}", f"--num-processes={processes}",
                      f"--process-id={number}"]  # fmt: skip
        environment = {**os.environ, "JAX_NUM_CPU_DEVICES": str(devices), **given}
        found.append(
            subprocess.Popen(
                [sys.executable, *program, *words, *flags],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return found


def ended(processes, within=400):
    """The exit statuses and outputs of processes; fails if one hangs, after killing it."""
    last = time.monotonic() + within
    found = []
    try:
        for process in processes:
            _, said = process.communicate(timeout=max(last - time.monotonic(), 1))
            found.append((process.returncode, said))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    return found


def together(data, run, *flags, **options):
    for status, said in ended(start(data, run, *flags, **options)):
        assert status == 0, said
    return told(run), json.loads((run / "result.json").read_text())["metrics"]


def told(run, event="stepped", field="loss"):
    """A field of the events of one kind, by member: the lines of those side by side alternate."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    lines.sort(key=lambda line: line["phase"])
    return [line[field] for line in lines if line["event"] == event]


def alone(data, run, **changes):
    result = train(data, dataclasses.replace(tiny.CONFIG, **changes), run)
    return told(run), result["metrics"]


def assert_same(found, expected):
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4)
    for name, value in expected[1].items():
        assert found[1][name] == pytest.approx(value, abs=0.3), name


def arrays(run):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(snm.load(run).state)]


# -- the same run ------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_train_evaluate_and_checkpoint_together(data, tmp_path):
    expected = alone(data, tmp_path / "one")
    assert_same(together(data, tmp_path / "two", "--mesh=data=2"), expected)
    assert not list((tmp_path / "two").glob("**/*.partial"))
    for mine, other in zip(arrays(tmp_path / "two"), arrays(tmp_path / "one"), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mesh", "devices", "changes"),
    [
        ("data=2,label=2", 2, {}),
        ("label=8", 4, {}),  # 20 labels and 30 features: no part is full
        ("data=4", 2, dict(sampler="in-batch", mined="all")),
        ("data=2,label=2", 2, dict(row_optimizer="adagrad", learning_rate=0.1)),
        ("label=2", 1, dict(members=2)),
        ("data=2", 1, dict(validation_fraction=0.3, patience=2, refit=True)),
        ("data=2,label=2", 2, dict(data_on="device", sampled="all", mined="all")),
    ],
)
def test_two_processes_on_other_meshes(mesh, devices, changes, data, tmp_path):
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in changes.items()
             if value is not True]  # fmt: skip
    flags += [f"--{name}" for name, value in changes.items() if value is True]
    found = together(data, tmp_path / "two", f"--mesh={mesh}", *flags, devices=devices)
    assert_same(found, alone(data, tmp_path / "one", **changes))


@pytest.mark.slow
def test_a_run_continues_with_another_number_of_processes(data, tmp_path):
    """One process, then two, then four, then one again."""
    run = tmp_path / "run"
    alone(data, run, epochs=1, mesh="label=8")
    together(data, run, "--mesh=data=2,label=2", "--epochs=2", devices=2)
    together(data, run, "--mesh=data=2,label=2", "--epochs=3", processes=4)
    found = alone(data, run, epochs=4)
    assert_same(found, alone(data, tmp_path / "whole", epochs=4))


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["label=2", "data=2"])
def test_warm_start_with_several_processes(mesh, data, tmp_path):
    alone(data, tmp_path / "old")
    start_from = f"--warm-start={tmp_path / 'old'}"
    found = together(data, tmp_path / "two", f"--mesh={mesh}", start_from)
    train(data, tiny.CONFIG, tmp_path / "one", warm_start=tmp_path / "old")
    np.testing.assert_allclose(found[0], told(tmp_path / "one"), rtol=1e-4)


# -- what each process makes -------------------------------------------------------------------


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("sampler", ["uniform", "frequency", "in-batch"])
def test_a_process_makes_its_own_parts_of_the_same_batches(sampler, resident, data, monkeypatch):
    """For any choice of data parts: from the points of these parts only."""
    if resident and sampler == "in-batch":
        pytest.skip("in-batch candidates come from the host")
    dataset = snm.load_data(data)
    data_on = "device" if resident else "host"
    config = resolve(dataclasses.replace(tiny.CONFIG, sampler=sampler, data_on=data_on), dataset)
    model = make_model(config, tiny.FEATURES, tiny.LABELS)
    weighting = Weighting.fit("tfidf", dataset.train.features)
    rows = np.arange(5, tiny.POINTS)  # the rest is held out, say
    mesh = make_mesh("data=4", tiny.LABELS, tiny.CONFIG.batch_size)

    def source(own):
        monkeypatch.setattr("snm.batches.build.local_data_parts", lambda _: own)
        return source_of(config, model.head, dataset.train, rows, weighting, mesh)

    def same(mine, every, own, axis):
        cut = (slice(None),) * axis + (slice(own.start, own.stop),)
        for part, whole in zip(jax.tree.leaves(mine), jax.tree.leaves(every), strict=True):
            np.testing.assert_array_equal(part, whole[cut])

    of_all = source(range(4))
    assert of_all.features.shape[0] == of_all.num_points == len(rows)
    whole = of_all.stack(4, 3)
    for own in (range(0, 2), range(2, 4), range(1, 2)):
        mine = source(own)
        assert mine.num_points == len(rows)
        assert abs(mine.features.shape[0] - len(own) * len(rows) / 4) < 1
        stack = mine.stack(4, 3)
        for name in whole._fields:
            of_points = name in OF_POINTS
            part = own if of_points else range(4)
            same(getattr(stack, name), getattr(whole, name), part, int(of_points))
        same(mine.resident_arrays(), of_all.resident_arrays(), own, 0)


@pytest.mark.parametrize("positives", ["one", "all"])
def test_a_batch_from_the_device_is_that_from_the_host(positives, data):
    """In four data parts, each of which numbers its own points from 0."""
    dataset = snm.load_data(data)
    changes = dict(positives=positives, exclude="all")
    config = resolve(dataclasses.replace(tiny.CONFIG, **changes), dataset)
    model = make_model(config, tiny.FEATURES, tiny.LABELS)
    weighting = Weighting.fit("tfidf", dataset.train.features)
    mesh = make_mesh("data=4", tiny.LABELS, tiny.CONFIG.batch_size)
    found = []
    for data_on in ("host", "device"):
        settings = dataclasses.replace(config, data_on=data_on)
        source = source_of(settings, model.head, dataset.train, None, weighting, mesh)
        resident = source.resident_arrays()
        assert len(jax.tree.leaves(resident)) == (6 if data_on == "device" else 0)
        for step in range(source.steps_per_epoch):
            item = jax.tree.map(lambda leaf: leaf[0], source.stack(step, 1))
            for part in range(4):
                # A device receives its own part alone.
                points = {
                    name: jax.tree.map(lambda x, n=part: x[n : n + 1], getattr(item, name))
                    for name in OF_POINTS if hasattr(item, name)
                }  # fmt: skip
                own = jax.tree.map(lambda x, n=part: jnp.asarray(x[n : n + 1]), resident)
                batch = source.materialize(own, item._replace(**points), source.shape(0))
                found.append((batch.features, batch.terms, batch.known))
    half = len(found) // 2
    for host, device in zip(found[:half], found[half:], strict=True):
        for one, other in zip(jax.tree.leaves(host), jax.tree.leaves(device), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


def test_sharded_arrays_equal_the_originals(data):
    dataset = snm.load_data(data)
    config = resolve(tiny.CONFIG, dataset)
    mesh = make_mesh("data=2,label=4", tiny.LABELS, 16)
    assert local_data_parts(mesh) == range(2)
    source = make_source(
        make_model(config, tiny.FEATURES, tiny.LABELS).head, dataset.train.features,
        dataset.train.labels, batch_size=16, seed=0, weight_of_term="mean", resident=False,
        sampler="uniform", frequency_power=0.75, data_parts=2,
    )  # fmt: skip
    stack = source.stack(0, 2)
    laid = spread_stack(stack, 2, mesh)
    for mine, made in zip(jax.tree.leaves(laid), jax.tree.leaves(stack), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), made)
    assert laid.features.ids.addressable_shards[0].data.shape[1] == 1  # a part a device


READS = """
import json, sys
import numpy as np
import snm
from snm.batches.build import source_of
from snm.config.resolve import resolve
from snm.distributed.dataset import (
    duplicate_test_rows,
    fit_weighting,
    label_frequency,
    load_together,
)
from snm.distributed.launch import Meeting, leave, process_group
from snm.distributed.mesh import make_mesh
from snm.distributed.processes import wait
from snm.model.from_config import make_model

folder, port, number, processes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with process_group(Meeting(f"127.0.0.1:{port}", processes, number, 20)):
    data = load_together(folder)
    config = resolve(snm.preset("default"), data)
    mesh = make_mesh(f"data={processes}", data.train.num_labels, config.batch_size)
    weighting = fit_weighting("tfidf", data.train.features)
    head = make_model(config, data.train.num_features, data.train.num_labels).head
    source = source_of(config, head, data.train, None, weighting, mesh)
    source.stack(0, 1)
    mapped = {}
    for line in open("/proc/self/smaps"):
        if line[0].isalnum() and line.split()[-1].endswith(".npy"):
            name = line.split()[-1].rsplit("/", 1)[-1]
        elif line.startswith("Rss:"):
            mapped[name] = mapped.get(name, 0) + int(line.split()[1]) * 1024
        elif not line[0].isalpha():
            name = "other"
    told = {
        "points": source.features.shape[0], "first": source.first, "mapped": mapped,
        "frequency": label_frequency(data).tolist(), "idf": weighting.idf.tolist(),
        "duplicates": np.flatnonzero(duplicate_test_rows(data)).tolist(),
        "features": float(source.features.sum()), "dropout": config.input_dropout,
    }
    print(json.dumps(told))
    wait("the end")
    leave(0)
"""


def readers(folder, processes):
    port = str(free_port())
    words = [sys.executable, "-c", READS, str(folder), port]
    started = [
        subprocess.Popen([*words, str(number), str(processes)], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
        for number in range(processes)
    ]  # fmt: skip
    found = [process.communicate(timeout=300) for process in started]
    assert all(process.returncode == 0 for process in started), [said[-2000:] for _, said in found]
    return [json.loads(told.strip().splitlines()[-1]) for told, _ in found]


@pytest.mark.slow
def test_each_process_reads_only_its_part(tmp_path):
    """With half of each batch to make, a process holds half of the points and of the cache."""
    points = 36_000
    data = snm.generate(points=points, test_points=300, features=3000, labels=500, seed=4,
                        nonzeros_per_point=120)  # fmt: skip
    rows = np.r_[0, points - 1]  # repeated in test, from either half
    test = snm.Points(
        sparse.vstack([data.test.features, data.train.features[rows]]).tocsr(),
        sparse.vstack([data.test.labels, data.train.labels[rows]]).tocsr(),
    )
    folder = tmp_path / "data"
    folder.mkdir()
    for name, part in (("train", data.train), ("test", test)):
        write_text(folder / f"{name}.txt", part.features, part.labels)
    first, second = readers(folder, 2)
    assert (first["first"], second["first"]) == (0, points // 2)
    assert first["points"] == second["points"] == points // 2
    whole = snm.load_data(folder)
    weighting = Weighting.fit("tfidf", whole.train.features)
    weighted = weighting.apply(whole.train.features)
    for told, half in ((first, weighted[: points // 2]), (second, weighted[points // 2 :])):
        assert told["features"] == pytest.approx(half.sum(), rel=1e-5)
        assert told["dropout"] == resolve(snm.preset("default"), whole).input_dropout
        assert told["frequency"] == whole.label_frequency().tolist()
        np.testing.assert_array_equal(np.float32(told["idf"]), weighting.idf)
        assert told["duplicates"][-2:] == [300, 301]
        for matrix, array in (("features", "data"), ("features", "indices"), ("labels", "indices")):
            size = getattr(getattr(whole.train, matrix), array).nbytes
            read = told["mapped"][f"train.{matrix}.{array}.npy"]
            # Pages around what is read come along, 2 MiB at once at either end.
            assert 0.4 * size < read < 0.51 * size + (4 << 20), (matrix, array, read, size)
            assert matrix == "labels" or read < 0.8 * size


# -- faults ------------------------------------------------------------------------------------


def wait_for(run, step, processes):
    """Waits for a checkpoint of that step or a later one."""
    checkpoints = RunFolder(run).checkpoints(2)
    last = time.monotonic() + 300
    while (checkpoints.latest() or 0) < step:
        assert all(process.poll() is None for process in processes), "ended too early"
        assert time.monotonic() < last
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("dead", [0, 1])
def test_a_dead_process_ends_the_others_and_the_run_can_continue(dead, data, tmp_path):
    run = tmp_path / "run"
    processes = start(data, run, "--mesh=data=2", "--epochs=4000")
    wait_for(run, 8, processes)
    processes[dead].send_signal(signal.SIGKILL)
    begun = time.monotonic()
    found = ended([processes[1 - dead]], within=TIMEOUT + LEEWAY)
    took = time.monotonic() - begun
    assert found[0][0] == GONE
    assert "another process of this run is gone" in found[0][1].splitlines()[-1]
    processes[dead].communicate()
    print(f"\nprocess {dead} killed, the other ended after {took:.1f} s")
    # On with fewer epochs than asked at first: what the run was told of is done already.
    newest = RunFolder(run).checkpoints(2).latest()
    epochs = -(-newest // 4) + 2
    together(data, run, "--mesh=data=2", f"--epochs={epochs}")
    assert told(run, field="step")[-1] == 4 * epochs
    whole = alone(data, tmp_path / "whole", epochs=epochs)
    assert told(run)[-1] == pytest.approx(whole[0][-1], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("asked", [0, 1])
def test_a_stop_request_to_one_process_stops_all(asked, data, tmp_path):
    run = tmp_path / "run"
    processes = start(data, run, "--mesh=data=2", "--epochs=4000")
    wait_for(run, 8, processes)
    processes[asked].send_signal(signal.SIGTERM)
    found = ended(processes, within=60)
    newest = RunFolder(run).checkpoints(2).latest()
    for status, said in found:
        assert status == STOPPED, said
        assert said.splitlines()[-1].startswith(
            f"snm: error: stopped as asked, with a checkpoint of step {newest}"
        )
    epochs = -(-newest // 4) + 1
    found = together(data, run, "--mesh=data=2", f"--epochs={epochs}")
    whole = alone(data, tmp_path / "whole", epochs=epochs)
    np.testing.assert_allclose(found[0], whole[0], rtol=1e-3)


@pytest.mark.slow
def test_a_folder_in_use_ends_all(data, tmp_path):
    run = tmp_path / "run"
    busy = start(data, run, "--epochs=4000", processes=1)
    try:
        wait_for(run, 4, busy)
        found = ended(start(data, run, "--mesh=data=2", "--epochs=4000"), within=120)
    finally:
        busy[0].kill()
        busy[0].communicate()
    assert found[0][0] == 2 and "in use by process" in found[0][1].splitlines()[-1]
    assert found[1][0] == GONE


@pytest.mark.slow
def test_all_processes_skip_a_damaged_checkpoint(data, tmp_path):
    run = tmp_path / "run"
    together(data, run, "--mesh=label=2", "--epochs=2")
    checkpoints = RunFolder(run).checkpoints(2)
    files = [path for path in checkpoints.path(8).rglob("*") if path.is_file()]
    largest = max((path for path in files if path.name != "manifest.json"),
                  key=lambda path: path.stat().st_size)  # fmt: skip
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    found = together(data, run, "--mesh=label=2", "--epochs=3")
    assert any("a damaged checkpoint" in text for text in told(run, "noted", "text"))
    whole = alone(data, tmp_path / "whole", epochs=3)
    assert found[1]["P@1"] == pytest.approx(whole[1]["P@1"], abs=0.3)


# -- checkpoints on the side -------------------------------------------------------------------

SLOW_SECONDS = 3
SLOW = f"""
import sys, time
from snm.checkpoints.store import Checkpoints
from snm.cli.main import main

begin = Checkpoints.begin

def slow(self, *args):
    end = begin(self, *args)

    def later():
        time.sleep({SLOW_SECONDS})
        end()

    return later

Checkpoints.begin = slow
main(sys.argv[1:])
"""
ASIDE = ("--mesh=data=2", "--epochs=30", "--checkpoint-every=40")  # of 120 steps


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    together(data, run, *ASIDE)
    return arrays(run)


@pytest.mark.slow
def test_training_continues_while_a_checkpoint_is_written(data, undisturbed, tmp_path):
    run = tmp_path / "run"
    together(data, run, *ASIDE, program=("-c", SLOW))
    events = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    names = [(event["event"], event.get("step")) for event in events]
    assert [step for name, step in names if name == "saved"] == [40, 80, 120]
    # All steps up to the next checkpoint, which waits for this one, were taken before it was whole.
    assert names.index(("stepped", 80)) < names.index(("saved", 40))
    assert names.index(("stepped", 120)) < names.index(("saved", 80))
    for mine, other in zip(arrays(run), undisturbed, strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.slow
@pytest.mark.parametrize("dead", [0, 1])
def test_a_process_killed_while_a_checkpoint_is_written(dead, data, undisturbed, tmp_path):
    run = tmp_path / "run"
    processes = start(data, run, *ASIDE, program=("-c", SLOW))
    checkpoints = RunFolder(run).checkpoints(2)
    wait_for(run, 40, processes)
    last = time.monotonic() + 60
    while not checkpoints.path(80).is_dir():  # as orbax leaves it; the manifest comes later
        assert time.monotonic() < last
        time.sleep(0.02)
    processes[dead].send_signal(signal.SIGKILL)
    found = ended([processes[1 - dead]], within=TIMEOUT + LEEWAY)
    processes[dead].communicate()
    assert found[0][0] == GONE
    # Where process 0 is left, and all parts are, it may still make that one whole.
    assert checkpoints.latest() in ((40,) if dead == 0 else (40, 80))
    together(data, run, *ASIDE)
    for mine, other in zip(arrays(run), undisturbed, strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.slow
def test_a_failed_write_of_one_process_ends_all_with_one_line(data, tmp_path):
    run = tmp_path / "run"
    processes = start(data, run, "--mesh=label=2", "--epochs=4000")
    wait_for(run, 8, processes)
    # Nothing that it writes may grow past a few bytes: the file system says so to it alone.
    resource.prlimit(processes[1].pid, resource.RLIMIT_FSIZE, (16, resource.RLIM_INFINITY))
    begun = time.monotonic()
    found = ended(processes, within=60)
    newest = RunFolder(run).checkpoints(2).latest()
    print(f"\nprocess 1 found no room, both ended after {time.monotonic() - begun:.1f} s")
    for status, said in found:
        line = said.splitlines()[-1]
        assert status == 1, said
        assert f"file too large; the checkpoint was not written, and that of step {newest}" in line
    epochs = -(-newest // 4) + 1
    together(data, run, "--mesh=label=2", f"--epochs={epochs}")
    assert told(run, field="step")[-1] == 4 * epochs


def test_the_status_of_a_write_arrives_one_exchange_later(tmp_path, monkeypatch):
    """With one process, whose status is the minimum."""
    gate = threading.Event()
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    begin = Checkpoints.begin

    def held(self, *args):
        end = begin(self, *args)
        return lambda: (gate.wait(60), end())

    monkeypatch.setattr(Checkpoints, "begin", held)
    state = {"rows": jax.numpy.arange(1000.0)}
    with TogetherWriter(checkpoints, aside=True) as writer:
        writer.save(1, state, {}, None)
        assert [writer.written() for _ in range(3)] == [[], [], []]
        assert checkpoints.latest() is None
        gate.set()
        writer.wait()
        assert writer.written() == [1]
        assert checkpoints.latest() == 1
        # The result of the last write does not count for the next one.
        gate.clear()
        writer.save(2, state, {}, None)
        assert [writer.written() for _ in range(3)] == [[], [], []]
        gate.set()


def test_an_error_of_another_process_is_raised_here(tmp_path, monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(Checkpoints, "begin", lambda self, *args: lambda: gate.wait(60))
    writer = TogetherWriter(Checkpoints(tmp_path / "checkpoints"), aside=True)
    writer.save(7, {}, {}, None)
    monkeypatch.setattr(Agreed, "__call__", lambda self, mine: 0)  # the first of REASONS
    with pytest.raises(SavingError, match=r"7: no space left on device; .*there is none before"):
        writer.wait()
    writer.close()  # does not wait for the stuck thread
    assert not gate.is_set()
    gate.set()


# -- the options -------------------------------------------------------------------------------


def open_mpi(number, processes):
    """The environment of mpirun, whose first variable gives JAX the address and port."""
    return {
        "OMPI_MCA_orte_hnp_uri": f"{free_port() * 4096}.0;tcp://127.0.0.1:1234",
        "OMPI_COMM_WORLD_SIZE": str(processes),
        "OMPI_COMM_WORLD_RANK": str(number),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(number),
    }


def slurm(number, processes):
    return {
        "SLURM_JOB_ID": "31415",
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_STEP_NUM_TASKS": str(processes),
        "SLURM_NTASKS": str(processes),
        "SLURM_PROCID": str(number),
        "SLURM_LOCALID": str(number),
    }


@pytest.mark.slow
@pytest.mark.parametrize("launcher", [open_mpi, slurm])
def test_launchers_are_detected(launcher, data, tmp_path):
    given = [launcher(number, 2) for number in range(2)]
    for one in given:  # one job, so one address
        one.update({key: given[0][key] for key in one if "uri" in key})
    found = together(data, tmp_path / "two", "--mesh=data=2", launcher=lambda n, _: given[n])
    assert_same(found, alone(data, tmp_path / "one"))


def test_a_batch_script_or_a_single_task_is_one_process():
    assert launched(slurm(0, 2)) and launched(open_mpi(1, 2))
    assert launched({"TPU_WORKER_HOSTNAMES": "a,b"})
    assert not launched({**slurm(0, 1), **open_mpi(0, 1)})
    assert not launched({"SLURM_NTASKS": "4", "SLURM_JOB_ID": "1"})


WHOLE = dict(coordinator="host:1234", num_processes=4, process_id=3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (dict(coordinator="host"), "--coordinator: found 'host', expected HOST:PORT"),
        (dict(coordinator="host:0"), "--coordinator"),
        (dict(coordinator="host:70000"), "--coordinator"),
        (dict(process_id=4), "--process-id: found 4, expected 0 to 3"),
        (dict(process_id=-1), "--process-id"),
        (dict(num_processes=0), "--num-processes: found 0, expected 1 or more"),
        (dict(process_id=None), "--process-id: found nothing"),
        (dict(coordinator=None, process_id=None), "--coordinator, --process-id: found nothing"),
        (dict(timeout=0), "--peer-timeout"),
    ],
)
def test_inconsistent_options_are_refused(changes, said):
    with pytest.raises(InputError) as error:
        Meeting(**{**WHOLE, **changes}).check(launched=False)
    assert error.value.as_flags.startswith(said)


@given(st.text(max_size=12))
def test_addresses_are_accepted_or_refused(text):
    try:
        Meeting(**{**WHOLE, "coordinator": text}).check(launched=False)
    except InputError:
        return
    host, port = text.rsplit(":", 1)
    assert host and 0 < int(port) < 65536


@pytest.mark.slow
def test_a_mesh_that_the_processes_do_not_divide_is_refused_by_all(data, tmp_path):
    for mesh in ("--mesh=data=1", "--mesh=label=3"):
        for status, said in ended(start(data, tmp_path / "run", mesh), within=120):
            assert status == 2
            assert "a multiple of the 2 processes, for example data=2" in said.splitlines()[-1]
    assert not (tmp_path / "run").exists()
