"""Compares the top-k by blocks with a brute-force stable sort; small integers make ties common."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from snm.losses.reductions import MASKED
from snm.machine.platform import compiling_for
from snm.topk import blocks
from snm.topk import search as scoring
from snm.topk.block_quotas import Candidates, choose_quota, merge_candidates
from snm.topk.blocks import Added, Best, LabelRows, Masked, block_plan
from snm.topk.search import best_scores

N, DIM = 5, 4


def integers(seed: int, *shape: int) -> np.ndarray:
    """Entries -2 .. 2: scores are exact in float32 and often tie."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


def brute_force(queries, table, ids, count, *, masked=(), bias=None, first_row=0):
    """All scores in float64, stably sorted."""
    rows = np.arange(len(table)) if ids is None else np.asarray(ids) - first_row
    here = (rows >= 0) & (rows < len(table))
    rows = np.where(here, rows, 0)
    scores = queries.astype(np.float64) @ table[rows].T.astype(np.float64)
    if bias is not None:
        scores = scores + bias[rows]
    scores = np.where(here, scores, MASKED)
    for row, slot in masked:
        if slot < scores.shape[1]:
            scores[row, slot] = MASKED
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(scores, order, axis=1), order


def check(got, want):
    scores, slots = want
    np.testing.assert_allclose(got.scores, scores, rtol=1e-6)
    real = scores > MASKED / 2  # the slot of a masked score is arbitrary
    np.testing.assert_array_equal(np.where(real, got.slots, -1), np.where(real, slots, -1))


def jitted_best(queries, labels, count, *, masked=None, ordered=True):
    """`best_scores` as one program, of blocks as they are set now."""
    search = jax.jit(
        lambda *given: best_scores(*given[:2], count, masked=given[2], ordered=ordered)
    )
    return search(queries, labels, masked)


@pytest.fixture(params=[16, 64])
def longest(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Blocks of 16 labels (13 blocks for 201 labels), and of about 64, the last one overlapping."""
    monkeypatch.setattr(scoring, "_CPU_BLOCK", request.param)
    return request.param


PAIRS = [(0, 0), (0, 200), (1, 17), (1, 16), (3, 15), (4, 5), (4, 900)]


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_best_scores_are_the_head_of_a_stable_sort(longest, sampled, with_bias):
    queries, table = integers(0, N, DIM), integers(1, 201, DIM)
    rng = np.random.default_rng(2)
    # 201 is not a label: it marks padding in a sample.
    ids = np.r_[np.sort(rng.choice(201, 90, replace=False)), [201] * 7] if sampled else None
    bias = integers(3, 201) if with_bias else None
    masked = Masked(*(jnp.array(part, jnp.int32) for part in zip(*PAIRS, strict=True)))
    ids_device = None if ids is None else jnp.asarray(ids, jnp.int32)

    @jax.jit
    def several(queries, table, ids, bias, masked):
        labels = LabelRows(table, ids, bias)
        return [best_scores(queries, labels, c, masked=masked) for c in (1, 7, 60)]

    got = several(queries, table, ids_device, bias, masked)
    for count, best in zip((1, 7, 60), got, strict=True):
        check(best, brute_force(queries, table, ids, count, masked=PAIRS, bias=bias))


@pytest.mark.parametrize("entries", [0, 40, 777])
def test_what_is_added_to_scores_of_pairs(longest, monkeypatch, entries):
    """Pieces of 32 entries: fewer than one, and 25 of which blocks share some; pairs repeat."""
    monkeypatch.setattr(blocks, "_PIECE", 32)
    queries, table = integers(0, N, DIM), integers(1, 201, DIM)
    rng = np.random.default_rng(3)
    rows = rng.integers(N, size=entries)
    slots = np.sort(np.where(np.arange(entries) % 2, 150, rng.integers(201, size=entries)))
    slots[entries - 5 :] = [200, 200, 201, 201, 900][: min(entries, 5)]  # two are past the last
    values = integers(4, entries)
    added = Added(*(jnp.asarray(x, jnp.int32) for x in (rows, slots)), jnp.asarray(values))
    expected = queries.astype(np.float64) @ table.T
    here = slots < 201
    np.add.at(expected, (rows[here], slots[here]), values[here])
    order = np.argsort(-expected, axis=1, kind="stable")

    labels = LabelRows(table)
    search = jax.jit(lambda added, count: best_scores(queries, labels, count, added=added),
                     static_argnums=1)  # fmt: skip
    for count in (1, 7):
        best = order[:, :count]
        check(search(added, count), (np.take_along_axis(expected, best, axis=1), best))


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("kind", ["spread", "clustered", "ties", "few"])
def test_candidates_of_blocks_give_the_top_k_of_a_large_count(monkeypatch, kind, ordered):
    """100 of 1024 in 8 blocks: a block holds 12.5 on average and returns 34 to 64."""
    monkeypatch.setattr(scoring, "_CPU_BLOCK", 128)
    assert choose_quota(100, 8, 128) == (34, 64)
    rng = np.random.default_rng(6)
    queries, table = rng.normal(size=(N, DIM)), rng.normal(size=(1100, DIM))
    masked = None
    if kind == "clustered":
        table[:, 0] += np.linspace(40, 0, 1100)  # the top labels of a query are neighbours
        queries[:, 0] = np.abs(queries[:, 0]) + 1
    if kind == "ties":
        queries, table = integers(7, N, DIM), integers(8, 1100, DIM)
    if kind == "few":  # the last query has 37 left: the first 30, and 7 more
        masked = [(N - 1, slot) for slot in range(30, 1024) if slot % 150]
    queries, table = queries.astype(np.float32), table.astype(np.float32)
    ids = np.sort(rng.choice(1100, 1024, replace=False)).astype(np.int32)
    best = jitted_best(
        queries,
        LabelRows(table, ids),
        100,
        masked=masked and Masked(*(np.array(part) for part in zip(*masked, strict=True))),
        ordered=ordered,
    )
    if not ordered:  # sorted here, to compare the set
        order = np.lexsort((best.slots, -best.scores), axis=1)
        best = scoring.Best(*(np.take_along_axis(np.asarray(x), order, axis=1) for x in best))
    want = brute_force(queries, table, ids, 100, masked=masked or ())
    np.testing.assert_allclose(best.scores, want[0], rtol=1e-4, atol=1e-5)
    real = want[0] > MASKED / 2
    np.testing.assert_array_equal(np.where(real, best.slots, -1), np.where(real, want[1], -1))


@pytest.mark.parametrize("ordered", [True, False])
def test_the_flag_tells_when_a_block_may_hold_more(ordered):
    def complete(
        scores: list[list[float]],
        floors: list[float],
        count: int,
        slots_in_order: list[int] | None = None,
    ) -> bool:
        given = jnp.asarray(scores, jnp.float32)[:, None, :]  # two blocks, one query
        slots = jnp.arange(given.size, dtype=jnp.int32).reshape(given.shape)
        candidates = Candidates(given, slots, jnp.asarray(floors, jnp.float32)[:, None])
        merge = jax.jit(merge_candidates, static_argnames=("count", "ordered"))
        best, where, whole = merge(candidates, count, ordered=ordered)
        flat, best, where = np.ravel(np.float32(scores)), np.asarray(best[0]), np.asarray(where[0])
        real = best > MASKED / 2
        np.testing.assert_array_equal(best[real], flat[where[real]])
        if whole:
            np.testing.assert_array_equal(np.sort(best)[::-1], np.sort(flat)[::-1][:count])
        if ordered and slots_in_order is not None:
            assert where.tolist() == slots_in_order
        return bool(whole)

    assert complete([[9, 2, 1], [8, 7, 3]], [1, 3], 3, [0, 3, 4])
    # A tie for the last rank: sorting takes the lower slot, bisection reports it as not exact.
    assert complete([[9, 8, 6], [6, 2, 1]], [6, 1], 3, [0, 1, 2]) == ordered
    assert not complete([[9, 8, 7], [6, 2, 1]], [7, 1], 4)  # the first block may hold a 6.5
    assert complete([[9, 8, 7], [6, 2, 1]], [7, 1], 3)  # another 7 could only be in a higher slot
    assert not complete([[9, 8, 7], [6, 2, 1]], [np.inf, 1], 3)
    few = [[9, 8, MASKED], [7, MASKED, MASKED]]
    assert complete(few, [MASKED, MASKED], 5)  # all scores are candidates
    assert not complete(few, [8, MASKED], 5)


@pytest.mark.parametrize("num_labels", [2, 16, 20, 24])
def test_fewer_labels_than_wanted(monkeypatch, num_labels):
    monkeypatch.setattr(scoring, "_CPU_BLOCK", 16)
    queries, table = integers(4, N, DIM), integers(5, num_labels, DIM)
    masked = Masked(jnp.array([0, 0, 2]), jnp.array([0, 1, num_labels - 1]))
    got = jitted_best(queries, LabelRows(table), num_labels + 3, masked=masked)
    got = Best(*map(np.asarray, got))
    scores, slots = brute_force(
        queries, table, None, num_labels, masked=[(0, 0), (0, 1), (2, num_labels - 1)]
    )
    check(scoring.Best(got.scores[:, :num_labels], got.slots[:, :num_labels]), (scores, slots))
    np.testing.assert_array_equal(got.scores[:, num_labels:], np.float32(MASKED))


def test_a_shard_sees_its_own_labels_only():
    queries, table = integers(6, N, DIM), integers(7, 40, DIM)
    ids = jnp.arange(0, 120, 3, dtype=jnp.int32)  # labels 40 .. 79 are this shard's
    labels = LabelRows(jnp.asarray(table), ids, first_row=40)
    got = jax.jit(lambda: best_scores(queries, labels, 6))()
    check(got, brute_force(queries, table, ids, 6, first_row=40))
    assert set(np.asarray(ids)[got.slots.reshape(-1)]) <= set(range(40, 80))


@pytest.mark.parametrize("sampled", [False, True])
def test_cpu_and_accelerator_blocks_give_the_same(monkeypatch, sampled):
    queries, table = integers(8, N, DIM), integers(9, 500, DIM)
    ids = jnp.arange(3, 490, 2, dtype=jnp.int32) if sampled else None
    monkeypatch.setattr(scoring, "_CPU_BLOCK", 64)
    monkeypatch.setattr(scoring, "_ACCELERATOR_NUMBERS", 200 * (N + DIM))
    labels = LabelRows(jnp.asarray(table), ids)

    def found(platform):
        with compiling_for(platform, 1 << 34):
            plan, _ = scoring._make_plans(labels.num_searched, N + DIM)
            return plan, jax.jit(lambda q: best_scores(q, labels, 3))(queries)

    (cpu, ours), (gpu, theirs) = found("cpu"), found("gpu")
    assert cpu.num_blocks > gpu.num_blocks
    np.testing.assert_array_equal(ours.scores, theirs.scores)
    np.testing.assert_array_equal(ours.slots, theirs.slots)


@pytest.mark.parametrize(("queries", "dim"), [(512, 512), (128, 512), (1024, 512), (512, 4096)])
def test_a_block_of_an_accelerator_has_so_many_scores_and_rows(queries, dim):
    """Few queries or long rows make no block larger; after a tie, blocks are smaller."""
    with compiling_for("gpu", 1 << 34):
        plans = scoring._make_plans(3_000_000, queries + dim)
    held, after = (plan.size * (queries + dim) for plan in plans)
    most = scoring._ACCELERATOR_NUMBERS
    assert 0.9 * most < held < 1.1 * most
    assert after <= 1.1 * max(most / 8, 4096 * (queries + dim))


def test_bfloat16_is_close():
    rng = np.random.default_rng(10)
    queries, table = (rng.normal(size=(n, 64)).astype(np.float32) for n in (N, 300))
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    got = best_scores(queries, LabelRows(table), 8, compute_dtype=jnp.bfloat16)
    assert got.scores.dtype == jnp.float32
    want, _ = brute_force(queries, table, None, 8)
    # A relative error of 2^-9 in each factor changes a score by a few thousandths.
    np.testing.assert_allclose(got.scores, want, atol=5e-3)
    exact = np.take_along_axis(queries @ table.T, np.asarray(got.slots), axis=1)
    np.testing.assert_allclose(exact, got.scores, atol=5e-3)


def test_block_plans_cover_every_slot_once():
    for num_slots in (1, 15, 16, 17, 63, 64, 65, 200, 4097):
        for longest in (16, 64, 4096):
            plan = block_plan(num_slots, longest)
            assert plan.size % 16 == 0
            assert plan.size * (plan.num_blocks - 1) < num_slots <= plan.size * plan.num_blocks
            # Only a single block may be longer than the table, which is then padded.
            assert plan.num_blocks == 1 or plan.size <= num_slots
