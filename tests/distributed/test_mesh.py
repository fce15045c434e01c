"""A mesh against one device: the start, what a step moves and holds, answers, and refusals."""

import dataclasses
import re

import jax
import numpy as np
import pytest
from distributed.uneven import DATA, SMALL
from jax.sharding import PartitionSpec

import snm
from snm.batches.epoch_order import Order
from snm.batches.sources.build import make_source
from snm.config.resolve import resolve
from snm.data.weighting import Weighting
from snm.distributed.collectives import Shard
from snm.distributed.mesh import DATA as OVER_DATA
from snm.distributed.mesh import LABEL, feature_axis, make_mesh, on_mesh, parse_mesh, table_axes
from snm.errors import InputError
from snm.model.from_config import make_model
from snm.model.model import init_state
from snm.model.placement import abstract_state_on, init_state_on, jitted_init, shard_state
from snm.prediction.concordant_pairs import count_concordant_pairs
from snm.prediction.programs import jitted_queries, jitted_top
from snm.tables import table as rows_module
from snm.tables.table import SparseRows
from snm.trainer.steps.programs import jitted_steps

# -- the start ---------------------------------------------------------------------------------


def model_of(**changes):
    config = resolve(dataclasses.replace(SMALL, **changes), DATA)
    return make_model(config, DATA.train.num_features, DATA.train.num_labels)


@pytest.mark.parametrize(
    ("text", "block", "of_features", "of_labels"),
    [
        ("data=2,label=4", 16, 4, 4),
        ("data=4,label=2", 64, 4, 2),
        ("data=8", 1 << 16, 8, 1),
    ],
)
def test_every_device_initializes_only_its_own_rows(
    text, block, of_features, of_labels, monkeypatch, request
):
    monkeypatch.setattr(rows_module, "_RANDOM_ROWS", block)
    jitted_init.cache_clear()  # its programs have another block
    request.addfinalizer(jitted_init.cache_clear)
    mesh = make_mesh(text, 203, 32)
    model = model_of(row_optimizer="adagrad")
    whole = init_state(model)
    cut = init_state_on(model, mesh)
    for mine, rows, parts in (
        (cut.features.rows, whole.features.rows, of_features),
        (cut.features.accumulator, whole.features.accumulator, of_features),
        (cut.head.table.rows, whole.head.table.rows, of_labels),
        (cut.head.bias, whole.head.bias, of_labels),
    ):
        assert len(mine) == -(-len(rows) // parts) * parts
        np.testing.assert_allclose(np.asarray(mine)[: len(rows)], rows, rtol=1e-6)
        assert not np.asarray(mine)[len(rows) :].any()
        firsts = [part.index[0].indices(len(mine))[0] for part in mine.addressable_shards]
        assert {part.data.shape[0] for part in mine.addressable_shards} == {len(mine) // parts}
        assert len(firsts) == 8 and len(set(firsts)) == parts


@pytest.mark.parametrize(
    ("text", "axis", "rows"), [("label=8", LABEL, 304), ("data=3,label=2", OVER_DATA, 303)]
)
def test_sharding_a_state_pads_with_rows_of_zeros(text, axis, rows):
    mesh = make_mesh(text, 203, 33)
    state = shard_state(init_state(model_of()), mesh)
    labels = mesh.shape[LABEL]
    assert state.head.table.rows.shape == (203 + -203 % labels, 16)
    assert state.head.bias.shape == (203 + -203 % labels,)
    assert state.features.rows.sharding.spec == jax.P(axis, None)
    assert state.features.rows.shape == (rows, 16)
    assert not np.asarray(state.features.rows)[301:].any()


def test_features_are_sharded_over_the_larger_axis():
    for data in range(1, 9):
        for label in range(1, 9):
            sizes = {OVER_DATA: data, LABEL: label}
            assert sizes[feature_axis(data, label)] == max(data, label)
    assert feature_axis(4, 4) == LABEL


@pytest.mark.parametrize("data_axis", [None, OVER_DATA])
@pytest.mark.parametrize("axis", [OVER_DATA, LABEL])
def test_sums_of_rows_over_either_axis(axis, data_axis):
    """6 points over 11 rows in 4 or 2 shards, compared with a dense float64 product."""
    rng = np.random.default_rng(0)
    mesh = make_mesh("data=4,label=2", 203, 32)
    parts, data_parts = mesh.shape[axis], 4
    table = rng.normal(size=(11, 3)).astype(np.float32)
    padded = np.pad(table, [(0, -11 % parts), (0, 0)])
    dense = rng.normal(size=(data_parts, 6, 11)) * (rng.random((data_parts, 6, 11)) < 0.4)
    if data_axis is None:
        dense = np.broadcast_to(dense[:1], dense.shape)

    def block(matrix):
        points, ids = np.nonzero(matrix)
        spare = 66 - len(ids)  # padding names a row of the first part
        return SparseRows(
            np.pad(ids, (0, spare)).astype(np.int32),
            np.pad(matrix[points, ids], (0, spare)).astype(np.float32),
            np.searchsorted(points, np.arange(7)).astype(np.int32),
        )

    def own(rows, block):
        shard = Shard.of(rows, 11, axis, data_axis)
        return shard.row_sums(rows, jax.tree.map(lambda x: x[0], block))[None]

    blocks = jax.tree.map(lambda *leaves: np.stack(leaves), *map(block, dense))
    rows_spec, part = PartitionSpec(axis, None), PartitionSpec(OVER_DATA)
    sums = on_mesh(mesh, own, (rows_spec, part), part)
    found = jax.jit(sums)(padded, blocks)
    np.testing.assert_allclose(found, dense @ table.astype(np.float64), rtol=1e-5, atol=1e-5)


# -- what a step moves and holds ---------------------------------------------------------------


def compiled_step(mesh, num_labels=200_000, features=100_000, **changes):
    config = dataclasses.replace(SMALL, **{"sampled": 4096, "dim": 64, **changes})
    data = snm.generate(points=64, test_points=1, features=40, labels=30, seed=0)
    config = resolve(dataclasses.replace(config, sampled=20, mined=8), data)
    config = dataclasses.replace(config, sampled=4096)
    model = make_model(config, features, num_labels)
    matrix = data.train.features.copy()
    matrix.resize(64, features)
    labels = data.train.labels.copy()
    labels.resize(64, num_labels)
    parts = mesh.shape["data"]
    order = Order.of(64, 32, 0, parts)
    source = make_source(model.spec, matrix, labels, order, data_parts=parts)
    step = jitted_steps(model, source, source.shape(0), mesh)
    return step.lower(abstract_state_on(mesh, model), (), source.stack(0, 1)).compile()


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        pytest.param("data=4,label=2", {}, marks=pytest.mark.slow),
        pytest.param("data=2,label=2", {}, marks=pytest.mark.slow),
        pytest.param("data=8", {}, marks=pytest.mark.slow),
        pytest.param("data=2,label=2", dict(loss="bowl", mined=4096), marks=pytest.mark.slow),
        pytest.param("data=2,label=2", dict(row_optimizer="adagrad"), marks=pytest.mark.slow),
        pytest.param("data=4,label=2", dict(row_optimizer="adagrad"), marks=pytest.mark.slow),
    ],
)
def test_no_table_is_copied_or_communicated(text, changes):
    mesh = make_mesh(text, 200_000, 32)
    of_features = 800_000 // mesh.shape[table_axes(mesh).features]
    of_labels = 200_000 // mesh.shape[LABEL]
    compiled = compiled_step(mesh, features=800_000, **changes)
    text = compiled.as_text()
    parts = f"(?:{of_features}|{of_labels})(?:,64)?"
    assert re.search(rf"= f32\[{parts}\]", text)
    copies = re.findall(rf"= f32\[{parts}\]\S* copy(?:-start)?\(.*", text)
    assert not copies, copies[:3]
    table = 4 * 64 * 100_000  # the smaller of this device's parts
    assert compiled.memory_analysis().temp_size_in_bytes < 0.7 * table
    for numbers in exchanged(text):
        assert numbers < 100_000, "an exchange as long as a part of a table"


def exchanged(text):
    """The number of elements that each collective of a module communicates."""
    kinds = "all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter"
    found = re.findall(rf"= (.*?) (?:{kinds})(?:-start)?\(", text)
    assert found
    for shapes in found:
        for dims in re.findall(r"\w+\[([\d,]*)\]", shapes):
            yield int(np.prod([int(n) for n in dims.split(",") if n], initial=1))


@pytest.mark.parametrize(
    ("mesh", "drop"),
    [
        ("data=3,label=2", False),
        pytest.param("label=2", False, marks=pytest.mark.slow),
        pytest.param("data=3,label=2", True, marks=pytest.mark.slow),
    ],
)
def test_predictions_are_those_of_one_device(mesh, drop):
    """Also if shards do not divide a block, and the last block is short."""
    model = dataclasses.replace(model_of(), drop_seen=drop)
    state, weighting = init_state(model), Weighting.fit("tfidf", DATA.train.features)
    devices = make_mesh(mesh, 203, 33)
    one = snm.Predictor(model, state, weighting)
    many = snm.Predictor(
        model, shard_state(state, devices), weighting, mesh=devices, block_rows=50, block_entries=8
    )
    labels, scores = one.predict(DATA.test.features, k=7)
    found, found_scores = many.predict(DATA.test.features, k=7)
    np.testing.assert_array_equal(found, labels)
    np.testing.assert_allclose(found_scores, scores, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["data=8", "data=4,label=2", "data=2,label=4"])
def test_concordant_counts_are_those_of_one_device(mesh):
    model = model_of()
    state, weighting = init_state(model), Weighting.fit("tfidf", DATA.train.features)
    devices = make_mesh(mesh, 203, 32)
    points = DATA.test.features, DATA.test.labels, np.zeros((0, 2), np.int64)
    one = snm.Predictor(model, state, weighting, block_rows=50)
    many = snm.Predictor(model, shard_state(state, devices), weighting, mesh=devices, block_rows=50)
    for (m, found), (n, expected) in zip(
        count_concordant_pairs(many, *points), count_concordant_pairs(one, *points), strict=True
    ):
        assert m == n
        np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_a_feature_shard_may_be_empty():
    """Three features on eight devices: five devices have none."""
    model = dataclasses.replace(model_of(), num_features=3)
    state, devices = init_state(model), make_mesh("data=8", 203, 32)
    dense = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    ids, starts = np.tile(np.arange(3, dtype=np.int32), 8), np.arange(0, 25, 3, dtype=np.int32)
    block = SparseRows(ids, dense.reshape(-1), starts)
    queries = jitted_queries(model, None)(state, block)
    whole = jitted_top(model, 5, None)(state, block, queries)
    stacked = SparseRows(ids.reshape(8, 3), dense, np.tile(np.int32([0, 3]), (8, 1)))
    found = jitted_top(model, 5, devices)(shard_state(state, devices), stacked)
    np.testing.assert_array_equal(found.slots, whole.slots)
    np.testing.assert_allclose(found.scores, whole.scores, rtol=1e-5, atol=1e-6)


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["label", "label=0", "data=2,data=2", "rows=2", "label=-1", "x"])
def test_invalid_meshes_are_refused(text):
    with pytest.raises(InputError, match=r"^mesh"):
        parse_mesh(text)


@pytest.mark.parametrize(
    ("text", "labels", "batch", "said"),
    [
        ("label=16", 100, 32, "16 devices"),
        ("label=8", 5, 32, "5 labels, expected at least one a part"),
        ("data=3", 100, 32, "batch_size 32, expected a multiple of data=3"),
    ],
)
def test_meshes_that_do_not_fit_are_refused(text, labels, batch, said):
    with pytest.raises(InputError, match=said):
        make_mesh(text, labels, batch)


def test_one_device_has_no_mesh():
    assert make_mesh("data=1,label=1", 10, 32) is None
