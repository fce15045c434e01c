"""Compares row tables with dense float64 algebra, in the CPU form and in the accelerator form."""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from devices import same_program

from snm.machine.platform import compiling_for
from snm.tables import table as rows_module
from snm.tables import updates
from snm.tables.bag import embedding_bag
from snm.tables.optimizers import ROW_OPTIMIZERS, SGD, RowOptimizer, RowStep
from snm.tables.table import RowTable, SparseRows, entry_rows, normalize, random_rows
from snm.tables.updates import update_rows

NUM_ROWS, DIM, LEARNING_RATE = 23, 32, 0.25

FORMS = ("cpu", "accelerator")


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs the test once with each of the two forms that `by_platform` selects from."""
    with compiling_for("cpu" if request.param == "cpu" else "gpu", 1 << 34):
        yield request.param


def random_block(seed: int, lengths: list[int], padding: int = 0) -> SparseRows:
    """Rows of the given lengths; ids repeat within and between rows."""
    rng = np.random.default_rng(seed)
    entries = sum(lengths)
    ids = np.concatenate([rng.integers(2, 14, entries), np.full(padding, 20)])
    values = np.concatenate([rng.normal(size=entries), np.zeros(padding)])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return SparseRows(
        jnp.asarray(ids, jnp.int32),
        jnp.asarray(values, jnp.float32),
        jnp.asarray(starts, jnp.int32),
    )


def dense(block: SparseRows) -> np.ndarray:
    """The block as a float64 [n, NUM_ROWS] matrix; SciPy sums repeated ids."""
    ids, values, starts = (np.asarray(part) for part in block)
    real = starts[-1]
    shape = (len(starts) - 1, NUM_ROWS)
    matrix = scipy.sparse.csr_matrix((values[:real], ids[:real], starts), shape=shape)
    return matrix.toarray().astype(np.float64)


def random_table(seed: int = 0, *, accumulator: bool = False, unit: bool = False) -> RowTable:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(NUM_ROWS, DIM))
    if unit:
        values /= np.linalg.norm(values, axis=1, keepdims=True)
    total = jnp.asarray(rng.random(NUM_ROWS), jnp.float32) if accumulator else None
    return RowTable(jnp.asarray(values, jnp.float32), total)


def bits(x: jax.Array) -> np.ndarray:
    return np.asarray(x).view(np.uint32)


BLOCKS = {
    "usual": random_block(1, [3, 1, 9, 2, 6, 9]),
    "empty rows": random_block(2, [0, 7, 0, 0, 23, 0]),
    "padding": random_block(3, [5, 0, 2, 1, 1, 1], padding=20),
    "a long row": random_block(9, [17, 2, 90, 16, 0, 33]),
    "only empty rows": random_block(4, [0] * 6, padding=30),
    "no entries": random_block(5, [0, 0, 0]),
}


@functools.cache  # one compilation a form: blocks have the same shapes
def compiled_bag(form: str):
    return jax.jit(lambda table, block: embedding_bag(table, block))


@functools.cache
def compiled_update(form: str, optimizer: str, unit_norm: bool):
    step = RowStep(ROW_OPTIMIZERS[optimizer], LEARNING_RATE, unit_norm=unit_norm)
    return jax.jit(lambda table, gradients, ok: update_rows(table, gradients, step, ok=ok))


@pytest.mark.parametrize("name", BLOCKS)
def test_bag_is_a_sparse_product(form, name):
    block, table = BLOCKS[name], random_table().rows
    got = compiled_bag(form)(table, block)
    assert got.dtype == jnp.float32
    np.testing.assert_allclose(got, dense(block) @ np.asarray(table, np.float64), atol=1e-5)


def test_a_nan_row_reaches_only_the_sums_that_name_it(form):
    lengths = [0, 3, 0, 40, 0, 2]
    block, table = random_block(10, lengths), random_table().rows
    ids = np.asarray(block.ids).copy()
    ids[2] = 0  # the last entry of the second row, next to the empty third; no other names row 0
    got = np.asarray(compiled_bag(form)(table.at[0].set(jnp.nan), block._replace(ids=ids)))
    assert np.isnan(got).all(axis=1).tolist() == [False, True, False, False, False, False]
    assert np.isfinite(got[[0, 2, 3, 4, 5]]).all()


def dense_step(table, gradients, optimizer, unit_norm):
    """The same step by a gradient of the whole table, in float64.

    The formulas of sgd and Adagrad are written out; a further optimizer is compared with its rule,
    of which rows without a gradient see nothing.
    """
    values = np.asarray(table.rows, np.float64)
    gradient = sum(dense(block).T @ np.asarray(vectors, np.float64) for block, vectors in gradients)
    named = (gradient != 0).any(axis=1)
    total = None
    step = gradient
    if optimizer == "adagrad":
        total = np.asarray(table.accumulator, np.float64) + (gradient**2).mean(axis=1)
        step = gradient / np.sqrt(total + 1e-10)[:, None]
    elif optimizer != "sgd":
        step, total = map(np.asarray, ROW_OPTIMIZERS[optimizer].rule(table.accumulator, gradient))
        total = np.where(named, total, table.accumulator)
    values = values - LEARNING_RATE * step
    if unit_norm:
        values[named] /= np.linalg.norm(values[named], axis=1, keepdims=True)
    return values, total


GRADIENTS = [
    (random_block(6, [2, 0, 7], padding=2), 3),
    (random_block(7, [1, 3]), 2),  # names rows that the first names too
    (BLOCKS["no entries"], 3),
]


def random_gradients():
    rng = np.random.default_rng(8)
    return [(b, jnp.asarray(rng.normal(size=(n, DIM)), jnp.float32)) for b, n in GRADIENTS]


@pytest.mark.parametrize("unit_norm", [False, True])
@pytest.mark.parametrize("optimizer", ROW_OPTIMIZERS)
def test_update_is_the_dense_step(form, optimizer, unit_norm):
    table = random_table(accumulator=ROW_OPTIMIZERS[optimizer].has_accumulator, unit=unit_norm)
    gradients = random_gradients()
    got = compiled_update(form, optimizer, unit_norm)(table, gradients, True)
    values, total = dense_step(table, gradients, optimizer, unit_norm)
    np.testing.assert_allclose(got.rows, values, atol=2e-6)
    if total is not None:
        np.testing.assert_allclose(got.accumulator, total, rtol=1e-5)

    # Rows without a gradient keep every bit.
    named = np.concatenate([block.ids for block, _ in gradients])
    others = np.setdiff1d(np.arange(NUM_ROWS), named)
    assert len(others) > 5
    np.testing.assert_array_equal(bits(got.rows)[others], bits(table.rows)[others])
    if total is not None:
        kept = bits(got.accumulator)[others]
        np.testing.assert_array_equal(kept, bits(table.accumulator)[others])


def test_an_accumulator_that_decays_stays_in_rows_without_a_gradient(form, monkeypatch):
    def rmsprop(accumulator, gradient):
        accumulator = 0.9 * accumulator + 0.1 * jnp.mean(gradient * gradient, axis=-1)
        return gradient / jnp.sqrt(accumulator + 1e-8)[:, None], accumulator

    monkeypatch.setitem(ROW_OPTIMIZERS, "rmsprop", RowOptimizer(rmsprop))
    test_update_is_the_dense_step(form, "rmsprop", unit_norm=True)


@pytest.mark.parametrize("optimizer", ROW_OPTIMIZERS)
def test_not_ok_leaves_every_bit(form, optimizer):
    table = random_table(accumulator=ROW_OPTIMIZERS[optimizer].has_accumulator)
    # -0.0 distinguishes "nothing was written" from "0 was added".
    table = RowTable(table.rows.at[:, 3].set(-0.0), table.accumulator)
    gradients = [(block, jnp.full_like(vectors, jnp.nan)) for block, vectors in random_gradients()]
    got = compiled_update(form, optimizer, True)(table, gradients, False)
    np.testing.assert_array_equal(bits(got.rows), bits(table.rows))
    if ROW_OPTIMIZERS[optimizer].has_accumulator:
        np.testing.assert_array_equal(bits(got.accumulator), bits(table.accumulator))


@pytest.mark.parametrize("optimizer", ROW_OPTIMIZERS)
def test_a_gradient_without_entries_changes_nothing(form, optimizer):
    table = random_table(accumulator=ROW_OPTIMIZERS[optimizer].has_accumulator)
    gradients = [(BLOCKS["no entries"], jnp.ones((3, DIM)))]
    got = update_rows(table, gradients, RowStep(ROW_OPTIMIZERS[optimizer], 1.0, unit_norm=True))
    np.testing.assert_array_equal(bits(got.rows), bits(table.rows))


def test_touched_may_replace_the_blocks_own_ids(form):
    table, gradients = random_table(unit=True), random_gradients()
    # Longer than needed: rows that no gradient names keep their unit length.
    touched = jnp.arange(1, 22, dtype=jnp.int32)
    step = RowStep(SGD, LEARNING_RATE, unit_norm=True)
    got = jax.jit(lambda table: update_rows(table, gradients, step, touched=touched))(table)
    want = compiled_update(form, "sgd", True)(table, gradients, True)
    np.testing.assert_allclose(got.rows, want.rows, atol=1e-6)
    np.testing.assert_array_equal(bits(got.rows)[22], bits(table.rows)[22])


def test_projection_stops_at_the_count():
    table, ids = random_table(), jnp.array([4, 4, 9, 0], jnp.int32)
    want = np.array(table.rows)
    want[4] /= np.linalg.norm(want[4])
    for project in (updates._project_loop, updates._project_rows):
        got = jax.jit(project)(table.rows, ids, jnp.int32(2))
        np.testing.assert_allclose(got, want, atol=1e-6)


def test_entry_rows_counts_padding_to_the_last_row():
    np.testing.assert_array_equal(
        entry_rows(random_block(0, [2, 0, 1], padding=2)), [0, 0, 2, 2, 2]
    )


def test_random_rows_in_blocks_are_unit_and_distinct(monkeypatch):
    monkeypatch.setattr(rows_module, "_RANDOM_ROWS", 16)
    rows = np.asarray(random_rows(jax.random.key(3), 50, 8, length=2.0))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 2, rtol=1e-5)
    assert len(np.unique(rows, axis=0)) == 50
    # One block is what a plain draw gives, whatever the block's size.
    plain = np.asarray(random_rows(jax.random.key(3), 16, 8))
    np.testing.assert_array_equal(plain, normalize(jax.random.normal(jax.random.key(3), (16, 8))))


def test_random_rows_take_no_memory_beside_a_large_table():
    make = jax.jit(lambda key: random_rows(key, 1_000_000, 64))
    compiled = make.lower(jax.random.key(0)).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 0.5 * 4 * 64 * 1_000_000


@pytest.mark.parametrize(
    ("count", "parts", "dtype"),
    [
        *((*sizes, "float32") for sizes in [(50, 1), (50, 3), (33, 8), (16, 2), (5, 4), (34, 3)]),
        (50, 3, "bfloat16"),
        (33, 8, "bfloat16"),
    ],
)
def test_random_rows_of_a_part_are_those_of_the_whole(count, parts, dtype, monkeypatch):
    monkeypatch.setattr(rows_module, "_RANDOM_ROWS", 16)
    whole = np.asarray(jax.jit(lambda: random_rows(jax.random.key(3), count, 4, dtype=dtype))())
    num = -(-count // parts)
    padded = np.concatenate([whole, np.zeros((num * parts - count, 4), whole.dtype)])
    of_part = jax.jit(
        lambda i: random_rows(jax.random.key(3), count, 4, part=(i, parts), dtype=dtype)
    )
    found = np.concatenate([of_part(i) for i in range(parts)])
    same_program(found, padded)


def test_random_rows_of_a_part_are_drawn_without_arrays_of_its_length():
    """Besides the rows: a few blocks of 65,536 rows."""
    make = jax.jit(lambda key: random_rows(key, 16_000_000, 8, part=(jnp.int32(1), 2)))
    compiled = make.lower(jax.random.key(0)).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 8 * 4 * 8 * 65_536


def test_normalize_has_unit_length():
    x = jnp.array([[3.0, 4.0], [1e-12, 0.0], [-1e12, 0.0]])
    np.testing.assert_allclose(normalize(x), [[0.6, 0.8], [1, 0], [-1, 0]], rtol=1e-6)


def test_normalize_at_zero_has_a_harmless_gradient():
    value, gradient = jax.value_and_grad(lambda x: jnp.sum(2 * normalize(x)))(jnp.zeros(3))
    assert value == 0
    # Not only finite: a huge one would overflow where something squares or sums it.
    np.testing.assert_array_equal(gradient, [2, 2, 2])


@pytest.mark.parametrize("power", [-30, -20, -19, -16, -13, -12, -11, -3, 0, 3])
def test_normalize_has_a_finite_gradient_at_any_length(power):
    """1 over the length, across the vector, and 1 where it stays."""
    length = 10.0**power
    gradient = jax.grad(lambda x: normalize(x)[0])(jnp.array([0.0, length]))
    np.testing.assert_allclose(gradient, [1 if power <= -13 else 1 / length, 0], rtol=1e-5)


def test_normalize_gradient_is_tangent():
    x = jnp.array([3.0, 4.0])
    gradient = jax.grad(lambda x: normalize(x)[0])(x)
    np.testing.assert_allclose(gradient, [16 / 125, -12 / 125], rtol=1e-5)  # (1 - .36)/5, -.48/5
