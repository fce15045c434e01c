"""A training step touches rows only where the batch does, and is the dense step all the same."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tiny
from devices import all_24_bits as all_24_bits  # a fixture
from head_reference import QUICK
from scipy import sparse

from snm.batches.csr_blocks import make_block
from snm.batches.epoch_order import Order
from snm.batches.schedule import Schedule
from snm.batches.sources.build import make_source
from snm.model.encoder import ENCODERS, apply_tower, init_tower
from snm.model.from_config import head_spec, make_model
from snm.model.inference import best_labels, scaled_queries
from snm.model.model import abstract_state, init_state
from snm.model.train_step import StepStream, train_step
from snm.tables.rounding import as_float
from snm.tables.table import RowTable, normalize

POINTS, FEATURES, LABELS, SAMPLED, MINED = 6, 11, 9, 5, 2

one_step = jax.jit(train_step, static_argnums=0, compiler_options=QUICK)


def settings(**changes):
    """The step of Algorithm 1, plain."""
    own = dict(
        loss="bowl", phi="hinge", positives="one", exclude="positive", bias=False,
        sampled=SAMPLED, mined=MINED, batch_size=POINTS, learning_rate=0.7, score_scale=1.5,
        tower_learning_rate=0.3,
    )  # fmt: skip
    return tiny.resolved(dataclasses.replace(tiny.CONFIG, **own | changes))


@pytest.fixture(scope="module")
def points():
    """Six points; the third has no features, and the eighth feature no point."""
    rng = np.random.default_rng(0)
    dense = rng.random((POINTS, FEATURES)) * (rng.random((POINTS, FEATURES)) < 0.4)
    dense[2] = dense[:, 7] = 0
    features = sparse.csr_matrix(dense.astype(np.float32))
    labels = np.zeros((POINTS, LABELS), np.float32)
    labels[np.arange(POINTS), [0, 3, 3, 8, 5, 0]] = 1
    return features, sparse.csr_matrix(labels)


def setup(config, points):
    model = make_model(config, FEATURES, LABELS)
    source = make_source(head_spec(config, LABELS), *points, Order.of(POINTS, POINTS, seed=0))
    return model, dataclasses.replace(source, schedule=Schedule.of(config, 1))


def batch_of(source, step):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), source.stack(step, 1))


def dense_loss(parameters, model, features, positives, negatives):
    """The loss as mathematics writes it: whole tables, one full matrix of scores.

    `negatives` [n, B] are the labels that are left of the sample; the two best count.
    """
    rows, tower, classes = parameters
    queries = apply_tower(model.structure, tower, features @ rows)
    # Class rows are of unit length at the start; the head's gradient is that of the raw rows.
    scores = model.score_scale * queries @ classes.T
    positive = jnp.take_along_axis(scores, positives[:, None], axis=1)[:, 0]
    sampled = jnp.take_along_axis(scores, negatives, axis=1)
    best = jnp.sort(sampled, axis=1)[:, -MINED:]
    loss = jnp.maximum(0, 1 - positive) + jnp.maximum(0, 1 + best).mean(axis=1)
    return loss.mean()


@pytest.mark.usefixtures("all_24_bits")
@pytest.mark.parametrize("encoder", ENCODERS)
def test_two_steps_equal_dense_steps(points, encoder):
    """Two, so that the tower's momentum is seen; gradients through whole tables by jax.grad."""
    config = settings(encoder=encoder)
    model, source = setup(config, points)
    state = init_state(model)
    dense = (state.features.rows, state.tower, state.head.table.rows)
    momentum = optax.sgd(config.tower_learning_rate, momentum=config.tower_momentum)
    trace = momentum.init(state.tower)
    gradient = jax.jit(jax.value_and_grad(dense_loss), static_argnums=1)

    for number in range(2):
        batch = batch_of(source, number)
        order, _ = source.order.epoch(number)
        positives = np.asarray(batch.terms.ids)
        drawn, drop = np.asarray(batch.sample.ids), int(batch.sample.drop)
        negatives = np.stack([
            np.delete(drawn, np.flatnonzero(drawn == p)[0] if p in drawn else drop)
            for p in positives
        ])  # fmt: skip
        assert negatives.shape == (POINTS, SAMPLED)
        features = jnp.asarray(points[0][order[0]].toarray())
        loss, (of_rows, of_tower, of_classes) = gradient(
            dense, model, features, jnp.asarray(positives), jnp.asarray(negatives)
        )
        updates, trace = momentum.update(of_tower, trace)
        dense = (
            dense[0] - config.learning_rate * of_rows,
            optax.apply_updates(dense[1], updates),
            normalize(dense[2] - config.learning_rate * of_classes),
        )
        state, metrics = one_step(model, state, batch)
        assert bool(metrics.ok)
        np.testing.assert_allclose(metrics.loss, loss, rtol=1e-5)
        ours = (state.features.rows, state.tower, state.head.table.rows)
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(dense), strict=True):
            np.testing.assert_allclose(a, b, atol=3e-6)
    # What no batch named did not move by a bit.
    unseen = np.setdiff1d(np.arange(FEATURES), points[0].indices)
    start = init_state(model)
    np.testing.assert_array_equal(state.features.rows[unseen], start.features.rows[unseen])
    if encoder == "linear":
        assert not jax.tree.leaves(state.tower)
    else:
        moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), state.tower, start.tower)
        assert min(jax.tree.leaves(moved)) > 1e-4


@pytest.mark.parametrize("encoder", ENCODERS)
def test_points_without_features_are_finite(points, encoder):
    """Every point of the batch: a norm of zero, on which a plain norm's gradient is NaN."""
    model, source = setup(settings(encoder=encoder), points)
    batch = batch_of(source, 0)
    empty = jax.tree.map(jnp.zeros_like, batch.features)
    state, metrics = one_step(model, init_state(model), batch._replace(features=empty))
    assert bool(metrics.ok) and np.isfinite(metrics.loss)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))
    block = make_block(sparse.csr_matrix((3, FEATURES)), np.arange(3))
    queries = jax.jit(scaled_queries, static_argnums=0)(model, state, block)
    best = jax.jit(best_labels, static_argnums=(0, 4))(model, state, block, queries, 4)
    # All scores are 0: the tie goes to the lowest labels.
    np.testing.assert_array_equal(best.scores, np.zeros((3, 4)))
    np.testing.assert_array_equal(best.slots, np.tile(np.arange(4), (3, 1)))


def test_a_step_that_is_not_finite_changes_nothing(points):
    model, source = setup(settings(encoder="residual"), points)
    batch = batch_of(source, 0)
    values = batch.features.values.at[0].set(jnp.nan)
    state = init_state(model)
    broken = batch._replace(features=batch.features._replace(values=values))
    after, metrics = one_step(model, state, broken)
    assert not bool(metrics.ok)
    for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(state), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("features", [40, 1000])
def test_the_parts_of_initial_parameters_are_independent(features):
    """The kernel of the tower was drawn with the key of the feature rows."""
    config = settings(encoder="relu", dim=64)
    state = init_state(make_model(config, features, 200), jnp.uint32(3))
    (kernel,) = (np.asarray(x) for x in jax.tree.leaves(state.tower) if x.shape == (64, 64))
    parts = [kernel, np.asarray(state.features.rows), np.asarray(state.head.table.rows)]
    for one, other in itertools.combinations(parts, 2):
        rows = min(len(one), len(other))
        for a, b in ((one[:rows], other[:rows]), (one[-rows:], other[-rows:])):
            # Standard normal for large samples; 5 is met once in two million.
            found = np.corrcoef(a.ravel(), b.ravel())[0, 1] * np.sqrt(a.size)
            assert abs(found) < 5


def test_a_residual_encoder_starts_as_the_linear_one():
    structure, tower = init_tower(8, "residual", "float32", jax.random.key(0))
    sums = jax.random.normal(jax.random.key(1), (5, 8))
    np.testing.assert_array_equal(apply_tower(structure, tower, sums), normalize(sums))


@pytest.mark.parametrize("changes", [{}, {"loss": "softmax", "mined": SAMPLED}])
def test_each_step_rounds_by_random_bits_of_its_own(points, changes):
    """Of mined pairs, and of all sampled labels in blocks."""
    model, source = setup(settings(table_dtype="bfloat16", **changes), points)
    batch, state = batch_of(source, 0), init_state(model)
    first, again, other = (
        one_step(model, state, batch._replace(step=jnp.int32(step)))[0] for step in (0, 0, 1)
    )
    for rows_of in (lambda state: state.features.rows, lambda state: state.head.table.rows):
        np.testing.assert_array_equal(rows_of(first), rows_of(again))
        assert (rows_of(first) != rows_of(other)).any()


def test_class_rows_round_by_their_own_type(points):
    """Whatever that of the feature rows is."""
    model, source = setup(settings(table_dtype="bfloat16"), points)
    batch, narrow = batch_of(source, 0), init_state(model)
    features = RowTable(as_float(narrow.features.rows), narrow.features.accumulator)
    mixed, of_mixed = one_step(model, dataclasses.replace(narrow, features=features), batch)
    after, _ = one_step(model, narrow, batch)
    assert bool(of_mixed.ok)
    assert mixed.features.rows.dtype == jnp.float32
    np.testing.assert_array_equal(mixed.head.table.rows, after.head.table.rows)


def test_streams_of_a_step_keep_their_numbers():
    """Others would change how a run that was begun goes on."""
    key = jax.random.key(3)
    numbers = {"LOSS": 1, "CLASS_ROUNDING": 2, "FEATURE_ROUNDING": 3}
    assert {stream.name: stream.value for stream in StepStream} == numbers
    for stream in StepStream:
        expected = jax.random.fold_in(key, numbers[stream.name])
        assert (jax.random.key_data(stream.key(key)) == jax.random.key_data(expected)).all()


def test_shapes_of_parameters(points):
    model, _ = setup(settings(encoder="relu", bias=True, row_optimizer="adagrad"), points)
    shapes = jax.tree.map(np.shape, init_state(model))
    assert shapes == jax.tree.map(np.shape, abstract_state(model))
    rows = init_state(dataclasses.replace(model, feature_init=0.25))
    np.testing.assert_allclose(np.linalg.norm(rows.features.rows, axis=1), 0.25, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(rows.head.table.rows, axis=1), 1, rtol=1e-5)
