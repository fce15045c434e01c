"""The step and the prediction lower for every platform; no compiler of theirs is needed."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from snm.bench.shapes import Shape, make_model, make_source
from snm.machine.platform import compiling_for
from snm.model.inference import best_labels, scaled_queries
from snm.model.model import abstract_state, init_state
from snm.model.train_step import train_steps
from snm.tables.table import SparseRows

PLATFORMS = {"cpu": "cpu", "cuda": "gpu", "tpu": "tpu", "rocm": "gpu"}
SMALL = Shape("small", 64, 300, 500, 9, 3.0, 16, 128, (4,), dim=32)
HEADS = {
    "bowl, one positive": {},
    "softmax, all positives": dict(loss="softmax", positives="all", exclude="all", bias=True),
    "bfloat16 tables": dict(table_dtype="bfloat16", compute_dtype="bfloat16"),
}


def lowered(program, platform, *shapes, **options):
    """What a function becomes for a platform, traced for it."""
    with compiling_for(PLATFORMS[platform], 16 << 30):
        # A lambda of its own: jax keeps the traces of a function that it has seen.
        fresh = jax.jit(lambda *arguments: program(*arguments), **options)
        exported = export.export(fresh, platforms=(platform,))(*shapes)
    assert exported.platforms == (platform,)
    assert "f64" not in exported.mlir_module()
    return exported


def programs():
    """Each head and each k' for each platform, and each head with each k'; the rest are slow."""
    for at, (name, platform) in enumerate(itertools.product(HEADS, ["cpu", "cuda", "tpu"])):
        quick = (4, 128)[at % 2]
        for mined in (4, 128):
            yield pytest.param(
                name, mined, platform, marks=pytest.mark.slow if mined != quick else ()
            )
    yield "bowl, one positive", 128, "rocm"  # the choices for a GPU, once more


@pytest.mark.parametrize(("name", "mined", "platform"), list(programs()))
def test_a_training_step_lowers_for_all_platforms(name, mined, platform):
    model = make_model(SMALL, mined)
    model = dataclasses.replace(model, spec=dataclasses.replace(model.spec, **HEADS[name]))
    source = dataclasses.replace(make_source(SMALL, mined, 64, resident=True), spec=model.spec)
    arrays = source.resident_arrays()

    def steps(state, stack):
        take = functools.partial(source.materialize, arrays, shape=source.shape(0))
        return train_steps(model, state, stack, take)

    shapes = abstract_state(model), source.stack(0, 2)
    text = lowered(steps, platform, *shapes, donate_argnums=0).mlir_module()
    assert "callback" not in text
    # Only a CPU goes over table rows in loops; an accelerator would run them on one thread.
    assert (text.count("stablehlo.while") > 12) == (platform == "cpu")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_prediction_lowers_for_all_platforms(platform):
    model = make_model(SMALL, 4)
    block = SparseRows(
        jax.ShapeDtypeStruct((99,), jnp.int32),
        jax.ShapeDtypeStruct((99,), jnp.float32),
        jax.ShapeDtypeStruct((9,), jnp.int32),
    )

    def best(state, block):
        return best_labels(model, state, block, scaled_queries(model, state, block), 5)

    exported = lowered(best, platform, abstract_state(model), block)
    assert [aval.shape for aval in exported.out_avals] == [(8, 5), (8, 5)]


def test_a_platform_that_an_operation_lacks_is_found():
    """What the tests above would say of an operation that only a CPU has."""
    with pytest.raises(NotImplementedError, match=r"(?i)platform"):
        lowered(
            lambda x: jax.scipy.linalg.schur(x)[0], "tpu", jax.ShapeDtypeStruct((3, 3), "float32")
        )


@pytest.mark.parametrize("asked", ["float32", "tensorfloat32"])
def test_products_ask_for_the_precision_of_the_settings(asked):
    """All products of a step and of a prediction, those of the backward pass too."""
    model = make_model(SMALL, 128)
    model = dataclasses.replace(
        model, spec=dataclasses.replace(model.spec, loss="softmax", matmul_precision=asked)
    )
    source = make_source(SMALL, 128, 64)
    stack = source.stack(0, 1)
    step = jax.jit(lambda s, b: train_steps(model, s, b, lambda batch: batch))
    text = step.lower(abstract_state(model), stack).as_text()
    products = [line for line in text.splitlines() if "dot_general" in line]
    word = {"float32": "HIGHEST", "tensorfloat32": "HIGH"}[asked]
    assert len(products) >= 6
    assert all(f"precision = [{word}, {word}]" in line for line in products)


@pytest.mark.parametrize(
    ("asked", "factors", "bits"),
    [("float32", "float32", 24), ("tensorfloat32", "float32", 24), ("float32", "bfloat16", 8)],
)
def test_scores_have_the_bits_that_the_settings_ask_for(asked, factors, bits):
    """Against float64. A CPU keeps all 24 bits of float32 factors; bfloat16 has 8 replicate."""
    model = make_model(SMALL, 4)
    head = dataclasses.replace(model.spec, matmul_precision=asked, compute_dtype=factors)
    model = dataclasses.replace(model, spec=head)
    state = init_state(model)
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(8, SMALL.dim)).astype(np.float32)
    block = SparseRows(jnp.zeros(1, jnp.int32), jnp.zeros(1), jnp.zeros(9, jnp.int32))
    best = jax.jit(lambda q: best_labels(model, state, block, q, 5))(queries)
    rows = np.asarray(state.head.table.rows, np.float64)[np.asarray(best.slots)]
    terms = queries[:, None].astype(np.float64) * rows
    off = np.abs(np.asarray(best.scores) - terms.sum(axis=2)) / np.abs(terms).sum(axis=2)
    # Each factor is off by half of its last bit at most; the sums add float32 rounding.
    assert off.max() <= 2 * 2.0**-bits + 32 * 2.0**-24
    assert bits == 24 or off.max() > 2.0**-14  # what the setting does can be seen
