"""Where the kernel is used: bytes that a reader can add up, and a CPU that never uses it."""

import jax
import jax.numpy as jnp
import pytest

from snm.machine.platform import compiling_for
from snm.topk import LabelRows, Masked, best_scores
from snm.topk.kernel.choice import kernel_forms
from snm.topk.kernel.numbers import VMEM, Tiles
from snm.topk.kernel.plan import Sizes, kernel_bytes, product_bytes, tiles_for

MIB = 1 << 20


def test_bytes_add_up():
    """512 queries, 32,768 rows of 512 float32 (64 MiB): one block of queries reads them once."""
    sizes = Sizes(queries=512, num_slots=32768, dim=512, count=16, row_bytes=4)
    tiles = Tiles(512, 512)
    best = 2 * 2 * 4 * 512 * 16
    assert kernel_bytes(tiles, sizes) == 64 * MIB + 1 * MIB + best
    # A bit for each score, made and read.
    excluded = kernel_bytes(tiles, sizes, masked=True) - kernel_bytes(tiles, sizes)
    assert excluded == 2 * 512 * 32768 // 8
    # 64 MiB of scores, written and read.
    assert product_bytes(sizes) == (64 + 1 + 2 * 64) * MIB + best // 2
    eight = kernel_bytes(Tiles(64, 64, parts=16), sizes)
    assert eight == (8 * 64 + 16) * MIB + 16 * best


@pytest.mark.parametrize("dim", [64, 128, 512, 768, 1024, 2048, 4096, 16384])
@pytest.mark.parametrize("count", [1, 256])
def test_tiles_fit(dim, count):
    tiles = tiles_for("tpu", Sizes(512, 32768, dim, count, 4))
    assert tiles is None if dim == 16384 else tiles.queries in (128, 256, 512)
    if tiles is not None:  # its operands alone, twice
        held = 2 * 4 * dim * (tiles.queries + tiles.slots) + 4 * tiles.queries * tiles.slots
        assert held <= VMEM
    of_gpu = tiles_for("gpu", Sizes(512, 32768, dim, count, 4))
    assert of_gpu.parts * -(-512 // of_gpu.queries) == 128


@pytest.mark.parametrize(
    ("platform", "count"), [("tpu", 257), ("gpu", 257), ("tpu", 101), ("cpu", 5)]
)
def test_where_there_is_none(platform, count):
    slots = 100 if count == 101 else 4096
    assert tiles_for(platform, Sizes(512, slots, 64, count, 4)) is None


def forms(platform, kernel="auto", queries=512, dim=512, slots=32768, **given):
    options = dict(masked=True, added=False, compute_dtype=jnp.float32) | given
    labels = LabelRows(jnp.zeros((8, dim)), jnp.zeros(slots, jnp.int32))
    with compiling_for(platform, 1 << 34):
        return [*kernel_forms(
            kernel, jnp.zeros((queries, dim)), labels, 16, **options
        )]  # fmt: skip


def test_it_is_chosen_by_platform_and_bytes():
    assert forms("tpu") == ["tpu"]
    # Every block of 64 queries reads all rows: eight times 64 MiB are more than 192, eight times 8
    # MiB are less than 136. Either way a GPU is faster without.
    for dim in (512, 64):
        assert forms("gpu", dim=dim) == [] and forms("gpu", "on", dim=dim) == ["cuda"]
    # A TPU has 128 queries beside each other: of 63, more than half of them would be padding.
    assert forms("tpu", queries=64) == ["tpu"] and forms("tpu", queries=63) == []
    assert forms("cpu", "on") == forms("tpu", "off") == forms("tpu", added=True) == []
    with pytest.raises(ValueError, match="auto, on, off"):
        forms("tpu", "yes")


def test_the_program_of_a_cpu_stays_what_it_is():
    def search(kernel):
        def run(queries, table, ids):
            own = Masked(jnp.arange(8, dtype=jnp.int32), jnp.arange(8, dtype=jnp.int32))
            return best_scores(queries, LabelRows(table, ids), 4, masked=own, kernel=kernel)

        shapes = jnp.zeros((8, 4)), jnp.zeros((99, 4)), jnp.arange(50, dtype=jnp.int32)
        return str(jax.make_jaxpr(run)(*shapes))

    with compiling_for("cpu", 1 << 34):
        assert search("auto") == search("on") == search("off")
        assert "pallas" not in search("on")
    with compiling_for("tpu", 1 << 34):
        assert "pallas" in search("on") and "pallas" not in search("off")
