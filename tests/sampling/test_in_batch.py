"""In-batch negatives: each positive once, on the host and on the device, and their log weights."""

from __future__ import annotations

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from head_reference import QUICK
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import snm
from snm.batches.epoch_order import Order
from snm.batches.sources.build import make_source
from snm.config.resolve import resolve
from snm.config.settings import preset
from snm.data.weighting import Weighting
from snm.distributed.dataset import label_draws
from snm.errors import InputError
from snm.head.head import update_head
from snm.head.spec import HeadSpec
from snm.head.state import init_head
from snm.sampling.in_batch import InBatchSampler, in_batch, in_batch_log_weights
from snm.sampling.protocol import SamplerInputs
from snm.trainer.start.prepare import prepare

jitted_update = jax.jit(update_head, static_argnums=0, compiler_options=QUICK)
jitted_in_batch = jax.jit(in_batch, static_argnames="num_labels")


def test_in_batch_takes_each_positive_once():
    labels = np.array([[3, 1, 9], [1, -1, 0]], np.int32)  # 9 and -1 are padding
    sample = jitted_in_batch(labels, num_labels=9)
    np.testing.assert_array_equal(sample.ids, [0, 1, 3, 9, 9, 9])
    assert sample.drop == 6 and sample.log_weights is None and sample.num_drawn == 3
    weights = np.arange(9, dtype=np.float32)[None]
    sample = InBatchSampler(num_labels=9, label_log_weights=weights).on_host(0, labels)
    np.testing.assert_array_equal(sample.ids, [0, 1, 3, 9, 9, 9])
    np.testing.assert_array_equal(sample.log_weights, [0, 1, 3, -np.inf, -np.inf, -np.inf])


def test_in_batch_weights_by_enumeration():
    # 5 points, batches of 2: the share of the 10 batches in which a label occurs.
    labels = np.array([[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]])
    batches = list(itertools.combinations(range(5), 2))
    present = np.mean([labels[list(b)].any(axis=0) for b in batches], axis=0)
    got = in_batch_log_weights(all_of(labels.sum(axis=0)), 5, 2)
    assert got.dtype == np.float32
    np.testing.assert_allclose(np.exp(-got.astype(np.float64)), present, rtol=1e-6)
    np.testing.assert_array_equal(in_batch_log_weights(all_of([0, 1]), 5, 5), [0.0, 0.0])
    with pytest.raises(ValueError, match="batch_size"):
        in_batch_log_weights(all_of([1]), 5, 6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("num_points", [5, 50, 1000])
def test_weights_of_a_label_that_almost_all_points_draw_are_finite(num_points):
    """One point has a second label, and draws this one with probability 1/2 or 1/4."""
    for least in (0.25, 0.5, 1 - 1e-9):
        draws = np.array([[num_points - 1 + least], [num_points - 1 + least**2]])
        for batch_size in {1, 2, num_points // 2, num_points}:
            found = in_batch_log_weights(draws, num_points, batch_size)
            assert np.isfinite(found).all() and (found >= 0).all()
            # It is missing from a batch of that one point at most.
            most = -np.log(least) if batch_size == 1 else 0.0
            assert found <= most + 1e-6


def missing(takes, batch_size):
    """P(no point of a batch takes the label), over all batches; `takes` is float64 [N]."""
    batches = itertools.combinations(range(len(takes)), batch_size)
    return np.mean([np.prod(1 - takes[list(batch)]) for batch in batches])


@pytest.mark.parametrize(("batch_size", "error"), [(1, 1e-6), (2, 1e-6), (4, 0.01), (8, 0.07)])
def test_one_drawn_positive_is_present_less_often_than_it_is_carried(batch_size, error):
    """Points with 1 to 6 labels of which a visit draws one, against all batches of 8 points.

    The formula is exact for up to two places, and neglects little until a batch has most points.
    """
    rng = np.random.default_rng(5)
    labels = rng.random((8, 12)) < rng.uniform(0.1, 0.6, 8)[:, None]
    labels[:, 0] |= ~labels.any(axis=1)
    takes = labels / labels.sum(axis=1, keepdims=True)
    carried = labels.any(axis=0)
    exact = 1 - np.array([missing(takes[:, j], batch_size) for j in np.flatnonzero(carried)])
    sums = np.stack([takes.sum(axis=0), (takes**2).sum(axis=0)])
    got = np.exp(-in_batch_log_weights(sums, 8, batch_size)[carried].astype(np.float64))
    np.testing.assert_allclose(got, exact, rtol=error)
    # What it was corrected by before: the probability that a carrier is in the batch.
    as_carried = 1 - np.array([missing(labels[:, j] * 1.0, batch_size) for j in range(12)])[carried]
    assert (as_carried / exact).max() > 1.4


@pytest.mark.parametrize("positives", ["one", "all"])
def test_the_weights_of_batches_estimate_the_number_of_labels(positives):
    """Over the batches of a source: the mean of the sum of exp(log_weights) is K.

    Before, it was 0.29 K with one positive. Within 4 standard errors, and 3% for strips.
    """
    data = snm.generate(points=600, test_points=1, features=30, labels=80, seed=2)
    labels = data.train.labels
    source = make_source(
        HeadSpec(num_labels=80, sampled=40, mined=4, positives=positives, exclude="all"),
        data.train.features, labels,
        Order.of(600, 32, seed=3), sampler=InBatchSampler,
    )  # fmt: skip
    steps = source.steps_per_epoch - 1  # the last batch is shorter
    totals = np.array([
        np.exp(source.stack(epoch * source.steps_per_epoch + step, 1).sample.log_weights).sum()
        for epoch in range(12) for step in range(steps)
    ])  # fmt: skip
    occurring = (labels.sum(axis=0) > 0).sum()
    error = totals.std() / np.sqrt(len(totals))
    assert abs(totals.mean() - occurring) < 4 * error + 0.03 * occurring


def test_a_batch_of_all_points_on_a_mesh_that_cannot_cut_it_evenly():
    """101 points on two devices: 102 places, and a batch has each label that occurs."""
    data = snm.generate(points=101, test_points=1, features=30, labels=20, seed=2)
    source = make_source(
        HeadSpec(num_labels=20, sampled=10, mined=4, positives="all", exclude="all"),
        data.train.features, data.train.labels,
        Order.of(101, 256, seed=3, data_parts=2), sampler=InBatchSampler, data_parts=2,
    )  # fmt: skip
    assert (source.order.num_points, source.order.batch_size) == (101, 102)
    sample = jax.tree.map(lambda x: x.reshape(-1), source.stack(0, 1).sample)
    drawn = np.isfinite(sample.log_weights)
    assert set(sample.ids[drawn]) == set(data.train.labels.indices)
    assert (sample.log_weights[drawn] == 0).all()


def all_of(frequency):
    """`label_draws` where every carrier takes the label."""
    return np.tile(np.asarray(frequency, np.float64), (2, 1))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-2, 9), min_size=6, max_size=6), st.sampled_from([3, 7, 9]))
def test_host_and_device_find_the_same_labels(labels, num_labels):
    # Of 6 positives, as a set; fewer and more labels than these.
    labels = np.array(labels, np.int32)
    distinct = sorted({int(label) for label in labels if 0 <= label < num_labels})
    size = min(num_labels, 6)
    on_host = in_batch(labels, num_labels=num_labels)
    on_device = jitted_in_batch(labels, num_labels=num_labels)
    for sample, kind in ((on_host, np.ndarray), (on_device, jax.Array)):
        assert all(isinstance(array, kind) for array in sample if array is not None)
        np.testing.assert_array_equal(sample.ids, distinct + [num_labels] * (size - len(distinct)))
        assert sample.drop == size and sample.num_drawn == len(distinct)
        assert sample.ids.dtype == sample.drop.dtype == np.int32


def test_a_sample_has_a_slot_for_each_positive_or_label():
    sampler = InBatchSampler(num_labels=5, label_log_weights=np.zeros((1, 5), np.float32))
    assert sampler.on_host(0, np.array([4, 4, 5], np.int32)).ids.tolist() == [4, 5, 5]
    positives = jnp.array([0, 1, 2, 3, 4, 4, 2], jnp.int32)
    assert jax.jit(sampler.on_device)(0, positives, 0).ids.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="positives of the batch"):
        sampler.on_host(0, None)


@pytest.mark.parametrize(("points", "last"), [(300, 44), (512, 256)])
def test_every_batch_of_an_epoch_estimates_the_sum_over_all_labels(points, last):
    """The sum of the weights of a batch's labels is K on average, also of a short batch."""
    labels = np.random.default_rng(0).permutation(points) % 60
    order = Order.of(points, 256, seed=0)
    assert order.num_points_of_step(order.steps - 1) == last
    draws = np.tile(np.bincount(labels).astype(float), (2, 1))
    sampler = InBatchSampler.build(
        SamplerInputs(num_labels=60, size=61, seed=0, num_points=points, batch_size=256,
                      label_draws=draws)
    )  # fmt: skip
    on_device = jax.jit(sampler.on_device)
    estimates = np.zeros((200, order.steps))
    for epoch in range(200):
        for place, rows in enumerate(order.epoch(epoch)[0]):
            step = epoch * order.steps + place
            positives = np.where(rows >= 0, labels[rows], 60).astype(np.int32)
            sample = sampler.on_host(step, positives)
            estimates[epoch, place] = np.exp(sample.log_weights).sum()
            if epoch == 0:
                found = on_device(step, jnp.asarray(positives), 0)
                np.testing.assert_array_equal(found.log_weights, sample.log_weights)
    error = estimates.std(axis=0) / np.sqrt(200)
    assert (np.abs(estimates.mean(axis=0) - 60) < 4 * error + 0.01).all()


def test_sums_of_draws_are_those_of_a_loop():
    rng = np.random.default_rng(1)
    labels = sparse.csr_matrix((rng.random((50, 7)) < 0.4).astype(np.float32))
    rows = np.flatnonzero(np.diff(labels.indptr))[::2]
    expected = np.zeros((2, 7))
    for row in rows:
        carried = labels[row].indices
        expected[:, carried] += [[1 / len(carried)], [1 / len(carried) ** 2]]
    np.testing.assert_allclose(label_draws(labels, rows, one=True), expected, atol=1e-9)
    frequency = labels[rows].sum(axis=0)
    np.testing.assert_array_equal(
        label_draws(labels, rows, one=False), np.tile(np.asarray(frequency), (2, 1))
    )


@pytest.fixture(scope="module")
def tiny_data(tmp_path_factory):
    return tiny.dataset(tmp_path_factory.mktemp("data") / "tiny")


def settings_of(data, **changes):
    start = dict(sampler="in-batch", sampled="auto", batch_size=8, loss="bowl", score_scale=0.5,
                 data_on="host")  # fmt: skip
    return resolve(dataclasses.replace(tiny.CONFIG, **start | changes), data)


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        (dict(mined=8), 15),  # 8 points of 2 labels, one of which is the term's own
        (dict(mined="all", exclude="positive"), 15),
        (dict(mined=6, positives="one", exclude="positive"), 7),
        (dict(mined=4, loss="powl", phi="logistic", vartheta="power-law"), 15),
    ],
    ids=["k' 8", "all but the positive", "one positive", "powl"],
)
def test_negatives_weigh_as_much_as_positives(tiny_data, changes, most):
    """With a margin everywhere, biases move by the weights: the sum over labels is what is over.

    A batch of 8 points has up to 16 candidates. The negatives of `--mined 8` weighed 1/8 each,
    however many there were.
    """
    config = settings_of(tiny_data, **changes)
    assert config.sampled == most
    prepared = prepare(config, tiny_data, Weighting.fit("none", tiny_data.train.features))
    source, spec = prepared.source, prepared.model.spec
    batch = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), source.stack(1, 1))
    labels = set(batch.terms.ids[batch.terms.values != 0].tolist())
    assert batch.sample.num_drawn == len(labels) > (8 if config.positives == "all" else 4)
    head = init_head(spec, jax.random.key(0), 4, score_scale=0.5)
    queries = jnp.eye(8, 4)  # points 5 to 8 have scores of 0
    new, step = jitted_update(spec, head, queries, batch.head_batch, learning_rate=1.0)
    moved = np.asarray(new.bias - head.bias)
    assert step.ok and moved[sorted(labels)].max() > 0.01 and moved.min() < -0.01
    if config.loss == "bowl":  # hinge: the terms' weights add up to 1, and so do the negatives'
        np.testing.assert_allclose(moved[moved > 0].sum() + moved[moved < 0].sum(), 0, atol=1e-6)
    else:  # pairs move a positive and a negative alike
        np.testing.assert_allclose(moved.sum(), 0, atol=1e-6)


def test_the_loss_of_equal_scores_counts_no_candidates(tiny_data):
    """All scores 0: the hinge is 1 for the positive and 1 for the mean of its negatives."""
    for changes in (dict(mined=8), dict(mined="all", exclude="positive")):
        config = settings_of(tiny_data, **changes)
        prepared = prepare(config, tiny_data, Weighting.fit("none", tiny_data.train.features))
        batch = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), prepared.source.stack(1, 1))
        spec = prepared.model.spec
        head = init_head(spec, jax.random.key(0), 4)
        zeros = jnp.zeros((8, 4))
        _, step = jitted_update(spec, head, zeros, batch.head_batch, learning_rate=1.0)
        np.testing.assert_allclose(step.loss, 2, rtol=1e-6)


def test_mined_labels_that_reach_all_candidates(tiny_data):
    assert settings_of(tiny_data, mined=14).mined == 14
    # All 20 labels may be in a large batch, and 18 may be asked for without meaning "all others".
    for batch_size, mined, most in ((8, 15, 15), (256, 256, 18), (60, 18, 18)):
        expected = f"mined: found {mined} of at most {most} positives of other points in a batch"
        with pytest.raises(InputError, match=f"{expected}, expected fewer than {most}, or all"):
            settings_of(tiny_data, mined=mined, batch_size=batch_size)
    paper = dataclasses.replace(preset("paper"), sampler="in-batch", batch_size=8)
    assert resolve(paper, tiny_data).mined == "all"  # the preset's 16, which nobody asked for
    with pytest.raises(InputError, match="surrogate: found sampler in-batch, expected sampler"):
        settings_of(tiny_data, mined=8, weight_scale="surrogate", exclude="positive")
