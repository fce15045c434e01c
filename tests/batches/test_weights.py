"""Weights of points, where 2 is the point twice in the batch and 0 none of it; and of labels."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from devices import mesh_here
from head_reference import QUICK
from scipy import sparse

from snm.batches.dispatches import dispatch_length
from snm.batches.item_splits import add_splits
from snm.batches.sources.build import make_run_source
from snm.batches.sources.on_device import Capacity
from snm.data.dataset import Dataset, Points
from snm.data.id_space import IdSpace, renumber_labels
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.head.head import update_head
from snm.head.state import init_head
from snm.model.from_config import head_spec, make_model
from snm.model.model import init_state
from snm.model.train_step import train_step
from snm.trainer.start import centroids as centroids_module
from snm.trainer.start.centroids import start_at_centroids
from snm.trainer.start.prepare import prepare

WEIGHTS = np.array([2, 1, 0, 3, 1], np.float32)
MEAN = 7 / 4  # of those above 0
FEATURES, LABELS = 11, 9

one_step = jax.jit(train_step, static_argnums=0, compiler_options=QUICK)


def made(labels_per_point):
    """Five points of three features."""
    rng = np.random.default_rng(4)
    features, labels = np.zeros((5, FEATURES)), np.zeros((5, LABELS))
    for row in range(5):
        features[row, rng.choice(FEATURES, 3, replace=False)] = rng.random(3) + 0.5
        labels[row, rng.choice(LABELS, labels_per_point, replace=False)] = 1
    return (sparse.csr_matrix(matrix.astype(np.float32)) for matrix in (features, labels))


def both(labels_per_point=2):
    """Points with weights, and the same points repeated instead."""
    features, labels = made(labels_per_point)
    again = np.repeat(np.arange(5), WEIGHTS.astype(int))
    return Points(features, labels, weights=WEIGHTS), Points(features, labels).take(again)


def config_of(**changes):
    every = dict(batch_size=64, sampled=LABELS - 1, mined=3, learning_rate=2.0, encoder="linear",
                 class_init="random", score_scale=1.5, positives="all", exclude="all")  # fmt: skip
    return tiny.resolved(dataclasses.replace(tiny.CONFIG, **every | changes))


def batched(points, **changes):
    """Settings, and a batch of all points."""
    config = config_of(**changes)
    spec = head_spec(config, LABELS)
    source = make_run_source(
        config, spec, points, None, Weighting.fit("none", points.features), seed=0
    )
    item = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), source.stack(0, 1))
    return config, source.materialize(source.resident_arrays(), item, source.shape(0))


@pytest.mark.parametrize(
    "changes, labels_per_point",
    [
        (dict(loss="softmax"), 2),
        pytest.param(
            dict(loss="powl", positives="one", exclude="positive", data_on="device"),
            1,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_weight_of_2_is_the_point_twice(changes, labels_per_point):
    """4 points that weigh 7 / 4 on average are 7 points."""
    states, losses = [], []
    for points in both(labels_per_point):
        config, batch = batched(points, **changes)
        model = make_model(config, FEATURES, LABELS)
        state, metrics = one_step(model, start := init_state(model), batch)
        assert bool(metrics.ok)
        states.append((state.features.rows, state.head.table.rows))
        losses.append(float(metrics.loss))
        before = start.features.rows, start.head.table.rows
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for a, b, unmoved in zip(*states, before, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)
        assert np.abs(a - unmoved).max() > 0.01


@pytest.mark.parametrize("data_on", ["host", "device"])
@pytest.mark.parametrize(
    "changes, expected",
    [
        (dict(), [3 / 14] * 2 + [2 / 14] * 2 + [1 / 14] * 4),
        (dict(positive_weights="sum"), [3 / 7] * 2 + [2 / 7] * 2 + [1 / 7] * 4),
        (dict(positives="one", exclude="positive"), [3 / 7, 2 / 7, 1 / 7, 1 / 7]),
    ],
)
def test_a_batch_has_weights_over_its_places(data_on, changes, expected):
    """Weights 3, 2, 1 and 1 over their mean, 4 places and, for the mean of positives, 2 labels."""
    values = np.asarray(batched(both()[0], data_on=data_on, **changes)[1].terms.values)
    np.testing.assert_allclose(np.sort(values[values != 0])[::-1], expected, rtol=1e-6)


@pytest.mark.parametrize("data_on", ["host", "device"])
def test_parts_of_a_batch_have_the_weights_of_their_points(data_on):
    """On a mesh, where each device has points of its own."""
    weighted, _ = both()
    config = config_of(data_on=data_on, batch_size=4)
    source = make_run_source(
        config,
        head_spec(config, LABELS),
        weighted,
        None,
        Weighting.fit("none", weighted.features),
        mesh_here("data=2", LABELS, 4),
        seed=0,
    )
    if data_on == "host":
        values = source.stack(0, 1).terms.values[0]
        expected = np.repeat([3, 2, 1, 1], 2) / 7 / 2
    else:
        values = source.resident_arrays()[1].values
        expected = np.repeat([3, 2, 1, 1], 2) / MEAN
    assert len(values) == 2 and values.any(axis=1).all()
    np.testing.assert_allclose(np.sort(values[values != 0])[::-1], expected, rtol=1e-6)


@pytest.mark.parametrize("data_on", ["host", "device"])
def test_a_weight_of_0_is_no_point(data_on):
    weighted, _ = both()
    absent = weighted.take(np.flatnonzero(WEIGHTS))
    one, two = (batched(points, data_on=data_on)[1] for points in (weighted, absent))
    for a, b in zip(*map(jax.tree.leaves, (one, two)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("unit", [0.001, 18.0, 1e30])
def test_the_unit_of_weights_does_not_matter(unit):
    features, labels = made(2)
    scaled = Points(features, labels, weights=(WEIGHTS * unit).astype(np.float32))
    one, two = (batched(points)[1].terms for points in (both()[0], scaled))
    np.testing.assert_array_equal(one.ids, two.ids)
    np.testing.assert_allclose(one.values, two.values, rtol=1e-6)


@pytest.mark.parametrize("positives", ["one", "all"])
def test_weights_of_1_change_no_bit(positives):
    features, labels = made(2)
    ones = Points(features, labels, weights=np.ones(5, np.float32))
    plain = Points(features, labels)
    changes = dict(positives=positives, exclude="positive", mined=3)
    one, two = (batched(points, **changes)[1] for points in (plain, ones))
    for a, b in zip(*map(jax.tree.leaves, (one, two)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("most", "positives"),
    [(0, "one"), (0, "all"), (centroids_module._MAX_VALUES_ON_HOST, "one")],
    ids=["step, one", "step, all", "host"],
)
def test_centroids_count_points_by_their_weights(most, positives, monkeypatch):
    """Compared with the repeated points; a thousandth of a random row is left in either.

    That is more beside weights that are divided by their mean.
    """
    monkeypatch.setattr(centroids_module, "_MAX_VALUES_ON_HOST", most)
    rows = []
    for points in (*both(2), Points(*made(2)).take(np.flatnonzero(WEIGHTS))):
        config = config_of(class_init="centroid", positives=positives, exclude="positive")
        dataset = Dataset("repeated", points, None, None, "0" * 64)
        prepared = prepare(config, dataset, Weighting.fit("none", points.features))
        state = start_at_centroids(prepared, init_state(prepared.model))
        rows.append(np.asarray(state.head.table.rows)[:LABELS])
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-3)
    assert np.abs(rows[0] - rows[2]).max() > 0.1


def test_weights_go_where_points_go():
    features, labels = made(2)
    points = Points(features, labels, weights=WEIGHTS, mean_weight=2.0)
    assert points.take(np.array([3, 0])).weights.tolist() == [3, 2]
    assert points.take(np.array([3, 0])).concatenate(Points(features, labels)).mean_weight == 2.0
    assert points.labelled().tolist() == [0, 1, 3, 4]
    assert points.labelled(np.array([2, 4])).tolist() == [4]
    split, _ = add_splits(Points(labels, labels, weights=WEIGHTS), None, 1, seed=0)
    assert split.weights.tolist() == [*WEIGHTS, *WEIGHTS]
    assert Points(labels, labels, weights=WEIGHTS).baskets().weights.tolist() == WEIGHTS.tolist()


@pytest.mark.parametrize(
    "weights, said",
    [
        (np.ones(4, np.float32), r"shape \(4,\) for 5 points, expected one weight a point"),
        (np.array([1, 1, -2, 1, 1], np.float32), "-2.0 of point 2, expected a finite number"),
        (np.array([1, np.inf, 1, 1, 1], np.float32), "inf of point 1, expected a finite number"),
    ],
)
def test_weights_that_cannot_be_used(weights, said):
    with pytest.raises(InputError, match=said):
        Points(*made(2), weights=weights)


# -- of labels -------------------------------------------------------------------------------

OF_LABELS = np.array([0.5, 2, 1, 4, 0.25, 1, 3, 1.5, 2.5], np.float32)


def test_the_gradient_has_the_weights_of_labels_and_points():
    """The softmax loss over all labels, and its gradient, by arithmetic in float64."""
    features, labels = made(2)
    points = Points(features, labels, weights=WEIGHTS, label_weights=OF_LABELS)
    config, batch = batched(points, sampled="all", mined="all")
    spec = head_spec(config, LABELS)
    head = init_head(spec, jax.random.key(1), 6)
    there = np.flatnonzero(WEIGHTS)  # in some order; told by the labels of each place
    starts = np.asarray(batch.terms.starts)
    queries = np.random.default_rng(2).normal(size=(len(starts) - 1, 6)).astype(np.float32)
    rate = jnp.float32(0.1)
    update = jax.jit(update_head, static_argnums=0, compiler_options=QUICK)
    _, step = update(spec, head, jnp.asarray(queries), batch.head_batch, learning_rate=rate)
    rows = np.asarray(head.table.rows, np.float64)[:LABELS] * float(np.exp(head.log_scale))
    bias = 0 if head.bias is None else np.asarray(head.bias, np.float64)[:LABELS]
    sets = {frozenset(labels[i].indices.tolist()): WEIGHTS[i] for i in there}
    assert len(sets) == 4  # no two points have the same labels
    loss, gradient = 0.0, np.zeros(queries.shape)
    for place, q in enumerate(queries.astype(np.float64)):
        own = np.asarray(batch.terms.ids)[starts[place] : starts[place + 1]].tolist()
        others = np.setdiff1d(np.arange(LABELS), own)
        for label in own:
            weight = sets[frozenset(own)] * OF_LABELS[label] / (MEAN * 4 * len(own))
            scores = rows @ q + bias
            odds = np.exp(scores[others] - scores[label])
            loss += weight * np.log1p(odds.sum())
            shares = odds / (1 + odds.sum())
            gradient[place] += weight * (shares @ (rows[others] - rows[label]))
    assert float(step.loss) == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose(step.query_gradient, gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("data_on", ["host", "device"])
def test_a_batch_has_the_weights_of_its_labels(data_on):
    features, labels = made(2)
    both_weights = Points(features, labels, weights=WEIGHTS, label_weights=OF_LABELS)
    values = np.asarray(batched(both_weights, data_on=data_on)[1].terms.values)
    expected = labels.toarray() * WEIGHTS[:, None] * OF_LABELS / (MEAN * 4 * 2)
    np.testing.assert_allclose(
        np.sort(values[values != 0]), np.sort(expected[expected != 0]), rtol=1e-6
    )


def test_labels_of_weight_1_change_no_bit_and_tiny_ones_stay_known():
    features, labels = made(2)
    of_points = Points(features, labels, weights=WEIGHTS)
    ones = dataclasses.replace(of_points, label_weights=np.ones(LABELS, np.float32))
    one, two = (batched(points)[1] for points in (of_points, ones))
    for a, b in zip(*map(jax.tree.leaves, (one, two)), strict=True):
        np.testing.assert_array_equal(a, b)
    tiny_ones = np.full(LABELS, 1e-30, np.float32)
    small = Points(features, labels, weights=np.full(5, 1e-30, np.float32), label_weights=tiny_ones)
    known = batched(small)[1].known
    # A value of 0 would be padding, and the label a negative of its own point.
    assert np.count_nonzero(known.values) == labels.nnz


def test_weights_of_labels_go_where_labels_go():
    features, labels = made(2)
    points = Points(features, labels, label_weights=OF_LABELS)
    assert points.take(np.array([3])).label_weights is OF_LABELS
    same = Points(labels, labels, label_weights=OF_LABELS)
    split, _ = add_splits(same, None, 1, seed=0)
    assert split.label_weights is same.baskets().label_weights is OF_LABELS
    names = tuple("abcdefghi")
    data = Dataset("here", points, None, names, "1" * 64)
    there = IdSpace("there", FEATURES, 10, ("z", *names[::-1]), "2" * 64, None)
    mapped, _ = renumber_labels(data, there)
    assert mapped.train.label_weights.tolist() == [1, *OF_LABELS[::-1].tolist()]


@pytest.mark.parametrize(
    "weights, said",
    [
        (np.ones(4, np.float32), r"shape \(4,\) for 9 labels, expected one weight a label"),
        (np.array([1] * 8 + [0], np.float32), "0.0 of label 8, expected a finite number above 0"),
        (np.array([np.nan] + [1] * 8, np.float32), "nan of label 0, expected a finite number"),
    ],
)
def test_weights_of_labels_that_cannot_be_used(weights, said):
    with pytest.raises(InputError, match=said):
        Points(*made(2), label_weights=weights)


def test_some_points_on_a_device_take_the_capacity_of_all():
    """So that their step is the program of all points; the batches are those of arrays that fit."""
    weighted, _ = both()
    config, every = config_of(data_on="device", batch_size=2, members=2), np.arange(5)
    fitted = Weighting.fit("none", weighted.features)
    spec = head_spec(config, LABELS)
    some, whole = (
        make_run_source(config, spec, weighted, rows, fitted, seed=0) for rows in (every[:3], None)
    )
    shapes = [jax.tree.map(np.shape, source.resident_arrays()) for source in (some, whole)]
    assert shapes[0] == shapes[1] == (((12,), (12,), (5,)), ((8,), (8,), (5,)))  # one weighs 0
    fitting = dataclasses.replace(some, capacity=None)
    for source in (some, whole, fitting):
        made = jax.tree.map(lambda x: (x.shape, x.dtype), source.resident_arrays())
        assert made == jax.tree.map(lambda x: (x.shape, x.dtype), source.resident_shapes())
    assert fitting.resident_arrays()[0].ids.shape == (6,)
    item = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), some.stack(0, 1))
    batches = [
        source.materialize(source.resident_arrays(), item, some.shape(0))
        for source in (some, fitting)
    ]
    jax.tree.map(np.testing.assert_array_equal, *batches)


@pytest.mark.parametrize(
    "changes",
    [
        dict(),
        dict(members=2, validation_fraction=0.4),
        dict(members=2, data_on="host"),
        dict(members=2, batch_size=64),  # of 3 places, and of 4
    ],
)
def test_there_is_capacity_for_more_only_where_another_phase_has_all_points(changes):
    weighted, _ = both()
    config = config_of(**dict(data_on="device", batch_size=2) | changes)
    fitted = Weighting.fit("none", weighted.features)
    source = make_run_source(
        config, head_spec(config, LABELS), weighted, np.arange(3), fitted, seed=0
    )
    assert getattr(source, "capacity", None) is None  # one on the host has none


@pytest.mark.parametrize(
    ("steps", "of_all", "most", "expected"),
    [
        (46, 51, 32, 26),  # 2 dispatches of 26 compute 52 steps where 2 of 23 compute 46
        (23, 26, 32, 26),
        (22, 26, 32, 22),  # 26 steps are more than a sixth above 22
        (16, 32, 32, 16),
        (318, 353, 32, 30),
    ],
)
def test_a_shorter_epoch_takes_the_dispatch_of_all_where_it_computes_little_more(
    steps, of_all, most, expected
):
    weighted, _ = both()
    config = config_of(data_on="device", batch_size=2)
    source = make_run_source(
        config,
        head_spec(config, LABELS),
        weighted,
        None,
        Weighting.fit("none", weighted.features),
        seed=0,
    )
    longer = dataclasses.replace(source, capacity=Capacity(2 * of_all, 1, 1))
    order = dataclasses.replace(source.order, num_points=2 * steps)
    longer = dataclasses.replace(longer, sizes=dataclasses.replace(source.sizes, order=order))
    assert longer.steps_per_epoch == steps
    assert dispatch_length(longer, most) == expected
