"""Shards of class rows in bfloat16 are rounded by bits of their own."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from devices import mesh_here
from jax.sharding import PartitionSpec

from snm.distributed.mesh import ONE_DEVICE, Axes
from snm.head.head import update_head
from snm.head.spec import HeadSpec
from snm.head.state import Head, HeadBatch
from snm.tables.rounding import round_to_nearest
from snm.tables.table import RowTable, SparseRows

K, DIM = 8, 64


@pytest.mark.parametrize("mined", [7, 3])
def test_a_step_on_a_mesh_rounds_as_on_one_device(mined):
    """All class rows are equal: those that are no positive differ by their random bits alone."""
    spec = HeadSpec(num_labels=K, sampled=7, mined=mined, loss="softmax", table_dtype="bfloat16")
    row = np.random.default_rng(0).normal(size=DIM).astype(np.float32)
    table = round_to_nearest(jnp.tile(row / np.linalg.norm(row), (K, 1)), jnp.dtype(jnp.uint16))
    queries = jnp.full((1, DIM), 1 / 8)
    terms = SparseRows(jnp.array([0], jnp.int32), jnp.ones(1), jnp.array([0, 1], jnp.int32))

    def step(rows, axes=ONE_DEVICE):
        head = Head(RowTable(rows), None, jnp.float32(0))
        noise = jnp.uint32(5)
        moved, _ = update_head(
            spec, head, queries, HeadBatch(terms), learning_rate=0.01, noise=noise, axes=axes
        )
        return moved.table.rows

    cut = PartitionSpec("label")
    sharded = jax.shard_map(
        functools.partial(step, axes=Axes("label")), mesh=mesh_here("label=2", K, 1), in_specs=cut,
        out_specs=cut, check_vma=False,
    )  # fmt: skip
    one, two = np.asarray(jax.jit(step)(table)), np.asarray(jax.jit(sharded)(table))
    assert (one != np.asarray(table)).any() and (one[1:4] != one[5:8]).any()
    np.testing.assert_array_equal(two, one)
