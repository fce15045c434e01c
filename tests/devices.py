"""What tests expect of devices: a CPU plays eight; `JAX_PLATFORMS=cuda,cpu` takes the GPUs here."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from snm.distributed.mesh import make_mesh

ON_CPU = jax.default_backend() == "cpu"

cpu_only = pytest.mark.skipif(not ON_CPU, reason="an accelerator has other blocks and copies")


@pytest.fixture
def all_24_bits():
    """Products as precise as in a training, for parts that are called without `in_precision`."""
    with jax.default_matmul_precision("float32"):
        yield


def need(devices: int) -> None:
    """Skips a test where there are fewer devices."""
    if jax.device_count() < devices:
        pytest.skip(f"{devices} devices; here are {jax.device_count()}")


def mesh_here(text: str, num_labels: int, batch: int) -> Mesh | None:
    """`make_mesh`; it skips the test where there are fewer devices."""
    need(int(np.prod([int(axis.partition("=")[2]) for axis in text.split(",") if axis])))
    return make_mesh(text, num_labels, batch)


def same_program(found, expected) -> None:
    """Equal bits on a CPU; on a GPU another shape is another program, which rounds otherwise."""
    if ON_CPU:
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
