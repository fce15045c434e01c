"""Labels that are no answers, against scores of all labels in float64."""

import dataclasses

import numpy as np
import pytest
from devices import mesh_here
from prediction.candidates.test_candidates import (
    CASES,
    POINTS,
    K,
    check,
    points,
    predictor_of,
    shared,
)
from scipy import sparse

from snm.errors import InputError
from snm.prediction.calibration import Calibration, Curve
from snm.prediction.candidates.excluded import parse_excluded
from snm.prediction.programs import jitted_top

CURVE = Curve("logistic", (1.0, -0.5, 0.1, 0.0), (-5.0, 0.0, 9.0), (0.05, 0.3, 0.95), (-1e9, 1e9))
LIKELY = Calibration(9, CURVE, dataclasses.replace(CURVE, weights=(1.0, 0.0, 0.0, 0.0)))


class AllByModel:
    """An index that misses nothing: it scores all labels."""

    def __init__(self, predictor):
        self._head = predictor.state.head

    def search(self, queries, k):
        scores = queries @ np.asarray(self._head.table.rows).T
        scores += 0 if self._head.bias is None else np.asarray(self._head.bias)
        return np.argsort(-scores, axis=1, kind="stable")[:, :k].astype(np.int32)


def gone_from(each, seed=6):
    """bool [POINTS, K], labels to leave out, `each` of a point at most."""
    rng = np.random.default_rng(seed)
    gone = np.zeros((POINTS, K), bool)
    for row in gone:
        row[rng.choice(K, rng.integers(each + 1), replace=False)] = True
    return gone


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("indexed", [False, True], ids=["all scored", "an index"])
def test_the_best_of_the_others(case, indexed):
    predictor, features, k = predictor_of(**case), points(POINTS, 4), 7
    if indexed:
        predictor = dataclasses.replace(predictor, index=AllByModel(predictor))
    best, _ = predictor.predict(features, 40)
    for size in (1, 9, 300):  # 300 are more than are found and dropped
        gone = np.union1d(best[0, :size], shared(size))
        allowed = ~np.isin(np.arange(K), gone)[None, :].repeat(POINTS, 0)
        twice = np.concatenate([gone, gone[:2]])
        check(predictor, predictor.predict(features, k, exclude=twice), features, allowed, k)
    gone = gone_from(20)
    np.put_along_axis(gone[::2], best[::2, :9], True, axis=1)
    gone[3] = True  # which leaves no label
    for exclude in (sparse.csr_matrix(gone), [np.flatnonzero(row).tolist() for row in gone]):
        found = predictor.predict(features, k, exclude=exclude)
        check(predictor, found, features, ~gone, k)
    blocks = list(predictor.top(features, k, exclude=sparse.csr_matrix(gone)))
    assert [len(labels) for labels, _ in blocks] == [16, 14]
    np.testing.assert_array_equal(np.concatenate([labels for labels, _ in blocks]), found[0])


@pytest.mark.parametrize("case", CASES)
def test_the_best_of_some_labels_without_others(case):
    predictor, features = predictor_of(**case), points(POINTS, 4)
    of_all, each, gone = shared(40), gone_from(80, seed=7), gone_from(300)
    among_all = np.isin(np.arange(K), of_all)[None, :].repeat(POINTS, 0)
    without = np.append(of_all[:30], shared(9, seed=8))
    gone_of_all = np.isin(np.arange(K), without)[None, :].repeat(POINTS, 0)
    for labels, allowed in ((of_all, among_all), (sparse.csr_matrix(each), each)):
        for exclude, gone_too in ((without, gone_of_all), (sparse.csr_matrix(gone), gone)):
            found = predictor.predict(features, 12, labels, exclude)
            check(predictor, found, features, allowed & ~gone_too, 12)


def test_what_is_left_out_does_not_change_the_probabilities_of_the_others():
    predictor, features = predictor_of(), points(POINTS, 4)
    predictor = dataclasses.replace(predictor, calibration=LIKELY)
    every, p_of_all = predictor.predict_proba(features, 400)
    cut = float(np.median(p_of_all[:, :4]))
    for gone in (every[0, :2], shared(200)):
        found, p = predictor.predict_proba(features, 4, exclude=gone)
        left = [np.flatnonzero(~np.isin(row, gone))[:4] for row in every]
        np.testing.assert_array_equal(found, np.take_along_axis(every, np.array(left), axis=1))
        expected = np.take_along_axis(p_of_all, np.array(left), axis=1)
        np.testing.assert_allclose(p, expected, rtol=1e-5)
        likely, of_likely = predictor.predict_proba(features, 4, exclude=gone, threshold=cut)
        np.testing.assert_array_equal(likely, np.where(p >= cut, found, -1))
        np.testing.assert_allclose(of_likely, np.where(p >= cut, p, 0), rtol=1e-5)
        blocks = list(predictor.top_proba(features, 4, exclude=gone))
        np.testing.assert_array_equal(np.concatenate([labels for labels, _, _ in blocks]), found)
        scores = predictor.predict(features, 4, exclude=gone)[1]
        np.testing.assert_allclose(np.concatenate([x for _, x, _ in blocks]), scores, rtol=1e-5)


def test_nothing_to_leave_out():
    predictor, features = predictor_of(memory=False), points(POINTS, 4)
    expected = predictor.predict(features, 3)
    for exclude in (None, [], (), np.zeros(0, np.int64), [[]] * POINTS, sparse.csr_matrix((30, K))):
        for one, other in zip(predictor.predict(features, 3, exclude=exclude), expected,
                              strict=True):  # fmt: skip
            np.testing.assert_array_equal(one, other)
    labels, scores = predictor.predict(features[:0], 3, exclude=[])
    assert labels.shape == scores.shape == (0, 3)
    every = predictor.predict(features, 3, exclude=range(K))
    assert (every[0] == -1).all() and (every[1] < -1e29).all()


def test_few_programs_find_the_best_of_the_others():
    predictor, features = predictor_of(memory=False), points(POINTS, 4)
    jitted_top.cache_clear()
    for size in range(1, 60):
        predictor.predict(features, 5, exclude=range(size))
    assert jitted_top.cache_info().currsize == 4  # 8, 16, 32 and 64 labels
    assert parse_excluded([3], 1, 600).to_find(5, 600) == 8
    assert parse_excluded(range(590), 1, 600).to_find(5, 600) == 600


@pytest.mark.parametrize(
    ("exclude", "said"),
    [
        ([1, 600], "label 600, expected an id from 0 to 599"),
        (["name"], "unknown label 'name', expected an id from 0 to 599: the labels have no names"),
        ("name", "one text, expected a sequence of ids or names"),
        (3, "found 3, expected ids of labels"),
        ([[1], [2]], "found labels of 2 points, expected of 30, a sequence of ids for each point"),
        (sparse.csr_matrix((30, 599)), "a matrix of shape (30, 599), expected (30, 600)"),
    ],
)
def test_what_cannot_be_left_out(exclude, said):
    with pytest.raises(InputError) as error:
        predictor_of(memory=False).predict(points(POINTS, 4), 2, exclude=exclude)
    assert str(error.value).startswith("exclude: ") and said in str(error.value)


@pytest.mark.slow
def test_on_a_mesh():
    mesh, features = mesh_here("data=2,label=4", K, 16), points(POINTS, 4)
    one, many = predictor_of(members=1), predictor_of(members=1, mesh=mesh)
    for exclude in (shared(9), shared(300), sparse.csr_matrix(gone_from(20))):
        expected, found = (each.predict(features, 8, exclude=exclude) for each in (one, many))
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-4, atol=1e-5)
