"""Blocks of few points: their sizes, and that answers do not depend on them."""

import dataclasses
import itertools
import tracemalloc

import jax
import numpy as np
import pytest
import tiny
from devices import mesh_here
from scipy import sparse

import snm
from snm.data.weighting import Weighting
from snm.memory.memory import Memory, MemorySettings
from snm.model.from_config import make_model
from snm.model.model import init_state
from snm.model.placement import shard_state
from snm.prediction.fitted_model import make_blocks
from snm.prediction.point_blocks import Blocks
from snm.prediction.programs import jitted_top

K, D = 700, 90


def points(count, seed=0):
    """CSR [count, D] of counts."""
    rng = np.random.default_rng(seed)
    kept = rng.random((count, D)) < 0.1
    return sparse.csr_matrix((rng.integers(1, 4, (count, D)) * kept).astype(np.float32))


@pytest.fixture(scope="module")
def predictor():
    """Random parameters, and a memory of random labels."""
    config = tiny.resolved(dataclasses.replace(tiny.CONFIG, bias=True, score_scale=4.0, dim=48))
    model, stored = make_model(config, D, K), points(50, 1)
    weighting = Weighting.fit("tfidf", stored)
    alone = snm.Predictor(model, init_state(model), weighting)
    labels = sparse.random(50, K, 0.03, format="csr", dtype=np.float32, random_state=2)
    queries = np.concatenate(list(alone.queries(stored))).astype(np.float16)
    settings = MemorySettings(20, 2.0, 0.5, 3.0)
    memory = Memory(weighting.apply(stored), labels, queries, np.arange(50), settings)
    return dataclasses.replace(alone, memory=memory)


@pytest.mark.parametrize(
    ("count", "rows", "parts", "expected"),
    [
        (1, 512, 1, 8),
        (8, 512, 1, 8),
        (9, 512, 1, 64),
        (65, 512, 1, 512),
        (1, 1, 1, 1),  # as the server asks for
        (9, 16, 1, 16),
        (16, 512, 2, 16),  # 8 points on each of 2 parts
        (17, 512, 2, 128),
    ],
)
def test_few_points_have_small_blocks(count, rows, parts, expected):
    mesh = None if parts == 1 else mesh_here(f"data={parts}", K, D)
    assert (
        Blocks(Weighting.fit("none", points(2)), rows, 8, mesh).for_points(count).rows == expected
    )


def test_each_call_computes_no_larger_block(predictor):
    shapes = {}
    for count in (1, 8, 9, 100):
        (_, block), *_ = make_blocks(predictor, None, count).split(points(count))
        shapes[count] = len(block.starts) - 1
    assert shapes == {1: 8, 8: 8, 9: 64, 100: 512}


def test_answers_are_those_of_large_blocks(predictor):
    every = points(100)
    labels, scores = predictor.predict(every, 7)
    queries = np.concatenate(list(predictor.queries(every)))
    for count in (1, 8, 9, 64):
        found, found_scores = predictor.predict(every[:count], 7)
        np.testing.assert_array_equal(found, labels[:count])
        np.testing.assert_allclose(found_scores, scores[:count], rtol=1e-6)
        of_few = np.concatenate(list(predictor.queries(every[:count])))
        np.testing.assert_allclose(of_few, queries[:count], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("parts", [1, 2])
def test_what_a_memory_adds_is_ordered_by_slot_and_then_by_point(parts):
    """Of 9 points, or of 8 and 1; their slots are in no order before."""
    found = sparse.random(9, K, 0.05, format="csr", dtype=np.float32, random_state=3)
    for start, end in itertools.pairwise(found.indptr):
        found.indices[start:end] = found.indices[start:end][::-1].copy()
    mesh = None if parts == 1 else mesh_here("data=2", K, D)
    blocks = Blocks(Weighting.fit("none", points(2)), 16, 8, mesh)
    added = [np.asarray(x).reshape(parts, -1) for x in blocks.pad_votes(found, 0)]
    for part, (begin, end) in enumerate([(0, 9)] if parts == 1 else [(0, 8), (8, 9)]):
        dense = found[begin:end].toarray()
        slots, rows = np.nonzero(dense.T)
        mine = [x[part, : len(slots)].tolist() for x in added]
        assert mine == [rows.tolist(), slots.tolist(), dense[rows, slots].tolist()]
        assert (added[1][part, len(slots) :] == K).all()


def test_what_a_memory_adds_to_a_point_takes_no_room_for_all_labels():
    many = 4_000_000
    found = sparse.csr_matrix((np.ones(3, np.float32), ([0, 0, 0], [5, 3, 9])), (1, many))
    blocks = Blocks(Weighting.fit("none", points(2)), 8, 8)
    tracemalloc.start()
    try:
        blocks.pad_votes(found, 0)
        assert tracemalloc.get_traced_memory()[1] < many
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("rows", [1, 8])
def test_one_program_whatever_the_votes_of_a_point(rows):
    """The server compiles it with points of a single feature, which have few votes or none."""
    labels = sparse.random(50, 3000, 0.04, format="csr", dtype=np.float32, random_state=4)
    labels.data[:] = 1
    config = tiny.resolved(dataclasses.replace(tiny.CONFIG, bias=True, score_scale=4.0))
    model, stored = make_model(config, D, 3000), points(50, 1)
    weighting = Weighting.fit("tfidf", stored)
    memory = Memory(
        weighting.apply(stored), labels, None, np.arange(50), MemorySettings(20, 2.0, 1.0, 3.0)
    )
    served = snm.Predictor(
        model, init_state(model), weighting, memory=memory, block_rows=rows, block_entries=1023
    )
    served.predict(sparse.csr_matrix((rows, D), dtype=np.float32), 7)
    before = jitted_top(model, 7, None)._cache_size()
    many = points(rows, 5)
    assert memory.additions(weighting.apply(many), None).nnz > 1024 * rows  # more than the floor
    served.predict(many, 7)
    assert jitted_top(model, 7, None)._cache_size() == before


def test_answers_on_a_mesh_are_those_of_one_device(predictor):
    alone = dataclasses.replace(predictor, memory=None)
    mesh = mesh_here("data=2,label=2", K, D)
    parts = dataclasses.replace(alone, mesh=mesh, state=shard_state(alone.state, mesh))
    for count in (1, 9):
        labels, scores = alone.predict(points(count), 4)
        found, found_scores = parts.predict(points(count), 4)
        np.testing.assert_array_equal(found, labels)
        np.testing.assert_allclose(found_scores, scores, rtol=1e-5)
    assert jax.device_count() >= 4
