"""Compares sums and updates ordered by table row with the dense algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from devices import all_24_bits as all_24_bits  # a fixture

from snm.machine.platform import compiling_for
from snm.tables import columns
from snm.tables.columns import count_frequent, make_columns, sum_columns, update_columns
from snm.tables.table import RowTable, SparseRows


def block_of(matrix: sp.csr_matrix, padding: int) -> SparseRows:
    ids = np.concatenate([matrix.indices, np.zeros(padding)]).astype(np.int32)
    values = np.concatenate([matrix.data, np.zeros(padding)]).astype(np.float32)
    return SparseRows(ids, values, matrix.indptr.astype(np.int32))


def made_up(rows: int, width: int, density: float, seed: int) -> sp.csr_matrix:
    return sp.random_array(
        (rows, width), density=density, format="csr", rng=np.random.default_rng(seed)
    )


@pytest.mark.parametrize("padding", [0, 5])
def test_columns_name_every_entry_once_in_order(padding: int) -> None:
    matrix = made_up(30, 14, 0.3, seed=1)
    found = make_columns(block_of(matrix, padding))
    wanted = matrix.tocsc()
    count = int(found.count)
    assert found.points[: matrix.nnz].tolist() == wanted.indices.tolist()
    np.testing.assert_array_equal(matrix.data[found.entries[: matrix.nnz]], wanted.data)
    # Nine entries of a row make runs of 4, 4 and 1.
    in_row = np.diff(wanted.indptr)
    assert in_row.max() > columns._RUN_LENGTH
    runs = -(-in_row // columns._RUN_LENGTH)
    assert found.rows[:count].tolist() == np.repeat(np.arange(14), runs).tolist()
    lengths = np.diff(found.starts)
    assert lengths[:count].min() >= 1
    assert lengths[:count].max() == columns._RUN_LENGTH
    assert np.bincount(found.rows[:count], lengths[:count], 14).tolist() == in_row.tolist()
    assert lengths[count:].sum() == 0


def test_frequent_rows_form_a_matrix_and_every_entry_occurs_once() -> None:
    matrix = made_up(30, 14, 0.3, seed=1)
    block = block_of(matrix, 5)
    found = make_columns(block, 4)
    in_row = np.bincount(matrix.indices, minlength=14)
    others = np.setdiff1d(np.arange(14), found.frequent)
    assert len(set(found.frequent.tolist())) == 4
    assert in_row[found.frequent].min() >= in_row[others].max()
    assert set(found.rows[: int(found.count)].tolist()) == set(others.tolist())

    together = matrix.toarray()[:, found.frequent]
    flat = np.zeros(30 * 4 + 1)  # the last element takes the entries of other rows
    flat[found.places] = np.where(found.places < 30 * 4, block.values, 0)
    np.testing.assert_array_equal(flat[:-1].reshape(30, 4), together.astype(np.float32))
    rest = found.rest[: found.rest_starts[-1]]
    assert sorted(found.entries[: len(rest)].tolist()) == rest.tolist()
    kept = sp.csr_matrix((matrix.data[rest], matrix.indices[rest], found.rest_starts), (30, 14))
    wanted = matrix.toarray()
    wanted[:, found.frequent] = 0
    np.testing.assert_array_equal(kept.toarray(), wanted)


def test_frequent_rows_occur_in_one_example_of_16() -> None:
    # 10 of 160 examples are enough for a column; 33 such rows are padded to 64.
    counts = np.array([10] * 33 + [9] * 500 + [0])
    assert count_frequent(counts, 160) == 64
    assert count_frequent(counts[33:], 160) == 0
    assert count_frequent(np.zeros(5, int), 0) == 0


# More frequent rows than there are rows are padded; an accelerator ignores the order.
forms = pytest.mark.parametrize(
    ("platform", "frequent"), [("cpu", 0), ("cpu", 3), ("cpu", 32), ("gpu", 3)]
)


@pytest.mark.usefixtures("all_24_bits")
@forms
@pytest.mark.parametrize(("density", "padding"), [(0.4, 0), (0.4, 7), (0.0, 3), (0.0, 0)])
def test_sums_equal_the_sparse_product(platform, frequent, density: float, padding: int) -> None:
    matrix = made_up(7, 12, density, seed=2)
    block = block_of(matrix, padding)
    table = np.random.default_rng(3).normal(size=(12, 8))
    given = jnp.asarray(table, jnp.float32), make_columns(block, frequent), block
    with compiling_for(platform, 1 << 34):
        found = jax.jit(lambda *given: sum_columns(*given))(*given)
    np.testing.assert_allclose(found, matrix @ table, atol=1e-5)


@pytest.mark.usefixtures("all_24_bits")
@forms
@pytest.mark.parametrize(("density", "padding"), [(0.4, 0), (0.4, 7), (0.0, 3), (0.0, 0)])
def test_forms_equal_the_dense_step(platform, frequent, density: float, padding: int) -> None:
    matrix = made_up(7, 12, density, seed=2)
    rng = np.random.default_rng(3)
    table, vectors = rng.normal(size=(12, 8)), rng.normal(size=(7, 8))
    block = block_of(matrix, padding)
    rows, vectors = jnp.asarray(table, jnp.float32), jnp.asarray(vectors, jnp.float32)
    given = RowTable(rows), make_columns(block, frequent), block, vectors
    with compiling_for(platform, 1 << 34):
        step = jax.jit(lambda *given: update_columns(*given, learning_rate=0.3, ok=True).rows)
        found = step(*given)
    np.testing.assert_allclose(found, table - 0.3 * (matrix.T @ vectors), atol=1e-5)
    untouched = np.diff(matrix.tocsc().indptr) == 0
    np.testing.assert_array_equal(np.asarray(found)[untouched], table.astype(np.float32)[untouched])


def test_values_may_change_after_sorting_and_not_ok_writes_nothing() -> None:
    matrix = made_up(7, 12, 0.4, seed=4)
    rng = np.random.default_rng(5)
    rows, vectors = rng.normal(size=(12, 8)), rng.normal(size=(7, 8))
    block = block_of(matrix, 2)
    order = make_columns(block, 3)
    kept = block._replace(values=jnp.asarray(block.values) * (np.arange(len(block.values)) % 2))
    step, total = jax.jit(update_columns), jax.jit(sum_columns)
    table = RowTable(jnp.asarray(rows, jnp.float32))
    found = step(table, order, kept, jnp.asarray(vectors, jnp.float32), learning_rate=0.5, ok=True)
    dropped = sp.csr_matrix(matrix)
    dropped.data = dropped.data * (np.arange(matrix.nnz) % 2)
    np.testing.assert_allclose(found.rows, rows - 0.5 * (dropped.T @ vectors), atol=1e-5)
    np.testing.assert_allclose(total(table.rows, order, kept), dropped @ rows, atol=1e-5)
    spoilt = jnp.full(vectors.shape, jnp.nan)
    same = step(table, order, kept, spoilt, learning_rate=0.5, ok=False)
    np.testing.assert_array_equal(same.rows, table.rows)


def test_the_table_is_changed_in_place() -> None:
    matrix = made_up(64, 20_000, 0.002, seed=6)
    block, table = block_of(matrix, 0), RowTable(jnp.zeros((20_000, 64)))
    compiled = (
        jax.jit(update_columns, donate_argnums=0)
        .lower(
            table, make_columns(block, 32), block, jnp.zeros((64, 64)), learning_rate=0.1, ok=True
        )
        .compile()
    )
    assert compiled.memory_analysis().temp_size_in_bytes < table.rows.nbytes / 10
    assert not any("copy(" in line and "f32[20000,64]" in line
                   for line in compiled.as_text().splitlines())  # fmt: skip
