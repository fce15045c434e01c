"""Input dropout: which features a visit leaves out, and that it is the same wherever it is done."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

from snm.batches import dropout
from snm.batches.csr_blocks import make_block
from snm.batches.epoch_order import Order
from snm.batches.sources.build import make_source
from snm.batches.sources.source import BatchSettings
from snm.head.spec import HeadSpec

POINTS, FEATURES, LABELS, RATE = 40, 60, 9, 0.3


def keys(count, seed=0, epoch=0):
    return dropout.dropout_keys(seed, epoch, np.arange(count))


def drawn(count, entries, **of):
    """Whether each of `entries` features of each point is kept, bool [count, entries]."""
    starts = np.arange(count + 1) * entries
    return dropout._kept(keys(count, **of), starts, count * entries, RATE).reshape(count, entries)


def correlation(one, two):
    """Correlation of two series of draws, in standard errors of independent ones."""
    one, two = (x.ravel() - x.mean() for x in (one, two))
    return (one * two).mean() / (one.std() * two.std()) * np.sqrt(one.size)


def test_the_share_is_left_out_at_every_place():
    kept = drawn(20_000, 16)
    error = np.sqrt(RATE * (1 - RATE) / 20_000)
    assert np.abs(kept.mean(axis=0) - (1 - RATE)).max() < 4.5 * error
    by_point = kept.sum(axis=1)  # of a binomial distribution, if the draws are independent
    expected = 16 * RATE * (1 - RATE)
    assert abs(by_point.var() / expected - 1) < 4.5 * np.sqrt(2 / 20_000)


def test_a_share_next_to_1_leaves_next_to_nothing():
    starts = np.arange(3) * 50
    assert not dropout._kept(keys(2), starts, 100, 1 - 2**-40).any()


@pytest.mark.parametrize("other", [dict(seed=1), dict(epoch=1), dict(seed=1, epoch=1)])
def test_other_seeds_and_passes_are_independent(other):
    assert abs(correlation(drawn(4000, 16), drawn(4000, 16, **other))) < 4.5


def test_neighbouring_points_and_places_are_independent():
    kept = drawn(20_000, 8)
    for step in (1, 2, 3):
        assert abs(correlation(kept[:-step], kept[step:])) < 4.5
        assert abs(correlation(kept[:, :-step], kept[:, step:])) < 4.5


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(3)
    dense = rng.random((POINTS, FEATURES)) * (rng.random((POINTS, FEATURES)) < 0.4)
    dense[5] = 0
    labels = rng.random((POINTS, LABELS)) < 0.3
    labels[:, 0] = True
    return sparse.csr_matrix(dense.astype(np.float32)), sparse.csr_matrix(labels.astype(np.float32))


def dense_of(block, width=FEATURES):
    """A block as a NumPy matrix."""
    ids, values, starts = map(np.asarray, block)
    total = starts[-1]
    return sparse.csr_matrix((values[:total], ids[:total], starts), shape=(len(starts) - 1, width))


def test_host_and_device_leave_out_the_same_features(points):
    block = make_block(points[0], np.append(np.arange(POINTS), -1))
    of_points = keys(POINTS + 1)
    left = dropout.count_kept(of_points, np.diff(block.starts), RATE)
    on_host = dropout.drop_entries(block, of_points, RATE, int(left.sum()) + 3)
    np.testing.assert_array_equal(np.diff(on_host.starts), left)
    device_block = jax.tree.map(jnp.asarray, block)
    on_device = dropout.zero_dropped(device_block, jnp.asarray(of_points), RATE)
    same(dense_of(on_host).toarray(), dense_of(on_device).toarray())
    kept = dense_of(on_host).toarray()[:POINTS]
    full = points[0].toarray()
    np.testing.assert_allclose(kept[kept != 0], (full / np.float32(1 - RATE))[kept != 0])
    assert 0.6 < (kept != 0).sum() / (full != 0).sum() < 0.8
    assert not np.asarray(on_host.values)[on_host.starts[-1] :].any()


def test_entries_are_counted_in_blocks(points, monkeypatch):
    counts = np.diff(points[0].indptr)
    whole = dropout.count_kept(keys(POINTS), counts, RATE)
    monkeypatch.setattr(dropout, "_BLOCK", 25)  # one or two points at a time
    np.testing.assert_array_equal(dropout.count_kept(keys(POINTS), counts, RATE), whole)
    assert dropout.count_kept(keys(0), counts[:0], RATE).size == 0


def source(points, *, seed=7, resident=False, data_parts=None, drop_seen=False, input_dropout=RATE):
    return make_source(
        HeadSpec(num_labels=LABELS, sampled=4, mined=2), *points,
        Order.of(POINTS, 16, seed, data_parts or 1),
        settings=BatchSettings(input_dropout=input_dropout, drop_seen=drop_seen),
        resident=resident, data_parts=data_parts,
    )  # fmt: skip


@pytest.mark.parametrize("seed", [0, 7, 2**31 + 5, 2**40 + 5])
def test_the_key_of_a_seed_is_that_of_jax(points, seed):
    np.testing.assert_array_equal(
        source(points, seed=seed)._key, jax.random.key_data(jax.random.key(seed)), strict=True
    )


def same(one, two):
    """The same entries; XLA may multiply by the inverse where NumPy divides."""
    np.testing.assert_array_equal(one != 0, two != 0)
    np.testing.assert_allclose(one, two, rtol=3e-7)


def features_of(source, step):
    """The features of a batch after dropout, [16, FEATURES], and `seen`."""
    item = jax.tree.map(lambda leaf: leaf[0], source.stack(step, 1))
    batch = source.materialize(source.resident_arrays(), item, source.shape(step))
    seen = None if batch.seen is None else dense_of(batch.seen).toarray()
    return dense_of(batch.features).toarray(), seen


def test_batches_are_the_same_from_the_host_and_from_the_device(points):
    streamed, resident = source(points), source(points, resident=True)
    everything = source(points, input_dropout=0.0)
    assert streamed.shape(0)[0] < everything.shape(0)[0] == resident.shape(0)[0]
    passes = []
    for step in range(2 * streamed.steps_per_epoch):
        one, _ = features_of(streamed, step)
        same(one, features_of(resident, step)[0])
        full, seen = features_of(everything, step)
        assert seen is None
        assert ((one == 0) | np.isclose(one * (1 - RATE), full)).all() and (one != 0).any()
        passes.append((one != 0).sum())
    half = len(passes) // 2
    assert passes[:half] != passes[half:]


def test_batches_in_parts_have_the_same_features(points):
    whole, parts = source(points), source(points, data_parts=2)
    for step in range(whole.steps_per_epoch):
        stack = jax.tree.map(lambda leaf: leaf[0], parts.stack(step, 1))
        halves = [dense_of(jax.tree.map(lambda x, p=p: x[p], stack.features)) for p in range(2)]
        # Each part has the points of its own range, so batches in parts are in another order.
        mixed = sparse.vstack(halves).toarray()
        order, _ = parts.order.epoch(0)
        here = order[step]
        of_points = dropout.dropout_keys(7, 0, here)
        block = make_block(points[0], here)
        left = dropout.count_kept(of_points, np.diff(block.starts), RATE)
        wanted = dropout.drop_entries(block, of_points, RATE, int(left.sum()))
        np.testing.assert_array_equal(mixed, dense_of(wanted).toarray())


@pytest.mark.parametrize("resident", [False, True])
def test_seen_has_all_features(points, resident):
    kept, seen = features_of(source(points, resident=resident, drop_seen=True), 0)
    full, _ = features_of(source(points, input_dropout=0.0), 0)
    np.testing.assert_array_equal(seen, full)
    assert (kept != 0).sum() < (full != 0).sum()


def test_centroids_and_the_whole_have_all_features(points):
    plain = source(points).for_centroids()
    np.testing.assert_array_equal(
        features_of(plain, 0)[0], features_of(source(points, input_dropout=0.0), 0)[0]
    )
    cut = source(points, data_parts=2)
    whole = cut.whole()
    assert (whole.data_parts, whole.own, whole.settings) == (1, None, cut.settings)
    np.testing.assert_array_equal(features_of(whole, 3)[0], features_of(source(points), 3)[0])
