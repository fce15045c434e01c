"""The kernel of `snm.topk`, compiled for TPUs that are not there."""

import functools

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from benchmarks.devices.topk_kernel_compiled import QUERIES, SLOTS, Search
from snm.machine.platform import compiling_for
from snm.targets.devices import compile_for_target, make_devices
from snm.targets.module import Module
from snm.targets.table import TARGETS
from snm.topk import product_top_k
from snm.topk.kernel import on_tpu
from snm.topk.kernel.on_tpu import top_on_tpu
from snm.topk.kernel.plan import VMEM, Sizes, choose_tiles, kernel_bytes

pytestmark = pytest.mark.accelerators

SIZES = Sizes(QUERIES, SLOTS, dim=512, count=16, row_bytes=4)


@pytest.mark.parametrize(
    ("target", "count", "dtype"),
    [("v5e", 256, "float32"), ("v5p", 16, "float32"), ("v6e", 16, "bfloat16")],
)
def test_it_compiles_and_writes_no_scores(target, count, dtype):
    found = Search(target, count, dtype).row()
    assert found["score_matrix_mib"] == 0
    assert 0 < found["on_chip_kib"] * 1024 <= VMEM
    # The bits of the excluded, but no scores.
    assert found["temporary_mib"] < 32
    size = jnp.dtype(dtype).itemsize
    sizes = Sizes(QUERIES, SLOTS, 512, count, size)
    tiles = choose_tiles(sizes)
    # Small operands may stay on the chip, or the bits of the excluded be written more than once.
    # Scores would be 128 MiB.
    least = SLOTS * 512 * size * -(-QUERIES // tiles.queries)
    most = kernel_bytes(tiles, sizes, masked=True) + 48 * count * QUERIES
    assert least <= found["moved_mib"] * 2**20 <= most + 12 * 2**20


def test_scores_that_are_written_are_found():
    found = Search("h100", 16, kernel="off").row()
    assert found["score_matrix_mib"] == 4 * QUERIES * SLOTS / 2**20
    assert found["temporary_mib"] >= found["score_matrix_mib"]


def compiled(run, queries=QUERIES, dim=512):
    (device,) = make_devices(TARGETS["v5e"], 1)
    place = SingleDeviceSharding(device)
    shapes = [jax.ShapeDtypeStruct((n, dim), jnp.float32, sharding=place) for n in (queries, SLOTS)]
    given = dict(count=16, compute_dtype=jnp.float32)
    program = jax.jit(lambda q, r: run(q, r, None, None, **given))
    return compile_for_target(program.lower(*shapes))


def test_too_much_vmem_is_refused(monkeypatch):
    run = functools.partial(top_on_tpu, tiles=choose_tiles(SIZES))
    monkeypatch.setattr(on_tpu, "VMEM", 4 << 20)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"(?i)vmem"):
        compiled(run)


@pytest.mark.parametrize("dim", [64, 200, 2048])
def test_rows_of_other_lengths_compile(dim):
    tiles = choose_tiles(Sizes(100, SLOTS, dim, 16, 4))
    compiled(functools.partial(top_on_tpu, tiles=tiles), queries=100, dim=dim)


def test_each_device_of_a_mesh_searches_its_own_rows():
    target = TARGETS["v5e"]
    mesh = Mesh(make_devices(target, 4), ("label",))

    def shape(spec, *sizes):
        return jax.ShapeDtypeStruct(sizes, jnp.float32, sharding=NamedSharding(mesh, spec))

    own = functools.partial(product_top_k, count=16)
    everywhere, rows = PartitionSpec(), PartitionSpec("label")
    program = jax.jit(
        jax.shard_map(
            lambda q, r: own(q, r).scores[None], mesh=mesh, in_specs=(everywhere, rows),
            out_specs=rows, check_vma=False,
        )
    )  # fmt: skip
    with compiling_for(target.backend, target.memory):
        lowered = program.lower(shape(everywhere, QUERIES, 512), shape(rows, SLOTS, 512))
    text = compile_for_target(lowered).as_text()
    calls = [one for one in Module(text).all() if "product_top_k" in one.name]
    assert any(one.opcode == "custom-call" for one in calls)
