"""Checks that a compiled step holds no second table and copies none.

XLA updates a donated table in place only if every read of it comes before its first write by data
dependency. One careless line costs a copy of gigabytes per step and changes no result, so only the
compiled program can show it.
"""

import re

import jax
import jax.numpy as jnp
import pytest
from devices import ON_CPU, cpu_only
from jax import lax

from snm.head.head import update_head
from snm.head.spec import HeadSpec
from snm.head.state import Head, HeadBatch
from snm.losses.sampled.listwise import ListMLE, ListNet
from snm.sampling.sample import Sample
from snm.tables.bag import embedding_bag
from snm.tables.optimizers import ROW_OPTIMIZERS, RowStep
from snm.tables.rounding import storage
from snm.tables.table import RowTable, SparseRows
from snm.tables.updates import update_rows

K, DIM, BATCH, SAMPLED = 200_000, 64, 64, 8192
TABLE_BYTES = K * DIM * 4
LIBRARY_BYTES = 0 if ON_CPU else 32 << 20
"""Temporary memory of cuBLAS, whatever it multiplies."""


def shape(*dims: int, dtype=jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, dtype)


def ints(*dims: int) -> jax.ShapeDtypeStruct:
    return shape(*dims, dtype=jnp.int32)


def check_in_place(compiled, most: float = 0.5, narrow: bool = False) -> None:
    """Asserts that there is no copy of a table's shape, and that temporaries are well below it."""
    text = compiled.as_text()
    kind = "u16" if narrow else "f32"
    copies = re.findall(rf"= (?:f32|u16)\[{K}(?:,{DIM})?\]\S* copy(?:-start)?\(.*", text)
    assert not copies, copies[:3]
    # A bfloat16 table must not be converted as a whole.
    others = set(re.findall(rf" = (\w+)\[{K},{DIM}\]", text)) - {kind}
    assert not others, others
    table = TABLE_BYTES // 2 if narrow else TABLE_BYTES
    memory = compiled.memory_analysis()
    assert memory.temp_size_in_bytes - LIBRARY_BYTES < most * table
    assert memory.alias_size_in_bytes >= table


SPECS = {
    "pairs": dict(sampled=SAMPLED, mined=16),
    "pairs, powl, all terms, bias": dict(
        sampled=SAMPLED, mined=16, loss="powl", positives="all", bias=True
    ),
    "pairs, adagrad": dict(sampled=SAMPLED, mined=16, row_optimizer="adagrad"),
    "products": dict(sampled=SAMPLED, mined=SAMPLED),
    "products, softmax, adagrad, bias": dict(
        sampled=SAMPLED, mined=SAMPLED, loss="softmax", row_optimizer="adagrad", bias=True
    ),
    "products of many mined": dict(sampled=SAMPLED, mined=500),
    "pairs of all labels": dict(sampled=K - 1, mined=16),
    "products of all labels": dict(sampled=K - 1, mined=K - 1, bias=True),
    "pairs, bfloat16": dict(sampled=SAMPLED, mined=16, table_dtype="bfloat16"),
    "products of all labels, bfloat16": dict(
        sampled=K - 1, mined=K - 1, bias=True, table_dtype="bfloat16"
    ),
    "pairs, lists": dict(sampled=SAMPLED, mined=16, loss=ListMLE()),
    "products, lists of the whole sample": dict(
        sampled=SAMPLED, mined=SAMPLED, loss=ListNet(), bias=True
    ),
}


def arguments(spec: HeadSpec) -> tuple:
    adagrad = shape(K) if spec.row_optimizer == "adagrad" else None
    rows = shape(K, DIM, dtype=storage(spec.table_dtype))
    head = Head(RowTable(rows, adagrad), shape(K) if spec.bias else None, shape())
    entries = BATCH if spec.positives == "one" else 3 * BATCH
    terms = SparseRows(ints(entries), shape(entries), ints(BATCH + 1))
    sample = None if spec.samples_all else Sample(ints(spec.sampled + 1), ints())
    return head, shape(BATCH, DIM), HeadBatch(terms, sample)


# A compilation takes seconds. The slow specs differ little from these.
EVERYDAY = {"pairs, powl, all terms, bias", "pairs, adagrad", "products of all labels",
            "pairs, bfloat16"}  # fmt: skip


def some_slow(names, everyday):
    return [n if n in everyday else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.mark.parametrize("name", some_slow(SPECS, EVERYDAY))
def test_a_step_of_the_head(name):
    spec = HeadSpec(num_labels=K, **SPECS[name])

    def step(noise, *batch):
        return update_head(spec, *batch, learning_rate=0.1, noise=noise)

    noise = shape(dtype=jnp.uint32)
    compiled = jax.jit(step, donate_argnums=1).lower(noise, *arguments(spec)).compile()
    check_in_place(compiled, narrow=spec.table_dtype == "bfloat16")


@pytest.mark.parametrize("name", some_slow(["pairs, adagrad", "products", "pairs"], {"products"}))
def test_several_steps_in_a_scan(name):
    spec = HeadSpec(num_labels=K, **SPECS[name])

    def steps(head, *batches):
        def one(head, batch):
            head, step = update_head(spec, head, *batch, learning_rate=0.1)
            return head, step.loss

        return lax.scan(one, head, batches)

    head, *batch = arguments(spec)
    batches = jax.tree.map(lambda x: shape(3, *x.shape, dtype=x.dtype), batch)
    check_in_place(jax.jit(steps, donate_argnums=0).lower(head, *batches).compile())


@pytest.mark.parametrize("optimizer", ROW_OPTIMIZERS.values(), ids=ROW_OPTIMIZERS)
@pytest.mark.parametrize("scanned", [False, True])
def test_an_embedding_bag_and_its_update(optimizer, scanned):
    def step(table, block):
        sums = embedding_bag(table.rows, block)
        vectors = jnp.tanh(sums)
        ok = jnp.all(jnp.isfinite(vectors))
        table = update_rows(table, [(block, vectors)], RowStep(optimizer, 0.1), ok=ok)
        return table, jnp.sum(sums)

    def steps(table, blocks):
        return lax.scan(step, table, blocks)

    lead = (3,) if scanned else ()
    block = SparseRows(ints(*lead, 900), shape(*lead, 900), ints(*lead, BATCH + 1))
    table = RowTable(shape(K, DIM), shape(K) if optimizer.has_accumulator else None)
    run = steps if scanned else step
    check_in_place(jax.jit(run, donate_argnums=0).lower(table, block).compile())


@cpu_only
def test_the_check_finds_a_copy():
    """No data dependency orders this read before the write, so XLA copies the table."""

    def careless(rows, ids):
        written = rows.at[ids].add(1.0)
        return written, embedding_bag(rows, SparseRows(ids, jnp.ones(8), jnp.array([0, 8])))

    compiled = jax.jit(careless, donate_argnums=0).lower(shape(K, DIM), ints(8)).compile()
    with pytest.raises(AssertionError):
        check_in_place(compiled)
