"""The compiled programs for TPUs and GPUs that are not there: what they hold, make and exchange.

Each check has a test of a program made wrong on purpose, which it must find.
"""

import dataclasses
import functools
import types

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import SingleDeviceSharding

from benchmarks import scaling
from snm.batches.build import make_source
from snm.bench.shapes import SEED, SHAPES, model_of, points_of, source_of
from snm.distributed.collectives import Shard
from snm.head import by_threshold, mining
from snm.sampling import permutation
from snm.targets.devices import devices_of
from snm.targets.faults import faults
from snm.targets.module import Module
from snm.targets.programs import Program, compile_scoring, compile_training
from snm.targets.table import TARGETS
from snm.topk.blocks import Best

pytestmark = pytest.mark.accelerators

MIB = 1 << 20
STEPS = 4
LONGEST_SORT = 1024
"""Scores of a point. XLA:GPU's kernel for the best 16 takes more than that; it sorts fewer."""


@functools.lru_cache
def source_for(shape, mined, data_parts):
    features, labels = points_of(SHAPES[shape], STEPS * SHAPES[shape].batch)
    return make_source(
        model_of(SHAPES[shape], mined).head, features, labels, batch_size=SHAPES[shape].batch,
        seed=SEED, weight_of_term="mean", resident=True, sampler="uniform", frequency_power=0.75,
        data_parts=data_parts,
    )  # fmt: skip


def step(target, shape, mined, sizes=(1, 1), longest=LONGEST_SORT, **spec) -> Program:
    count = SHAPES[shape].sampled if mined == "all" else mined
    model = model_of(SHAPES[shape], count)
    model = dataclasses.replace(model, head=dataclasses.replace(model.head, **spec))
    source = source_for(shape, count, sizes[0])
    devices = devices_of(TARGETS[target], sizes[0] * sizes[1])
    return compile_training(
        "training", model, source, TARGETS[target], devices, sizes, STEPS, longest
    )


def evaluation(target, shape, **spec) -> Program:
    model = model_of(SHAPES[shape], 16)
    model = dataclasses.replace(model, head=dataclasses.replace(model.head, **spec))
    devices = devices_of(TARGETS[target], 1)
    return compile_scoring("evaluation", model, 1, 1 << 16, TARGETS[target], devices, (1, 1))


def tables_of(shape, sizes):
    rows = SHAPES[shape].num_labels // sizes[1] + SHAPES[shape].num_features // max(sizes)
    return 4 * SHAPES[shape].dim * rows


def slow(*case):
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("target", "shape", "mined", "loss", "sizes"),
    [
        ("h100", "amazon670k", 16, "bowl", (1, 1)),
        ("h100", "amazon670k", "all", "softmax", (1, 1)),
        ("h100", "amazon670k", 16, "softmax", (1, 4)),
        ("h100", "amazon3m", 16, "bowl", (2, 4)),
        ("v5e", "amazon670k", 16, "bowl", (1, 1)),
        slow("v5e", "amazon670k", "all", "softmax", (1, 1)),
        *(
            slow(target, shape, mined, loss, sizes)
            for target in ("v5e", "v5p", "h100")
            for shape in ("amazon670k", "amazon3m")
            for mined in (16, "all")
            for loss in ("bowl", "softmax")
            for sizes in ((1, 1), (1, 4), (2, 4))
        ),
    ],
)
def test_a_step_updates_its_tables_in_place(target, shape, mined, loss, sizes):
    found = step(target, shape, mined, sizes, loss=loss)
    assert not found.faults
    assert not found.account.unknown_loops
    assert found.aliased >= tables_of(shape, sizes)
    most = 150 if shape == "amazon670k" else 300
    assert found.temporaries <= most * MIB, found.temporaries / MIB


@pytest.mark.slow
@pytest.mark.parametrize("target", ["v5e", "v5p", "h100"])
@pytest.mark.parametrize("shape", ["amazon670k", "amazon3m"])
def test_a_step_that_mines_many(target, shape):
    """Sorts of folds are longer there, but none is of the sample."""
    found = step(target, shape, 256, longest=SHAPES[shape].sampled // 4)
    assert not found.faults
    assert found.temporaries <= 300 * MIB, found.temporaries / MIB


@pytest.mark.parametrize(
    ("target", "shape"), [("h100", "amazon3m"), ("v5e", "amazon3m"), slow("v5p", "amazon3m")]
)
def test_an_evaluation_makes_nothing_of_the_length_of_the_labels(target, shape):
    found = evaluation(target, shape)
    assert not found.faults
    assert found.temporaries <= 0.3 * 1024 * MIB, found.temporaries / MIB
    assert set(found.account.operations) == {"float32"}


def test_a_table_rounded_as_a_whole_is_found():
    """What XLA:TPU does where no precision is asked for."""
    found = evaluation("v5e", "amazon670k", matmul_precision="default")
    assert any("whole table made by convert" in fault for fault in found.faults)
    assert found.temporaries > 600 * MIB
    assert set(found.account.operations) == {"bfloat16"}


def test_a_sort_of_one_more_than_16_is_found(monkeypatch):
    """What XLA:GPU makes of the 17 best."""
    monkeypatch.setattr(mining, "_MASKED_FROM", {"cpu": 64})
    assert any("sorts" in fault for fault in step("h100", "amazon670k", 16).faults)


def as_on_a_cpu(monkeypatch, module):
    """Lets a module choose the forms that it has for CPUs, whatever it is compiled for."""
    chosen = {**vars(lax), "platform_dependent": lambda *args, cpu, default: cpu(*args)}
    monkeypatch.setattr(module, "lax", types.SimpleNamespace(**chosen))


def test_mining_by_threshold_neither_sorts_nor_waits():
    found = of_threshold()
    assert not found.faults
    assert not found.account.unknown_loops


def test_a_threshold_that_waits_for_the_host_is_found(monkeypatch):
    """Halving an interval until that of each point is closed."""
    as_on_a_cpu(monkeypatch, by_threshold)
    assert of_threshold().account.unknown_loops


def of_threshold() -> Program:
    """A step whose scores are few enough to be held, and its mined many."""
    shape = SHAPES["amazon670k"].but(8192, (256,))
    model, source = model_of(shape, 256), source_of(shape, 256, STEPS * shape.batch, resident=True)
    target = TARGETS["h100"]
    there = devices_of(target, 1)
    return compile_training("training", model, source, target, there, (1, 1), STEPS, LONGEST_SORT)


def test_a_draw_that_waits_for_the_host_is_found(monkeypatch):
    """The sample as a CPU draws it: the loop ends when no value is outside of the labels."""
    as_on_a_cpu(monkeypatch, permutation)
    permutation.permuted.clear_cache()
    try:
        assert step("h100", "amazon670k", 16).account.unknown_loops == 1
    finally:
        permutation.permuted.clear_cache()


def test_a_table_copied_is_found():
    """What is read after the write are the rows from before it."""
    (device,) = devices_of(TARGETS["h100"], 1)
    place = SingleDeviceSharding(device)
    shape = (100_000, 64)

    def careless(rows, ids):
        written = rows.at[ids].add(1.0)
        return written, jnp.sum(rows[ids + written[0, 0].astype(jnp.int32)])

    rows = jax.ShapeDtypeStruct(shape, jnp.float32, sharding=place)
    ids = jax.ShapeDtypeStruct((8,), jnp.int32, sharding=place)
    compiled = jax.jit(careless, donate_argnums=0).lower(rows, ids).compile()
    found = faults(Module(compiled.as_text()), [shape], LONGEST_SORT)
    assert any("whole table made by copy" in fault for fault in found)


def exchanged(labels, features, batch, data, label):
    """Bytes that a device sends in a step of the default preset: compiled, and by the formula."""
    model, source = scaling.model_and_source(labels, features, batch, data)
    devices = devices_of(TARGETS["h100"], data * label)
    found = compile_training(
        "training", model, source, TARGETS["h100"], devices, (data, label), 1, 1 << 20
    )
    return found.account.sent, sum(scaling.sent_bytes(batch, data, label).values())


@pytest.mark.parametrize(
    "case", [(1_000_000, 100_000, 256, 2, 4), slow((1_000_000, 100_000, 256, 1, 4))]
)
def test_a_step_sends_what_the_formula_says(case):
    sent, formula = exchanged(*case)
    assert sent == pytest.approx(formula, rel=0.05)


@pytest.mark.slow
def test_a_step_that_sends_more_is_found(monkeypatch):
    def twice(self, best, count, merge=Shard.merge_topk):
        scores = jnp.concatenate([best.scores, best.scores - 1e6], axis=1)
        return merge(self, Best(scores, jnp.tile(best.slots, (1, 2))), count)

    monkeypatch.setattr(Shard, "merge_topk", twice)
    sent, formula = exchanged(1_000_000, 100_000, 256, 1, 4)
    assert sent > 1.05 * formula
