"""Trains with several processes on one machine: same results, common stop, common errors.

The processes are real and connect over the loopback interface; all such tests are slow.
"""

import dataclasses
import functools
import json
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from runs.processes.several_processes import (
    alone,
    assert_same,
    free_port,
    logged_values,
    of_one,
    together,
)
from scipy import sparse
from small_runs import arrays

import snm
from snm.batches.batch import POINT_FIELDS
from snm.batches.device_parts import local_data_parts, spread_stack
from snm.batches.epoch_order import Order
from snm.batches.sources.build import make_run_source, make_source
from snm.config.resolve import resolve
from snm.data.formats.repository_text.writer import write_text
from snm.data.weighting import Weighting
from snm.distributed.mesh import make_mesh
from snm.model.from_config import make_model
from snm.trainer.training import train


@pytest.mark.slow
def test_two_processes_train_evaluate_and_checkpoint_together(data, tiny_run, tmp_path):
    assert_same(together(data, tmp_path / "two", "--mesh=data=2"), of_one(tiny_run))
    assert not list((tmp_path / "two").glob("**/*.partial"))
    for mine, other in zip(arrays(tmp_path / "two"), arrays(tiny_run / "run"), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mesh", "devices", "changes"),
    [
        ("label=8", 4, {}),  # 20 labels and 30 features: no part is full
        ("data=4", 2, dict(sampler="in-batch", mined="all")),
        ("data=2,label=2", 2, dict(row_optimizer="adagrad", learning_rate=0.1)),
        ("label=2", 1, dict(members=2, validation_fraction=0.3, patience=2, refit=True)),
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
def test_warm_start_with_several_processes(data, tiny_run, tmp_path):
    old = tiny_run / "run"
    train(data, tiny.CONFIG, tmp_path / "one", warm_start=old)
    for mesh in ("label=2", "data=2"):
        found = together(data, tmp_path / mesh, f"--mesh={mesh}", f"--warm-start={old}")
        np.testing.assert_allclose(found[0], logged_values(tmp_path / "one"), rtol=1e-4)


@pytest.mark.slow
def test_warm_start_with_several_processes_maps_labels_by_name(data, tmp_path):
    """The other run has the labels in the opposite order."""
    for name, order in (("old", range(tiny.LABELS)), ("new", reversed(range(tiny.LABELS)))):
        shutil.copytree(data, tmp_path / name)
        (tmp_path / name / "labels.txt").write_text("".join(f"name {i}\n" for i in order))
    train(tmp_path / "old", tiny.CONFIG, tmp_path / "run")
    start_from = f"--warm-start={tmp_path / 'run'}"
    found = together(tmp_path / "new", tmp_path / "two", "--mesh=label=2", start_from)
    train(tmp_path / "new", tiny.CONFIG, tmp_path / "one", warm_start=tmp_path / "run")
    np.testing.assert_allclose(found[0], logged_values(tmp_path / "one"), rtol=1e-4)


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
        monkeypatch.setattr("snm.batches.sources.build.local_data_parts", lambda _: own)
        return make_run_source(config, model.spec, dataset.train, rows, weighting, mesh, seed=0)

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
            of_points = name in POINT_FIELDS
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
        source = make_run_source(settings, model.spec, dataset.train, None, weighting, mesh, seed=0)
        resident = source.resident_arrays()
        assert len(jax.tree.leaves(resident)) == (6 if data_on == "device" else 0)
        made = jax.jit(functools.partial(source.materialize, shape=source.shape(0)))
        for step in range(source.steps_per_epoch):
            item = jax.tree.map(lambda leaf: leaf[0], source.stack(step, 1))
            for part in range(4):
                # A device receives its own part alone.
                points = {
                    name: jax.tree.map(lambda x, n=part: x[n : n + 1], getattr(item, name))
                    for name in POINT_FIELDS if hasattr(item, name)
                }  # fmt: skip
                own = jax.tree.map(lambda x, n=part: jnp.asarray(x[n : n + 1]), resident)
                batch = made(own, item._replace(**points))
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
        make_model(config, tiny.FEATURES, tiny.LABELS).spec, dataset.train.features,
        dataset.train.labels, Order.of(dataset.train.num_points, 16, 0, 2), data_parts=2,
    )  # fmt: skip
    stack = source.stack(0, 2)
    laid = spread_stack(stack, mesh)
    for mine, made in zip(jax.tree.leaves(laid), jax.tree.leaves(stack), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), made)
    assert laid.features.ids.addressable_shards[0].data.shape[1] == 1  # a part a device


READS = """
import json, sys
import numpy as np
import snm
from snm.batches.sources.build import make_run_source
from snm.config.resolve import resolve
from snm.distributed.dataset import (
    duplicate_test_rows_together,
    fit_weighting,
    label_frequency_together,
    load_together,
)
from snm.distributed.launch import ProcessOptions, leave, process_group
from snm.distributed.mesh import make_mesh
from snm.distributed.processes import barrier
from snm.model.from_config import make_model

folder, port, number, processes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with process_group(ProcessOptions(f"127.0.0.1:{port}", processes, number, 20)):
    data = load_together(folder)
    config = resolve(snm.preset("default"), data)
    mesh = make_mesh(f"data={processes}", data.train.num_labels, config.batch_size)
    weighting = fit_weighting("tfidf", data.train.features)
    head = make_model(config, data.train.num_features, data.train.num_labels).spec
    source = make_run_source(config, head, data.train, None, weighting, mesh, seed=0)
    source.stack(0, 1)
    mapped = {}
    for line in open("/proc/self/smaps"):
        if line[0].isalnum() and line.split()[-1].endswith(".npy"):
            name = line.split()[-1].rsplit("/", 1)[-1]
        elif line.startswith("Rss:"):
            mapped[name] = mapped.get(name, 0) + int(line.split()[1]) * 1024
        elif not line[0].isalpha():
            name = "other"
    row = {
        "points": source.features.shape[0], "first": source.counts.first, "mapped": mapped,
        "frequency": label_frequency_together(data).tolist(), "idf": weighting.idf.tolist(),
        "duplicates": np.flatnonzero(duplicate_test_rows_together(data.test, data.train)).tolist(),
        "features": float(source.features.sum()), "dropout": config.input_dropout,
    }
    print(json.dumps(row))
    barrier("the end")
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
    return [json.loads(output.strip().splitlines()[-1]) for output, _ in found]


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
    for one, half in ((first, weighted[: points // 2]), (second, weighted[points // 2 :])):
        assert one["features"] == pytest.approx(half.sum(), rel=1e-5)
        assert one["dropout"] == resolve(snm.preset("default"), whole).input_dropout
        assert one["frequency"] == whole.label_frequency().tolist()
        np.testing.assert_array_equal(np.float32(one["idf"]), weighting.idf)
        assert one["duplicates"][-2:] == [300, 301]
        for matrix, array in (("features", "data"), ("features", "indices"), ("labels", "indices")):
            size = getattr(getattr(whole.train, matrix), array).nbytes
            read = one["mapped"][f"train.{matrix}.{array}.npy"]
            # Pages around what is read come along, 2 MiB at once at either end.
            assert 0.4 * size < read < 0.51 * size + (4 << 20), (matrix, array, read, size)
            assert matrix == "labels" or read < 0.8 * size
