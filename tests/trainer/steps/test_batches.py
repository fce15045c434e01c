"""Batches of a run: the device makes those of the host, and no entry is missed."""

import dataclasses

import jax
import numpy as np
import pytest
import tiny
from small_runs import config

import snm
from snm.batches.epoch_order import Order
from snm.batches.sources.build import make_source
from snm.batches.sources.source import BatchSettings, Source
from snm.config.resolve import resolve
from snm.data.weighting import Weighting
from snm.model.from_config import head_spec
from snm.sampling.samplers import SAMPLERS
from snm.trainer.start.prepare import prepare


def source(data, resident, **changes) -> Source:
    settings = resolve(config(**changes), data)
    return make_source(
        head_spec(settings, data.train.num_labels),
        data.train.features,
        data.train.labels,
        Order.of(len(data.train.labelled()), settings.batch_size, settings.seed),
        settings=BatchSettings(positive_weights=settings.positive_weights),
        sampler=SAMPLERS[settings.sampler],
        sampler_options={"frequency_power": settings.frequency_power},
        resident=resident,
    )


@pytest.fixture(scope="module")
def uneven():
    """Points of many sizes, some without labels."""
    data = snm.generate(points=150, test_points=0, features=60, labels=30, seed=3,
                        labels_per_point=3, nonzeros_per_point=8)  # fmt: skip
    labels = data.train.labels.tolil()
    labels[[4, 77]] = 0
    train = snm.Points(data.train.features, labels.tocsr().astype(np.float32))
    return dataclasses.replace(data, train=train)


@pytest.mark.parametrize(
    ("positives", "weights", "sampler"),
    [
        ("one", "mean", "uniform"),
        ("one", "mean", "in-batch"),
        ("all", "mean", "in-batch"),
        ("all", "mean", "frequency"),
        ("all", "sum", "uniform"),
    ],
)
def test_the_device_makes_the_same_batches(uneven, positives, weights, sampler):
    changes = dict(positives=positives, positive_weights=weights, sampler=sampler, exclude="all")
    host, device = (source(uneven, resident, **changes) for resident in (False, True))
    stored = device.resident_arrays()
    last = host.steps_per_epoch - 1
    for step in (0, last, last + 1):
        shape = host.shape(step)
        assert shape == device.shape(step)
        sent, made = (jax.tree.map(lambda leaf: leaf[0], s.stack(step, 1)) for s in (host, device))
        one, two = host.materialize((), sent, shape), device.materialize(stored, made, shape)
        for name in ("features", "terms", "known", "step"):
            for a, b in zip(
                jax.tree.leaves(getattr(one, name)),
                jax.tree.leaves(getattr(two, name)),
                strict=True,
            ):
                assert a.shape == b.shape and a.dtype == b.dtype, name
                np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=name)
        if sampler == "uniform":  # host and device draw differently, by the same law
            assert one.sample.ids.shape == two.sample.ids.shape
        else:
            leaves = (jax.tree.leaves(each.sample) for each in (one, two))
            for a, b in zip(*leaves, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6)


def test_every_entry_comes_once_an_epoch(uneven):
    """Padded to the epoch's largest batch, never cut: a batch's sums add up to the data's."""
    batches = source(uneven, resident=False, exclude="all")
    assert batches.num_points == 148
    orders = []
    for epoch in (0, 1):
        order, _ = batches.order.epoch(epoch)
        assert sorted(order[order >= 0]) == list(range(148))
        orders.append(order)
        first = epoch * batches.steps_per_epoch
        shape = batches.shape(first)
        for step in range(batches.steps_per_epoch):
            batch = jax.tree.map(lambda leaf: leaf[0], batches.stack(first + step, 1))
            points = order[step][order[step] >= 0]
            for block, matrix, entries in (
                (batch.features, batches.features, shape[0]),
                (batch.known, batches.labels, shape[1]),
            ):
                assert block.ids.shape == block.values.shape == (entries,)
                total = matrix[points].nnz
                assert block.starts[-1] == total <= entries
                assert (np.diff(block.starts)[order[step] < 0] == 0).all()
                assert (block.values[total:] == 0).all()
                np.testing.assert_array_equal(block.ids[:total], matrix[points].indices)
                np.testing.assert_array_equal(block.values[:total], matrix[points].data)
            # The mean over the points of the mean over their labels, whatever the batch holds.
            np.testing.assert_allclose(batch.terms.values.sum(), len(points) / 16, rtol=1e-6)
    assert not np.array_equal(*orders)


def test_two_threads_may_ask_for_epochs(uneven):
    """The loader's thread is ahead of the one that trains: both get what was asked for."""
    from concurrent.futures import ThreadPoolExecutor

    batches = source(uneven, resident=False)
    wanted = [batches.order._new_epoch(number)[0] for number in range(6)]
    with ThreadPoolExecutor(4) as pool:
        asked = pool.map(lambda n: (n % 6, batches.order.epoch(n % 6)[0]), range(300))
        for number, order in asked:
            np.testing.assert_array_equal(order, wanted[number])
    assert len(batches.order._epochs) <= 5


@pytest.mark.parametrize("resident", [False, True])
def test_each_label_of_a_point_is_drawn_as_often(uneven, resident):
    """Within five standard deviations of 40 draws; one is sqrt(40 p (1 - p)), at most sqrt(10)."""
    batches, epochs = source(uneven, resident, positives="one"), 40
    labels = batches.labels.toarray()
    drawn = np.zeros_like(labels)
    for epoch in range(epochs):
        order, _ = batches.order.epoch(epoch)
        stack = batches.stack(epoch * batches.steps_per_epoch, batches.steps_per_epoch)
        real = order >= 0
        if resident:
            places = batches.labels.indptr[order[real]] + stack.positives[real]
            ids = batches.labels.indices[places]
        else:
            ids = stack.terms.ids[real]
            np.testing.assert_allclose(stack.terms.values[real], 1 / 16)
        np.add.at(drawn, (order[real], ids), 1)
    expected = epochs * labels / np.maximum(labels.sum(axis=1, keepdims=True), 1)
    assert not drawn[labels == 0].any()
    assert np.abs(drawn - expected).max() < 5 * np.sqrt(epochs / 4)


@pytest.mark.parametrize("seen", ["keep", "drop"])
def test_batches_tell_what_was_seen_only_where_it_is_dropped(seen):
    data = tiny.tastes()
    settings = resolve(config(seen=seen), data)
    prepared = prepare(settings, data, Weighting.fit("none", data.train.features))
    batch = prepared.source.stack(0, 1)
    assert (batch.seen is not None) == (seen == "drop")
