"""The compiled programs for TPUs and GPUs that are not there: what they hold, make and exchange.

Each check has a test of a program made wrong on purpose, which it must find.
"""

import dataclasses
import functools
import itertools
import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import SingleDeviceSharding

from benchmarks.devices import scaling
from snm.batches.epoch_order import Order
from snm.batches.sources import build
from snm.bench.shapes import SEED, SHAPES, make_model, make_points, make_source
from snm.distributed.collectives import Shard
from snm.head import by_threshold, plan
from snm.head.plan import pairs_are_cheaper
from snm.machine import compiler
from snm.machine.platform import compiling_for
from snm.prediction.programs import jitted_queries, jitted_top
from snm.sampling import permutation
from snm.targets import programs
from snm.targets.devices import make_devices
from snm.targets.module import Module
from snm.targets.programs import Program, compile_and_analyse, compile_scoring, compile_training
from snm.targets.table import TARGETS
from snm.topk.blocks import Best
from snm.trainer.steps.programs import jitted_assembly

pytestmark = pytest.mark.accelerators

MIB = 1 << 20
STEPS = 4
LONGEST_SORT = 1024
"""Scores of a point. XLA:GPU's kernel for the best 16 takes more than that; it sorts fewer."""


@pytest.fixture(autouse=True)
def traced_anew() -> None:
    """Forgets the programs of tests that change the forms."""
    for cached in (jitted_assembly, jitted_queries, jitted_top):
        cached.cache_clear()


@functools.lru_cache
def source_for(shape, mined, data_parts):
    batch = SHAPES[shape].batch
    return build.make_source(
        make_model(SHAPES[shape], mined).spec, *make_points(SHAPES[shape], STEPS * batch),
        Order.of(STEPS * batch, batch, SEED, data_parts),
        resident=True, data_parts=data_parts,
    )  # fmt: skip


def step(target, shape, mined, sizes=(1, 1), **spec) -> Program:
    count = SHAPES[shape].sampled if mined == "all" else mined
    model = make_model(SHAPES[shape], count)
    model = dataclasses.replace(model, spec=dataclasses.replace(model.spec, **spec))
    source = source_for(shape, count, sizes[0])
    devices = make_devices(TARGETS[target], sizes[0] * sizes[1])
    # Of 256 mined, folds are sorted: a quarter of the sample or less.
    longest = SHAPES[shape].sampled // 4 if mined == 256 else LONGEST_SORT
    return compile_training(
        "training", model, source, TARGETS[target], devices, sizes, STEPS, longest
    )


def scoring(target, shape, sizes=(1, 1), **spec) -> Program:
    """The search for the best labels: that of an evaluation, and on one device of a prediction."""
    model = make_model(SHAPES[shape], 16)
    model = dataclasses.replace(model, spec=dataclasses.replace(model.spec, **spec))
    devices = make_devices(TARGETS[target], sizes[0] * sizes[1])
    return compile_scoring("evaluation", model, 1, 1 << 16, TARGETS[target], devices, sizes)


def tables_of(shape, sizes):
    rows = SHAPES[shape].num_labels // sizes[1] + SHAPES[shape].num_features // max(sizes)
    return 4 * SHAPES[shape].dim * rows


MOST = 300 * MIB


def most_temporaries(shape, mined):
    """Bytes of a step."""
    return 150 * MIB if shape == "amazon670k" and mined != 256 else MOST


def also(few, every):
    """The few cases, and marked slow all the others."""
    rest = [case if isinstance(case, tuple) else (case,) for case in every if case not in few]
    return few + [pytest.param(*case, marks=pytest.mark.slow) for case in rest]


ONE, LABEL, BOTH = MESHES = [(1, 1), (1, 4), (2, 4)]
PROVEN = "v5e", "v5p", "h100"
BIG = "amazon670k", "amazon3m"


@pytest.mark.parametrize(
    ("target", "shape", "mined", "loss", "sizes"),
    also(
        [
            ("h100", "amazon670k", 16, "bowl", ONE),
            ("h100", "amazon670k", 256, "softmax", ONE),
            ("h100", "amazon670k", "all", "softmax", ONE),
            ("h100", "amazon670k", 16, "softmax", LABEL),
            ("h100", "amazon670k", 256, "softmax", LABEL),
            ("h100", "amazon670k", "all", "softmax", LABEL),
            ("h100", "amazon3m", "all", "bowl", LABEL),
            ("h100", "amazon3m", 16, "bowl", BOTH),
            ("v5e", "amazon670k", 16, "bowl", ONE),
            ("v5p", "amazon670k", 16, "bowl", ONE),
            ("v5p", "amazon3m", 16, "bowl", ONE),
        ],
        itertools.product(PROVEN, BIG, (16, 256, "all"), ("bowl", "softmax"), MESHES),
    ),
)
def test_a_step_updates_its_tables_in_place(target, shape, mined, loss, sizes):
    found = step(target, shape, mined, sizes, loss=loss)
    assert not found.faults
    # By products, a label shard walks over its own part of the sample, whose length a step finds;
    # for a softmax of all twice, because each gradient depends on all scores.
    walks = 2 if (loss, mined) == ("softmax", "all") else mined != 16
    assert found.account.unknown_loops <= (walks if sizes[1] > 1 else 0)
    assert found.aliased >= tables_of(shape, sizes)
    assert found.temporaries <= most_temporaries(shape, mined), found.temporaries / MIB


@pytest.fixture
def modules(monkeypatch):
    """The texts of the programs that a test compiles."""
    found = []

    class Kept(Module):
        def __init__(self, text):
            super().__init__(text)
            found.append(self)

    monkeypatch.setattr(programs, "Module", Kept)
    return found


def scores_and_calls(module):
    """How many results are scores of a batch of Amazon-670K, and how often the kernel is called."""
    batch, sampled = SHAPES["amazon670k"].batch, SHAPES["amazon670k"].sampled
    shapes = [shape.dims for one in module.all() for shape in one.shapes]
    scores = sum(dims[:1] == (batch,) and dims[-1] >= sampled for dims in shapes)
    named = [one for one in module.all() if "product_top_k" in one.name]
    return scores, sum(one.opcode == "custom-call" for one in named)


@pytest.mark.parametrize("target", ["v5e", "v5p"])
def test_a_step_with_the_kernel_writes_no_scores(target, modules):
    found = step(target, "amazon670k", 16)
    assert not found.faults and not found.account.unknown_loops
    assert found.aliased >= tables_of("amazon670k", ONE)
    assert found.temporaries <= most_temporaries("amazon670k", 16), found.temporaries / MIB
    assert [scores_and_calls(one) for one in modules] == [(0, 1)]


def test_a_step_that_writes_scores_is_found(modules):
    step("h100", "amazon670k", 16)
    ((scores, calls),) = map(scores_and_calls, modules)
    assert scores and not calls


@pytest.mark.parametrize(
    ("target", "shape", "sizes"),
    also(
        [("h100", "amazon3m", ONE), ("h100", "amazon3m", BOTH), ("v5e", "amazon3m", ONE),
         ("v5e", "amazon670k", LABEL), ("v5p", "amazon670k", ONE)],
        itertools.product(PROVEN, BIG, MESHES),
    ),
)  # fmt: skip
def test_an_evaluation_makes_nothing_of_the_length_of_the_labels(target, shape, sizes):
    found = scoring(target, shape, sizes)
    assert not found.faults
    assert not found.account.unknown_loops
    assert found.temporaries <= MOST, found.temporaries / MIB
    assert set(found.account.operations) == {"float32"}


@pytest.mark.parametrize(
    ("name", "shape"),
    also([("b200", "amazon670k")], [("h200", "amazon670k"), ("v6e", "amazon670k")]),
)
def test_the_other_targets_compile(name, shape):
    found = step(name, shape, 16)
    assert not found.faults
    assert found.aliased >= tables_of(shape, ONE)


@pytest.mark.parametrize("name", also(["h100"], ["v5e", "v6e", "h100-4"]))
def test_the_verb_needs_no_settings_of_jax(name, tmp_path):
    """JAX would try to start the devices that the compilers' packages announce."""
    settings = {"JAX_PLATFORMS", "XLA_FLAGS", "TPU_SKIP_MDS_QUERY", "JAX_ENABLE_CHECKS"}
    env = {key: value for key, value in os.environ.items() if key not in settings}
    words = ["snm", "plan", "synthetic", "--preset", "paper", "--target", name, "--json"]
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True,
        env={**env, "SNM_CACHE": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["target"] == name.partition("-")[0] and found["fits"]
    assert "Error" not in done.stderr and not (tmp_path / "compiled").exists()


def test_a_table_rounded_as_a_whole_is_found():
    """What XLA:TPU does where no precision is asked for, and no kernel searches."""
    found = scoring("v5e", "amazon670k", matmul_precision="default", mining_kernel="off")
    assert any("whole table made by convert" in fault for fault in found.faults)
    assert found.temporaries > 600 * MIB
    assert set(found.account.operations) == {"bfloat16"}


@pytest.mark.slow
def test_a_part_of_a_table_copied_to_the_chip_is_found(monkeypatch):
    """What XLA:TPU does with the feature rows of one device of four, where it has all the room."""
    monkeypatch.setattr(compiler, "_ARRAYS", 1 << 40)
    found = scoring("v5e", "amazon670k", LABEL)
    assert any("whole table made by" in fault for fault in found.faults), found.faults


def test_a_sort_of_one_more_than_16_is_found(monkeypatch):
    """What XLA:GPU makes of the 17 best."""
    monkeypatch.setattr(plan, "_MASK_OWN_MIN_MINED", {"cpu": 64})
    assert any("sorts" in fault for fault in step("h100", "amazon670k", 16).faults)


def as_on_a_cpu(monkeypatch, module):
    """Lets a module choose the forms that it has for CPUs, whatever it is compiled for."""
    monkeypatch.setattr(module, "by_platform", lambda *args, cpu, default: cpu(*args))


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
    shape = SHAPES["amazon670k"].with_sampling(8192, (256,))
    model, source = (
        make_model(shape, 256),
        make_source(shape, 256, STEPS * shape.batch, resident=True),
    )
    target = TARGETS["h100"]
    there = make_devices(target, 1)
    return compile_training("training", model, source, target, there, (1, 1), STEPS, LONGEST_SORT)


def test_a_draw_that_waits_for_the_host_is_found(monkeypatch):
    """The sample as a CPU draws it: the loop ends when no value is outside of the labels."""
    as_on_a_cpu(monkeypatch, permutation)
    assert step("h100", "amazon670k", 16).account.unknown_loops == 1


def small(program, donated=(0,), target="h100"):
    """A program of a table and ids, compiled for another device."""
    place = SingleDeviceSharding(make_devices(TARGETS[target], 1)[0])
    rows = jax.ShapeDtypeStruct((100_000, 64), jnp.float32, sharding=place)
    ids = jax.ShapeDtypeStruct((8,), jnp.int32, sharding=place)
    jitted = jax.jit(program, donate_argnums=donated)
    return compile_and_analyse("small", 1, jitted, (rows, ids), [rows.shape], LONGEST_SORT)


@pytest.fixture
def all_are_kept():
    """JAX's persistent cache keeps quick programs too."""
    before = jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    yield
    jax.config.update("jax_persistent_cache_min_compile_time_secs", before)


@pytest.mark.parametrize("target", ["v5e", "h100"])
def test_a_program_compiles_twice_without_a_word(target, all_are_kept):
    """They cannot read a program of the persistent cache, and a warning is an error here."""
    for _ in range(2):
        small(lambda rows, ids: rows.at[ids].add(2.0), target=target)
        jax.clear_caches()


def test_programs_of_this_machine_are_still_kept(everyone, all_are_kept):
    small(lambda rows, ids: rows.at[ids].add(3.0))
    place = everyone / "cache" / "compiled"
    jax.jit(lambda x: x * 1234.5).lower(1.0).compile()
    assert any(place.rglob("*lambda*"))


def test_a_table_copied_is_found():
    """What is read after the write are the rows from before it."""

    def careless(rows, ids):
        written = rows.at[ids].add(1.0)
        return written, jnp.sum(rows[ids + written[0, 0].astype(jnp.int32)])

    found = small(careless)
    assert any("whole table made by copy" in fault for fault in found.faults)


def test_a_table_that_is_not_given_up_is_found():
    def add(rows, ids):
        return rows.at[ids].add(1.0)

    given, kept = small(add), small(add, donated=())
    assert (given.aliased, given.faults) == (100_000 * 64 * 4, [])
    assert kept.aliased == 0
    assert any("whole table made by copy" in fault for fault in kept.faults)


def test_float64_is_found():
    with jax.enable_x64(True):
        found = small(lambda rows, ids: jnp.sum(rows[ids], dtype=jnp.float64), donated=())
    assert any("float64" in fault for fault in found.faults)


def test_a_callback_does_not_even_compile():
    """JAX asks for the device itself; `test_module.py` has the text of one that compiled."""

    def told(rows, ids):
        jax.debug.callback(print, ids)
        return rows.at[ids].add(1.0)

    with pytest.raises(RuntimeError, match="Unknown backend"):
        small(told)


def exchanged(target, data, label):
    """Bytes that a device sends in a step of the default preset: compiled, and by the formula."""
    labels, features, batch = 1_000_000, 100_000, 256
    model, source = scaling.model_and_source(labels, features, batch, data)
    there = TARGETS[target]
    devices = make_devices(there, data * label)
    found = compile_training("training", model, source, there, devices, (data, label), 1, 1 << 20)
    with compiling_for(there.backend, there.memory, there.on_chip):
        products = not pairs_are_cheaper(scaling.MINED, scaling.SAMPLED)
    return found.account.sent, sum(
        scaling.sent_bytes(batch, data, label, products=products).values()
    )


@pytest.mark.parametrize(
    ("target", "data", "label"),
    also(
        [("h100", 2, 4), ("v5e", 2, 4)],
        [("h100", 1, 4), ("v5e", 1, 4), ("v5p", 1, 4), ("v5p", 2, 4)],
    ),
)
def test_a_step_sends_what_the_formula_says(target, data, label):
    sent, formula = exchanged(target, data, label)
    assert sent == pytest.approx(formula, rel=0.05)


@pytest.mark.parametrize("target", also(["h100"], ["v5e"]))
def test_a_step_that_sends_more_is_found(target, monkeypatch):
    def twice(self, best, count, merge=Shard.merge_topk):
        scores = jnp.concatenate([best.scores, best.scores - 1e6], axis=1)
        return merge(self, Best(scores, jnp.tile(best.slots, (1, 2))), count)

    monkeypatch.setattr(Shard, "merge_topk", twice)
    sent, formula = exchanged(target, 1, 4)
    assert sent > 1.05 * formula
