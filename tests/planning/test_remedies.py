"""What would fit where a run does not: the changes that are proposed, and their order."""

import dataclasses
import functools
import itertools

import pytest
import tiny
from devices import mesh_here
from planning.example_sizes import MIB, run_sizes

from snm.machine.platform import compiling_for
from snm.planning import fit_check
from snm.planning.bytes_by_stage import Forecast, bytes_by_stage
from snm.planning.fit_check import compare_memory
from snm.planning.remedies import find_remedies

remedies_on_cpu = functools.partial(find_remedies, on_cpu=True, shared_memory=False)


def test_remedies_fit_and_cost_little_first(planned):
    expected, programs = planned
    at_most = expected.peak_device
    assert list(remedies_on_cpu(expected, tiny.CONFIG, programs.model, at_most))
    big = run_sizes(members=2, optimizer=60 * MIB)
    host, _ = bytes_by_stage(big, on_cpu=True)
    expected = dataclasses.replace(expected, sizes=big, host=host)
    settings = dataclasses.replace(tiny.CONFIG, row_optimizer="adagrad", dim=256)
    model = dataclasses.replace(programs.model, dim=256, num_features=8 * MIB)
    remedies = list(remedies_on_cpu(expected, settings, model, expected.peak_host - 40 * MIB))
    assert [flags.split()[0] for flags, _ in remedies][:2] == ["--row-optimizer", "--members"]
    assert all(size <= expected.peak_host - 40 * MIB for _, size in remedies)
    # Members in turns take time only, so that is what is proposed first.
    beside = dataclasses.replace(expected, sizes=dataclasses.replace(big, parallel_members=2))
    first = next(remedies_on_cpu(beside, settings, model, expected.peak_host))
    assert first == ("--members-at-once 1", expected.peak_host)
    # A memory of neighbours is given up before members are.
    remembering = dataclasses.replace(big, memory=1 << 33)
    host, _ = bytes_by_stage(remembering, on_cpu=True)
    full = dataclasses.replace(expected, sizes=remembering, host=host)
    assert full.peak_host > 1 << 33
    first = next(remedies_on_cpu(full, settings, model, 1 << 33))
    assert first[0] == "--memory off" and first[1] < 1 << 33
    # Dimensions are tried from the largest down: the first that fits loses least.
    dims = [int(flags.split()[1]) for flags, _ in remedies if flags.startswith("--dim")]
    assert dims == sorted(dims, reverse=True) and dims[0] < 256
    assert not list(remedies_on_cpu(expected, settings, model, 100 * MIB))


def numbers(flag, remedies):
    return [int(flags.split()[1]) for flags, _ in remedies if flags.split()[0] == flag]


@pytest.mark.parametrize(
    ("mesh", "batch", "proposed"),
    [("", 12, [6, 3, 1]), ("data=4", 12, []), ("data=4", 16, [8, 4]), ("label=4", 12, [6, 3, 1])],
)
def test_batches_that_a_mesh_cannot_cut_are_not_proposed(mesh, batch, proposed, planned):
    settings = dataclasses.replace(tiny.CONFIG, mesh=mesh, batch_size=batch)
    remedies = remedies_on_cpu(planned[0], settings, planned[1].model, 1 << 50)
    assert numbers("--batch-size", remedies) == proposed


def test_few_of_many_smaller_dimensions_are_tried(planned):
    """Millions of them took minutes; what is left between two is a 64th at most."""
    model = dataclasses.replace(planned[1].model, dim=100_000_000)
    tried = numbers("--dim", remedies_on_cpu(planned[0], tiny.CONFIG, model, 1 << 50))
    assert len(tried) < 2000
    assert tried[:2] == [95 << 20, 94 << 20] and tried[-4:] == [32, 24, 16, 8]
    pairs = itertools.pairwise(tried)
    assert all(after >= before * 63 // 64 for before, after in pairs if after > 4096)


@pytest.mark.parametrize(
    ("platform", "proposed"),
    [("tpu", [256, 128]), ("gpu", [*range(352, 0, -32), 24, 16, 8])],
)
def test_dimensions_that_a_tpu_refuses_are_not_proposed(platform, proposed, planned):
    model = dataclasses.replace(planned[1].model, dim=384)
    with compiling_for(platform, 16 << 30):
        remedies = remedies_on_cpu(planned[0], tiny.CONFIG, model, 1 << 50)
        assert numbers("--dim", remedies) == proposed


@pytest.mark.parametrize(("mesh", "rows"), [("", 50), ("data=8", 4 + 20), ("data=2,label=4", 13)])
def test_without_accumulators_a_device_saves_its_own(mesh, rows, planned):
    """Of 30 features over the longer axis and 20 labels over `label`, one number each."""
    settings = dataclasses.replace(tiny.CONFIG, row_optimizer="adagrad", mesh=mesh)
    expected = dataclasses.replace(
        planned[0], device=bytes_by_stage(planned[0].sizes, on_cpu=False)[1]
    )
    big = dataclasses.replace(expected.sizes, optimizer=MIB, devices=8 if mesh else 1)
    expected, model = dataclasses.replace(expected, sizes=big), planned[1].model
    remedies = dict(
        find_remedies(expected, settings, model, 1 << 40, on_cpu=False, shared_memory=False)
    )
    _, device = bytes_by_stage(dataclasses.replace(big, optimizer=MIB - 4 * rows), on_cpu=False)
    assert remedies["--row-optimizer sgd"] == max(sum(parts.values()) for parts in device.values())


def test_what_fits_a_mesh_that_a_cpu_simulates_is_judged_as_the_run(planned, monkeypatch):
    """By this machine's memory all devices together, by a limit that is named each."""
    settings = dataclasses.replace(tiny.CONFIG, mesh="data=4")
    programs = dataclasses.replace(planned[1], mesh=mesh_here("data=4", tiny.LABELS, 16))
    big = run_sizes(devices=4, unsharded_state=110 * MIB, step_temporaries=800 * MIB)
    half_batch = {"step_temporaries": 400 * MIB, "batch_stack": MIB // 2}
    less = dataclasses.replace(big, **half_batch)
    expected = Forecast(*bytes_by_stage(big, on_cpu=True), big, 4)
    changed = Forecast(*bytes_by_stage(less, on_cpu=True), less, 4)

    def check(forecast, limit, named):
        monkeypatch.setattr(fit_check, "device_memory", lambda: limit)
        return compare_memory(forecast, programs, settings, limit if named else None)

    for named, now in ((False, changed.peak_host), (True, changed.peak_device)):
        assert check(changed, now, named).needed == now
        assert ("--batch-size 8", now) in check(expected, now, named).remedies
        assert "--batch-size 8" not in dict(check(expected, now - 1, named).remedies)
