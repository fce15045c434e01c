"""The memory against its definition in dense float64."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snm.memory import memory as module
from snm.memory.memory import Memory, MemorySettings, as_float32, joint_cosines, votes
from snm.memory.neighbors import Neighbors, StoredPoints, nearest, unit_rows

STORED, FEATURES, LABELS, WIDTH = 150, 30, 12, 6


def problem(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)

    def sparse(rows: int) -> np.ndarray:
        kept = rng.random((rows, FEATURES)) < 0.2
        return (rng.random((rows, FEATURES)) * kept).astype(np.float32)

    return {
        "stored": sparse(STORED),
        "labels": (rng.random((STORED, LABELS)) < 0.2).astype(np.float32),
        "stored_queries": rng.normal(size=(STORED, WIDTH)),
        "points": sparse(9),
        "queries": rng.normal(size=(9, WIDTH)).astype(np.float32),
    }


def unit(rows: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def by_definition(parts: dict[str, np.ndarray], settings: MemorySettings, found: int) -> np.ndarray:
    """Loops over points: neighbours by features, weights by both cosines, the root of the votes."""
    of_features = unit(parts["points"].astype(float)) @ unit(parts["stored"].astype(float)).T
    of_queries = unit(parts["queries"].astype(float)) @ unit(parts["stored_queries"]).T
    added = np.zeros((len(parts["points"]), LABELS))
    for point in range(len(added)):
        near = np.argsort(-of_features[point], kind="stable")[:found]
        near = near[of_features[point, near] > 0]
        share = settings.feature_share
        alike = share * of_features[point, near] + (1 - share) * of_queries[point, near]
        most = np.argsort(-alike, kind="stable")[: settings.neighbors]
        weights = np.maximum(alike[most], 0) ** settings.power
        if weights.sum() > 0:
            votes = weights @ parts["labels"][near[most]].astype(float) / weights.sum()
            added[point] = settings.weight * np.sqrt(votes)
    return added


def memory_of(parts: dict[str, np.ndarray], settings: MemorySettings) -> Memory:
    queries = None
    if settings.feature_share < 1:
        queries = unit(parts["stored_queries"]).astype(np.float16)
    rows = 2 * np.arange(STORED)  # of a larger training set
    return Memory(csr_matrix(parts["stored"]), csr_matrix(parts["labels"]), queries, rows, settings)


def test_queries_are_read_when_the_neighbours_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then a device may compute them; it has rows that fill a block up, too."""
    parts, order, similar = problem(4), [], StoredPoints.similar
    memory = memory_of(parts, MemorySettings(10, 4.0, 0.5, 0.5))
    points = csr_matrix(parts["points"])
    expected = memory.additions(points, parts["queries"])

    class OnDevice:
        def __array__(self, *_: object, **__: object) -> np.ndarray:
            order.append("read")
            return np.concatenate([parts["queries"], np.full((3, WIDTH), np.nan, np.float32)])

    def searched(*given: Any) -> Neighbors:
        order.append("searched")
        return similar(*given)

    monkeypatch.setattr(StoredPoints, "similar", searched)
    found = memory.additions(points, OnDevice())
    assert order == ["searched", "read"]
    np.testing.assert_array_equal(found.toarray(), expected.toarray())


@pytest.mark.parametrize("found", [20, 200])
@pytest.mark.parametrize(
    "settings",
    [
        MemorySettings(10, 1.0, 1.0, 3.0),
        MemorySettings(10, 4.0, 0.5, 0.5),
        MemorySettings(100, 1.0, 0.0, 2.0),
    ],
)
def test_additions_are_the_definition(
    settings: MemorySettings, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NUM_FOUND", found)
    parts = problem(4)
    memory = memory_of(parts, settings)
    added = memory.additions(csr_matrix(parts["points"]), parts["queries"])
    expected = by_definition(parts, settings, found)
    assert added.dtype == np.float32 and added.shape == (9, LABELS)
    # Stored queries have 11 bits of precision.
    np.testing.assert_allclose(added.toarray(), expected, atol=5e-3 * settings.weight)
    assert expected.max() > 0.2 * settings.weight


def test_a_point_without_features_gets_nothing() -> None:
    memory = memory_of(problem(1), MemorySettings(10, 1.0, 1.0, 3.0))
    added = memory.additions(csr_matrix((2, FEATURES), dtype=np.float32), None)
    assert added.shape == (2, LABELS) and added.nnz == 0


def test_room_for_additions_by_hand() -> None:
    """Of ten points one has 9 labels and the others have one: two have 10 at most, or 3.6."""
    labels = np.zeros((10, LABELS), np.float32)
    labels[:, 0] = labels[3, :9] = 1
    stored = csr_matrix(np.eye(10, FEATURES, dtype=np.float32))
    settings = MemorySettings(2, 1.0, 1.0, 1.0)
    memory = Memory(stored, csr_matrix(labels), None, np.arange(10), settings)
    assert memory.room_for_additions(1, LABELS) == 10
    assert memory.room_for_additions(5, 4) == 5 * 4  # of 4 labels
    assert memory.room_for_additions(6_000, LABELS) == 60_000
    assert memory.room_for_additions(8_000, LABELS) == 65_536  # twice 3.6 a point are fewer
    assert memory.room_for_additions(100_000, LABELS) == 720_000


def test_lengths_of_rows_do_not_matter() -> None:
    parts = problem(2)
    settings = MemorySettings(10, 1.0, 0.5, 1.0)
    before = memory_of(parts, settings).additions(csr_matrix(parts["points"]), parts["queries"])
    longer = {**parts, "stored": 3 * parts["stored"]}
    after = memory_of(longer, settings).additions(
        csr_matrix(7 * parts["points"]), 5 * parts["queries"]
    )
    np.testing.assert_allclose(after.toarray(), before.toarray(), atol=1e-5)


@pytest.mark.parametrize("count", [1, 5, 500])
def test_nearest_by_brute_force(count: int) -> None:
    parts = problem(5)
    cosines = unit(parts["points"].astype(float)) @ unit(parts["stored"].astype(float)).T
    by_feature = unit_rows(csr_matrix(parts["stored"])).T.tocsr()
    found = nearest(unit_rows(csr_matrix(parts["points"])), by_feature, count)
    assert found.ids.shape == found.cosines.shape == (9, count)
    for row in range(9):
        ids = found.ids[row][found.ids[row] >= 0]
        expected = np.argsort(-cosines[row], kind="stable")
        expected = expected[cosines[row, expected] > 0][:count]
        assert sorted(ids.tolist()) == sorted(expected.tolist())
        np.testing.assert_allclose(found.cosines[row, : len(ids)], cosines[row, ids], rtol=1e-5)
        assert (found.cosines[row, len(ids) :] == 0).all()


def test_float16_numbers_are_the_same_in_float32() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    found, expected = as_float32(finite), finite.astype(np.float32)
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))  # -0, too


def test_lengths_beyond_float32_are_no_infinity() -> None:
    features = csr_matrix(
        np.array([[3e20, 4e20], [3e-25, 4e-25], [0, 0], [3e38, 3e38]], np.float32)
    )
    found = unit_rows(features)
    assert found.dtype == np.float32
    half = np.sqrt(0.5)
    expected = [[0.6, 0.8], [0.6, 0.8], [0, 0], [half, half]]
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-6)


def test_equal_votes_are_those_of_the_lowest_numbers() -> None:
    same = csr_matrix(np.ones((6, 2), np.float32))
    found = nearest(unit_rows(same[:1]), unit_rows(same).T.tocsr(), 6)
    assert found.ids.tolist() == [[0, 1, 2, 3, 4, 5]]
    of_labels = votes(found, csr_matrix(np.eye(6, dtype=np.float32)), 2, 1.0)
    np.testing.assert_allclose(of_labels.toarray(), [[0.5, 0.5, 0, 0, 0, 0]])


def test_witnesses_are_the_voters_with_the_label() -> None:
    parts = problem(6)
    memory = memory_of(parts, MemorySettings(10, 1.0, 0.5, 2.0))
    points = csr_matrix(parts["points"])
    answers = np.tile(np.array([0, 5, -1], np.int32), (9, 1))
    told = memory.witnesses(points, parts["queries"], answers)
    of_features = unit(parts["points"].astype(float)) @ unit(parts["stored"].astype(float)).T
    of_queries = unit(parts["queries"].astype(float)) @ unit(parts["stored_queries"]).T
    alike = np.where(of_features > 0, 0.5 * of_features + 0.5 * of_queries, -1)
    some = 0
    for point in range(9):
        voters = np.argsort(-alike[point], kind="stable")[:10]
        for place, label in enumerate((0, 5)):
            expected = [v for v in voters if alike[point, v] > 0 and parts["labels"][v, label]][:3]
            found = told[point][place]
            assert [one.row for one in found] == [2 * v for v in expected]
            for one, voter in zip(found, expected, strict=True):
                assert one.similarity == pytest.approx(alike[point, voter], abs=2e-3)
                products = parts["points"][point] * parts["stored"][voter]
                shared = min(5, np.count_nonzero(products))
                assert one.features == np.argsort(-products, kind="stable")[:shared].tolist()
                some += 1
        assert told[point][2] == []
    assert some > 10


def test_places_where_no_neighbour_was_found_hide_no_witness() -> None:
    """One point of three shares a feature; the last is alike by its query, and shares none."""
    stored = csr_matrix(np.array([[1.0, 3.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], np.float32))
    queries = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]], np.float16)
    memory = Memory(
        stored, csr_matrix(np.eye(3, dtype=np.float32)), queries, np.arange(3),
        MemorySettings(1, 1.0, 0.5, 2.0),
    )  # fmt: skip
    point, query = csr_matrix(np.array([[1.0, 0.0, 0.0]], np.float32)), np.array([[1.0, 0.0]])
    ((told,),) = memory.witnesses(point, query.astype(np.float32), np.zeros((1, 1), np.int32))
    assert [(one.row, one.features) for one in told] == [(0, [0])]
    assert told[0].similarity == pytest.approx(0.5 / np.sqrt(10))


def test_a_point_of_weight_2_votes_as_if_it_were_there_twice() -> None:
    """All stored points vote, so that no repeated one takes the place of another."""
    settings = MemorySettings(200, 2.0, 0.5, 3.0)
    parts = problem(6)
    weights = np.random.default_rng(0).integers(1, 4, STORED)
    again = {
        name: np.repeat(parts[name], weights, axis=0)
        for name in ("stored", "labels", "stored_queries")
    }
    memory = dataclasses.replace(memory_of(parts, settings), weights=weights.astype(np.float32))
    added = memory.additions(csr_matrix(parts["points"]), parts["queries"])
    wide = dataclasses.replace(settings, neighbors=10**6)
    expected = by_definition({**parts, **again}, wide, found=10**6)
    np.testing.assert_allclose(added.toarray(), expected, atol=5e-3 * settings.weight)
    plain = memory_of(parts, settings).additions(csr_matrix(parts["points"]), parts["queries"])
    assert np.abs(added - plain).max() > 0.1
    assert memory.nbytes == memory_of(parts, settings).nbytes + 4 * STORED


@pytest.mark.parametrize("count", [1, 31, 65, 100])
def test_joint_cosines_by_brute_force_in_shares_of_any_size(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for where in ("snm.machine.cores", "snm.memory.memory"):
        monkeypatch.setattr(f"{where}.num_cores", lambda: 3)
    rng = np.random.default_rng(count)
    stored = unit(rng.standard_normal((40, 8))).astype(np.float16)
    queries = rng.standard_normal((count, 8)).astype(np.float32)
    queries[0] = 0
    ids = rng.integers(0, 40, (count, 5)).astype(np.int32)
    found = joint_cosines(ids, queries, stored)
    expected = np.einsum("mcd,md->mc", stored[ids].astype(np.float64), unit(queries))
    np.testing.assert_allclose(found, expected, atol=1e-6)
