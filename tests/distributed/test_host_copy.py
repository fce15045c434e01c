"""Copies of sharded arrays on the host."""

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from snm.distributed import host_copy
from snm.distributed.mesh import make_mesh


@pytest.mark.parametrize("block", [1, 100, 1 << 26])
def test_blocks_of_rows_make_up_the_array(block, monkeypatch):
    """Also where the last block overlaps the one before, and where a row exceeds a block."""
    monkeypatch.setattr(host_copy, "_BLOCK", block)
    mesh = make_mesh("data=2,label=4", 40, 8)
    rng = np.random.default_rng(0)
    state = {
        "rows": (rng.normal(size=(40, 3)).astype(np.float32), PartitionSpec("label")),
        "bias": (rng.normal(size=8).astype(np.float32), PartitionSpec(("data", "label"))),
        "tower": (rng.normal(size=(3, 3)).astype(np.float32), PartitionSpec()),
        "step": (np.int32(7), PartitionSpec()),
    }
    laid = {name: jax.device_put(value, NamedSharding(mesh, spec))
            for name, (value, spec) in state.items()}  # fmt: skip
    found = host_copy.gather_on_first(laid)
    for name, (value, _) in state.items():
        np.testing.assert_array_equal(found[name], value)
        assert type(found[name]) is np.ndarray and found[name].flags.owndata
