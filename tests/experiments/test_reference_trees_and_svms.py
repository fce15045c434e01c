"""PfastreXML and PPD-Sparse against brute force and a generic solver, on tiny data."""

import itertools

import numpy as np
import pytest
from reference_problem import problem
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from experiments.references import ppd_sparse
from experiments.references.pfastrexml import PfastreXML, dcg_sides, l1_separator, normalized
from experiments.references.ppd_sparse import PPDSparse
from snm.evaluation.metrics import propensities

# -- PfastreXML ----------------------------------------------------------------------------------


def _ndcg(order: list[int], gains: np.ndarray) -> float:
    return sum(gains[label] / np.log2(place + 2) for place, label in enumerate(order))


def test_gains_of_a_perfect_ranking_add_up_to_1() -> None:
    _, y = problem(30, 5, 9)
    gains = normalized(y).toarray()
    for row, of_point in enumerate(y.toarray()):
        if of_point.any():
            best = np.argsort(-of_point, kind="stable").tolist()
            assert _ndcg(best, gains[row]) == pytest.approx(1)
    np.testing.assert_allclose(normalized(3 * y).toarray(), 3 * gains)


def test_sides_are_where_neither_rankings_nor_sides_can_be_better() -> None:
    rng = np.random.default_rng(7)
    for _ in range(10):
        labels = rng.random((8, 4)) < 0.4
        gains = normalized(csr_matrix(labels * (1 + rng.random(4))))
        dense, start = gains.toarray(), rng.random(8) < 0.5
        right = dcg_sides(gains, start)
        orders = [list(order) for order in itertools.permutations(range(4))]
        values = np.array([[_ndcg(order, point) for order in orders] for point in dense])

        def best(side: np.ndarray, values: np.ndarray = values) -> float:
            return float(values[side].sum(axis=0).max()) + float(values[~side].sum(axis=0).max())

        assert best(right) >= best(start) - 1e-9
        # The rankings by summed gains are the best of all 24, and no point gains by moving.
        chosen = [
            _ndcg_order(dense[side].sum(axis=0)) if side.any() else _ndcg_order(np.zeros(4))
            for side in (~right, right)
        ]
        both = np.array([[_ndcg(order, point) for order in chosen] for point in dense])
        assert both[~right, 0].sum() + both[right, 1].sum() == pytest.approx(best(right))
        stays = np.take_along_axis(both, right[:, None].astype(int), axis=1)[:, 0]
        assert (stays >= both.max(axis=1) - 1e-9).all()


@pytest.mark.parametrize("points", [12, 150])
def test_the_separator_is_that_of_scikit_learn(points: int) -> None:
    x, y = problem(points, 9, 6)
    right = y.toarray()[:, np.argmax(y.sum(axis=0))] > 0
    assert right.any() and not right.all()
    weight = {False: points / np.sum(~right), True: points / np.sum(right)}
    model = LogisticRegression(l1_ratio=1, solver="liblinear", C=2.0, class_weight=weight,
                               tol=0.01, random_state=0).fit(x, right)  # fmt: skip
    weights, constant = l1_separator(x.astype(np.float64), right, 2.0)
    assert (weights != 0).any()
    np.testing.assert_array_equal(weights, model.coef_[0])
    assert constant == model.intercept_[0]


def _ndcg_order(sums: np.ndarray) -> list[int]:
    return np.argsort(-sums, kind="stable").tolist()


def test_trees_keep_the_best_labels_of_the_points_that_reach_a_leaf() -> None:
    x, y = problem(120, 10, 12)
    model = PfastreXML(trees=2, leaf_points=10, leaf_labels=3, alpha=1).fit(x, y)
    frequency = y.toarray().sum(axis=0)
    gains = y.toarray() / propensities(frequency, 120)
    for tree in model.grown:
        assert len(tree.nodes) > 3 and tree.leaves.shape[0] == len(tree.nodes) + 1
        leaves = tree.leaves_of(x)
        for leaf in range(tree.leaves.shape[0]):
            here = gains[leaves == leaf]
            assert len(here)
            means = here.mean(axis=0)
            kept = tree.leaves[leaf].toarray()[0]
            np.testing.assert_allclose(np.sort(kept)[-3:], np.sort(means)[-3:])
            assert ((kept == 0) | np.isclose(kept, means)).all()

        def walked(point: np.ndarray, tree=tree) -> int:
            number = 0
            while number >= 0:
                node = tree.nodes[number]
                score = point[node.columns] @ node.weights + node.constant
                number = node.children[int(score >= 0)]
            return -1 - number

        assert [walked(point) for point in x.toarray().astype(float)] == leaves.tolist()


def test_labels_of_near_points_come_first() -> None:
    x, y = problem(90, 10, 12)
    other = problem(20, 10, 12, seed=8)[0]
    model = PfastreXML(trees=3, alpha=0.6, gamma=4).fit(x, y)
    dense = y.toarray()
    votes = sum(tree.leaves[tree.leaves_of(other)].toarray() for tree in model.grown) / 3
    means = np.stack([x.toarray()[dense[:, j] > 0].mean(axis=0) for j in range(1, 12)])
    answers = model.predict(other, 4)
    for row, point in enumerate(other.toarray()):
        v = np.exp(0.5 * 4 * np.sum((point - means) ** 2, axis=1))
        with np.errstate(divide="ignore"):
            scores = 0.6 * np.log(votes[row, 1:]) + 0.4 * np.log(1 / (1 + v))
        best = np.argsort(-scores)[:4] + 1
        known = np.isfinite(np.sort(scores)[::-1][:4])
        np.testing.assert_array_equal(answers[row], np.where(known, best, -1))


# -- PPD-Sparse ----------------------------------------------------------------------------------


def test_ppd_sparse_minimizes_the_objective_of_each_label(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = problem(40, 6, 7)
    dense = np.hstack([x.toarray(), np.ones((40, 1))]).astype(float)
    monkeypatch.setattr(ppd_sparse, "_WEIGHTS", 3 * 7)  # three labels a block
    model = PPDSparse(penalty=0.3, C=0.5, visits=40, tolerance=1e-4).fit(x, y)
    assert model.known.tolist() == list(range(1, 7))
    weights = model.weights.toarray().astype(float)
    assert (weights[:-1] == 0).any() and (weights != 0).all(axis=0).sum() < 6
    for place, label in enumerate(model.known):
        signs = 2 * y.toarray()[:, label].astype(float) - 1

        def value(pq: np.ndarray, signs: np.ndarray = signs) -> tuple[float, np.ndarray]:
            # w = p - q with p, q >= 0; the last weight is not in the L1 norm.
            w = pq[:7] - pq[7:]
            short = np.maximum(1 - signs * (dense @ w), 0)
            penalty = np.array([0.3] * 6 + [0])
            slope = w - 2 * 0.5 * dense.T @ (signs * short)
            loss = 0.5 * w @ w + penalty @ (pq[:7] + pq[7:]) + 0.5 * short @ short
            return loss, np.concatenate([slope + penalty, penalty - slope])

        best = minimize(value, np.full(14, 0.1), jac=True, bounds=[(0, None)] * 14,
                        method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-9})  # fmt: skip
        np.testing.assert_allclose(weights[:, place], best.x[:7] - best.x[7:], atol=2e-3)
    scores = dense @ weights
    found = model.predict(x, 7)
    np.testing.assert_array_equal(found[:, 0], model.known[np.argmax(scores, axis=1)])
    assert (found[:, -1] == 0).all()  # the label without points
