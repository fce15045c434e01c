"""Compares metrics with plain Python on random cases, and with hand arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from snm.evaluation.filters import first_unfiltered, max_filtered, remove_filtered
from snm.evaluation.metrics import Metrics, frequency_groups, propensities


def csr(rows: list[list[int]], num_labels: int) -> sp.csr_array:
    dense = np.zeros((len(rows), num_labels), np.float32)
    for i, row in enumerate(rows):
        dense[i, row] = 1.0
    return sp.csr_array(dense)


def brute_force(answers, truth, num_labels, ks, propensity, groups, num_groups):
    """Computes the metrics from their definitions, one point, rank and label at a time."""
    used = [(a, t) for a, t in zip(answers, truth, strict=True) if t]
    out = {"points": len(used), "points_without_labels": len(truth) - len(used)}
    by_group = {}
    for k in ks:
        p, r, f, n, got, best, dgot, dbest = [], [], [], [], 0.0, 0.0, 0.0, 0.0
        found, seen = set(), set()
        hits, total = [0] * num_groups, [0] * num_groups
        for a, t in used:
            right = [x in t for x in a[:k]]
            p.append(sum(right) / k)
            r.append(sum(right) / len(t))
            f.append(2 * p[-1] * r[-1] / (p[-1] + r[-1]) if any(right) else 0.0)
            dcg = sum(1 / math.log2(i + 2) for i in range(k) if right[i])
            n.append(dcg / sum(1 / math.log2(i + 2) for i in range(min(k, len(t)))))
            worth = sorted((1 / propensity[x] for x in t), reverse=True)[:k]
            got += sum(1 / propensity[x] for x in a[:k] if x in t)
            best += sum(worth)
            dgot += sum(1 / propensity[a[i]] / math.log2(i + 2) for i in range(k) if right[i])
            dbest += sum(w / math.log2(i + 2) for i, w in enumerate(worth))
            found |= set(a[:k]) & t
            seen |= t
            for x in t:
                total[groups[x]] += 1
                hits[groups[x]] += x in a[:k]
        if used:
            out |= {
                f"P@{k}": 100 * sum(p) / len(p),
                f"R@{k}": 100 * sum(r) / len(r),
                f"F1@{k}": 100 * sum(f) / len(f),
                f"nDCG@{k}": 100 * sum(n) / len(n),
                f"PSP@{k}": 100 * got / best,
                f"PSnDCG@{k}": 100 * dgot / dbest,
                f"coverage@{k}": 100 * len(found) / len(seen),
            }
        by_group[k] = [
            {
                "labels": sum(1 for x in range(num_labels) if groups[x] == g),
                "occurrences": total[g],
                "recall": 100 * hits[g] / max(total[g], 1),
                "precision": 100 * hits[g] / (k * max(len(used), 1)),
            }
            for g in range(num_groups)
        ]
    return out, by_group


@st.composite
def cases(draw):
    num_labels = draw(st.integers(1, 9))
    n = draw(st.integers(0, 6))
    truth = [draw(st.sets(st.integers(0, num_labels - 1))) for _ in range(n)]
    answers = []
    for _ in range(n):
        row = draw(st.permutations(range(num_labels)))[: draw(st.integers(0, 5))]
        answers.append(list(row) + [-1] * (5 - len(row)))
    frequency = np.array([draw(st.integers(0, 30)) for _ in range(num_labels)])
    return num_labels, truth, answers, frequency


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(0, 6))
def test_equals_brute_force_for_any_batches(case, cut):
    num_labels, truth, answers, frequency = case
    ks, propensity = (1, 3, 5), propensities(frequency, 40)
    groups = frequency_groups(frequency)
    num_groups = int(groups.max()) + 1
    start = Metrics.start(num_labels, propensity=propensity, groups=groups)
    ids = np.array(answers, np.int32).reshape(-1, 5)
    labels = csr([sorted(t) for t in truth], num_labels)
    whole = start.update(ids, labels)
    expected, expected_groups = brute_force(
        answers, truth, num_labels, ks, propensity, groups, num_groups
    )
    assert whole.result() == pytest.approx(expected, rel=1e-12)
    for k in ks:
        for got, want in zip(whole.by_group(k), expected_groups[k], strict=True):
            assert got == pytest.approx(want, rel=1e-12)
    parts = start.update(ids[cut:], labels[cut:]).update(ids[:cut], labels[:cut])
    assert parts.result() == whole.result()  # to the last bit
    assert parts.by_group(5) == whole.by_group(5)
    assert start.result() == {"points": 0, "points_without_labels": 0}


def test_arithmetic_by_hand():
    # Point 0 has labels 0, 1: answers hit, miss, hit. Point 1 has label 2: miss, hit, none.
    # Point 2 has no labels and is ignored.
    labels = csr([[0, 1], [2], []], 4)
    ids = np.array([[0, 3, 1], [1, 2, -1], [0, 1, 2]])
    propensity = np.array([0.5, 0.25, 1.0, 1.0])
    result = Metrics.start(4, ks=(1, 3), propensity=propensity).update(ids, labels).result()
    assert result == pytest.approx(
        {
            "points": 2,
            "points_without_labels": 1,
            "P@1": 50.0,  # (1 + 0) / 2
            "P@3": 50.0,  # (2/3 + 1/3) / 2
            "R@1": 25.0,  # (1/2 + 0) / 2
            "R@3": 100.0,
            "F1@1": 100 / 3,  # (2 / 3 + 0) / 2
            "F1@3": 65.0,  # (4 / 5 + 2 / 4) / 2
            "nDCG@1": 50.0,
            "nDCG@3": 50.0 * (1.5 / (1 + 1 / math.log2(3)) + 1 / math.log2(3)),
            "PSP@1": 100 * 2 / (4 + 1),  # label 0 is worth 2; best: label 1 worth 4, label 2 1
            "PSP@3": 100.0,
            "PSnDCG@1": 100 * 2 / 5,
            "PSnDCG@3": 100
            * (2 + 4 / math.log2(4) + 1 / math.log2(3))
            / (4 + 2 / math.log2(3) + 1),
            "coverage@1": 100 / 3,
            "coverage@3": 100.0,
        },
        rel=1e-12,
    )


def test_perfect_predictions_score_100():
    labels = csr([[0, 1, 2], [3], [1, 4, 5, 6, 7, 2]], 8)
    ids = np.array([[2, 1, 0, 3, 4], [3, 0, 1, 2, 4], [7, 6, 5, 4, 2]])
    propensity = np.linspace(1.0, 0.3, 8)  # so the five labels of point 2 are its best
    result = Metrics.start(8, propensity=propensity).update(ids, labels).result()
    for name in ("P@1", "nDCG@1", "nDCG@3", "nDCG@5", "PSP@5", "PSnDCG@1", "PSnDCG@5"):
        assert result[name] == pytest.approx(100.0, rel=1e-12), name


def test_propensities_by_hand():
    # N = e^3 would give C = 2 (b + 1)^a; N = 20 gives log 20 - 1.
    c = (math.log(20) - 1) * 2.5**0.55
    expected = [1 / (1 + c * (f + 1.5) ** -0.55) for f in (0, 1, 7)]
    np.testing.assert_allclose(propensities(np.array([0, 1, 7]), 20), expected, rtol=1e-14)
    np.testing.assert_array_equal(propensities(np.array([0, 1]), 2), [1.0, 1.0])
    with pytest.raises(ValueError, match="num_points 0"):
        propensities(np.array([1]), 0)


def test_groups_are_of_equal_size_and_ordered_by_frequency():
    frequency = np.random.default_rng(0).zipf(1.5, 1003)
    groups = frequency_groups(frequency)
    sizes = np.bincount(groups)
    assert len(sizes) == 10 and sizes.max() - sizes.min() <= 1
    for g in range(9):
        assert frequency[groups == g].max() <= frequency[groups == g + 1].min()
    ties = frequency_groups(np.zeros(20, int))
    np.testing.assert_array_equal(ties, np.arange(20) // 2)


def test_groups_add_up_to_precision():
    rng = np.random.default_rng(1)
    labels = sp.random_array((50, 30), density=0.1, rng=rng, format="csr")
    ids = np.argsort(rng.random((50, 30)), axis=1)[:, :5]
    m = Metrics.start(30, groups=frequency_groups(np.arange(30))).update(ids, labels)
    assert sum(g["precision"] for g in m.by_group(5)) == pytest.approx(m.result()["P@5"])
    assert "PSP@1" not in m.result()
    assert Metrics.start(30).update(ids, labels).by_group(5) == []


def test_rows_left_out_do_not_count():
    labels = csr([[0], [1], []], 3)
    ids = np.array([[0], [0], [0]])
    start = Metrics.start(3, ks=(1,))
    part = start.update(ids, labels, leave_out=np.array([False, True, True]))
    assert part.result() == start.update(ids[:1], labels[:1]).result()
    assert part.result()["points_without_labels"] == 0


def test_zeros_and_repeated_entries_are_not_labels():
    stored = sp.csr_array(
        (np.array([1.0, 0.0, 1.0]), np.array([2, 1, 2]), np.array([0, 3])), shape=(1, 3)
    )
    result = Metrics.start(3, ks=(1, 2)).update(np.array([[1, 2]]), stored).result()
    assert (result["P@1"], result["R@2"]) == (0.0, 100.0)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[0, 0]], "twice"),
        ([[0, 3]], "0 to 3"),
        ([[-2, 1]], "-2 to 1"),
        ([[0]], "found"),
        ([[0, 1], [0, 1]], "found"),
    ],
)
def test_invalid_predictions_are_refused(ids, message):
    with pytest.raises(ValueError, match=message):
        Metrics.start(3, ks=(1, 2)).update(np.array(ids), csr([[0]], 3))


def test_invalid_settings_are_refused():
    with pytest.raises(ValueError, match="ks"):
        Metrics.start(3, ks=(0, 1))
    with pytest.raises(ValueError, match="propensity"):
        Metrics.start(3, propensity=np.ones(2))
    with pytest.raises(ValueError, match="k must be"):
        Metrics.start(3, ks=(1,), groups=np.zeros(3, int)).by_group(2)


@settings(max_examples=50, deadline=None)
@given(cases(), st.data())
def test_filter_equals_brute_force(case, data):
    num_labels, truth, answers, _ = case
    k = 3
    pair = st.tuples(st.integers(0, 12), st.integers(0, num_labels - 1))
    pairs = data.draw(st.lists(pair, max_size=20))
    filtered = np.array(pairs, np.int64).reshape(-1, 2)
    predicted = np.array(answers, np.int64).reshape(-1, 5)
    ids, columns = first_unfiltered(predicted, filtered, num_labels, k)
    labels = remove_filtered(csr([sorted(t) for t in truth], num_labels), filtered)
    for i, (a, t) in enumerate(zip(answers, truth, strict=True)):
        kept = [x for x in a if x >= 0 and (i, x) not in pairs][:k]
        assert ids[i].tolist() == kept + [-1] * (k - len(kept))
        assert predicted[i, columns[i, : len(kept)]].tolist() == kept
        assert set(labels[[i]].indices) == {x for x in t if (i, x) not in pairs}
    assert ids.shape == (len(truth), k) and labels.shape == (len(truth), num_labels)


def test_largest_number_of_filtered_labels_of_a_point():
    assert max_filtered(np.array([[0, 0], [0, 1], [5, 1]])) == 2
    assert max_filtered(np.zeros((0, 2), int)) == 0


def test_what_is_no_id_no_mask_and_no_propensity_is_refused():
    start, truth = Metrics.start(4, ks=[1]), csr([[0], [1]], 4)
    for wrong in (np.array([[0.3], [1.2]]), np.array([[True], [False]])):  # scores, say
        with pytest.raises(ValueError, match="topk_ids must be integers, found"):
            start.update(wrong, truth)
    for wrong in ([0, 1], np.array([True]), [1]):  # rows, or of other points
        with pytest.raises(ValueError, match=r"leave_out must be bool \[2\], found"):
            start.update(np.array([[0], [1]]), truth, leave_out=wrong)
    for wrong in ([1, 2, 1, 1], [1, 0, 1, 1], [1, -0.5, 1, 1], [1, np.nan, 1, 1]):
        with pytest.raises(ValueError, match="propensities must be above 0 and at most 1"):
            Metrics.start(4, propensity=wrong)


@pytest.mark.parametrize(("k", "num_groups"), [(40_000, 2), (1, 40_000)])
def test_many_answers_or_groups(k, num_groups):
    """More than an int16 holds."""
    count = 40_000
    groups = np.arange(count) * num_groups // count
    answers = np.roll(np.arange(count), k)[None, :k]  # the last of them is the last label
    found = Metrics.start(count, ks=[k], groups=groups).update(answers, csr([[count - 1]], count))
    assert found.result()[f"R@{k}"] == found.result()[f"coverage@{k}"] == 100
    assert found.by_group(k)[-1]["recall"] == 100
