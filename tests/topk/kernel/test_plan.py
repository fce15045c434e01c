"""Where the kernel is used: on TPUs alone, by bytes that a reader can add up."""

import jax
import jax.numpy as jnp
import pytest

from snm.machine.platform import compiling_for
from snm.topk import LabelRows, Masked, best_scores
from snm.topk.kernel.choice import kernel_form
from snm.topk.kernel.plan import VMEM, Sizes, Tiles, choose_tiles, kernel_bytes, product_bytes

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
    assert kernel_bytes(Tiles(64, 64), sizes) == (8 * 64 + 1) * MIB + best


@pytest.mark.parametrize("dim", [64, 128, 512, 768, 1024, 2048, 4096, 16384])
@pytest.mark.parametrize("count", [1, 256])
def test_tiles_fit(dim, count):
    tiles = choose_tiles(Sizes(512, 32768, dim, count, 4))
    assert tiles is None if dim == 16384 else tiles.queries in (128, 256, 512)
    if tiles is not None:  # its operands alone, twice
        held = 2 * 4 * dim * (tiles.queries + tiles.slots) + 4 * tiles.queries * tiles.slots
        assert held <= VMEM


@pytest.mark.parametrize(("slots", "count"), [(4096, 257), (100, 101)])
def test_a_count_may_be_too_large(slots, count):
    assert choose_tiles(Sizes(512, slots, 64, count, 4)) is None


def taken(platform, kernel="auto", queries=512, dim=512, slots=32768, **given):
    options = dict(masked=True, added=False, compute_dtype=jnp.float32) | given
    labels = LabelRows(jnp.zeros((8, dim)), jnp.zeros(slots, jnp.int32))
    with compiling_for(platform, 1 << 34):
        form = kernel_form(kernel, jnp.zeros((queries, dim)), labels, 16, **options)
        return form is not None


def test_it_is_chosen_by_platform_and_bytes():
    assert taken("tpu")
    assert not (taken("gpu") or taken("gpu", dim=64) or taken("cpu"))
    # Two blocks of 256 queries read 512 MiB of such rows each. A product reads them once, and its
    # scores both ways are 128.
    assert not taken("tpu", dim=4096)
    # There are 128 queries beside each other: of 63, more than half of them would be padding.
    assert taken("tpu", queries=64) and not taken("tpu", queries=63)
    assert not (taken("tpu", "off") or taken("tpu", added=True))
    with pytest.raises(ValueError, match="auto, off, not 'on'"):
        taken("tpu", "on")


def test_the_program_of_other_devices_stays_what_it_is():
    def search(kernel):
        def run(queries, table, ids):
            own = Masked(jnp.arange(8, dtype=jnp.int32), jnp.arange(8, dtype=jnp.int32))
            return best_scores(queries, LabelRows(table, ids), 4, masked=own, kernel=kernel)

        ids = jnp.arange(500, dtype=jnp.int32)
        shapes = jnp.zeros((128, 4)), jnp.zeros((999, 4)), ids
        return str(jax.make_jaxpr(run)(*shapes))

    for platform in ("cpu", "gpu"):
        with compiling_for(platform, 1 << 34):
            assert search("auto") == search("off") and "pallas" not in search("auto")
    with compiling_for("tpu", 1 << 34):
        assert "pallas" in search("auto") and "pallas" not in search("off")
        assert "platform_index" not in search("auto")  # one form is traced, not both
