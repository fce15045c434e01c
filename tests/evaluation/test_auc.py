"""Compares the AUC with its definition on the whole matrix of scores."""

import numpy as np
import pytest
import tiny
from scipy import sparse

import snm
from snm.data.dataset import Points
from snm.evaluation.auc import Areas
from snm.evaluation.evaluate import Measures, evaluate_points
from snm.evaluation.metrics import metric_names
from snm.model import concordant_counts
from snm.theory import auc
from snm.trainer.evaluate_run import evaluate
from snm.trainer.training import train

K, POINTS = 53, 7


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    """A model whose labels 40 .. 52 have the rows and biases of 0 .. 12, so that scores tie."""
    import dataclasses

    import jax.numpy as jnp

    data = snm.generate(points=60, test_points=0, features=30, labels=K, seed=3)
    folder = tmp_path_factory.mktemp("areas") / "run"
    train(data, dataclasses.replace(tiny.CONFIG, epochs=1), folder)
    found = snm.load(folder)
    rows, bias = (np.array(x) for x in (found.state.head.table.rows, found.state.head.bias))
    rows[40:], bias[40:] = rows[:13], bias[:13]
    head = dataclasses.replace(
        found.state.head,
        table=dataclasses.replace(found.state.head.table, rows=jnp.asarray(rows)),
        bias=jnp.asarray(bias),
    )
    return dataclasses.replace(found, state=dataclasses.replace(found.state, head=head))


def made(seed=0, pairs=None):
    """Points with 0, K, 1, 13 and other numbers of labels."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((POINTS, K), np.float32)
    for row, count in enumerate((0, K, 1, 13, 5, 30, 2)):
        truth[row, rng.choice(K, count, replace=False)] = 1
    features = sparse.csr_matrix((rng.random((POINTS, 30)) < 0.3).astype(np.float32))
    return Points(features, sparse.csr_matrix(truth), filter=pairs), truth


def whole_scores(predictor, features):
    labels, scores = predictor.predict(features, K)
    out = np.empty((features.shape[0], K), np.float32)
    np.put_along_axis(out, labels, scores, axis=1)
    return out


def score(predictor, points, **options):
    return evaluate_points(predictor, points, None, Measures(auc=True), **options)


@pytest.mark.parametrize("block", [4096, 16], ids=["one block", "blocks, the last overlapping"])
def test_auc_is_the_mean_over_points(predictor, block, monkeypatch):
    from snm.prediction.programs import jitted_concordant_counts

    monkeypatch.setattr(concordant_counts, "_BLOCK", block)
    jitted_concordant_counts.cache_clear()
    points, truth = made()
    scores = whole_scores(predictor, points.features)
    ties = sum(len(np.unique(row)) < K for row in scores)
    assert ties == POINTS  # equal rows score the same, to the last bit
    each = [auc.empirical_auc(scores[i], truth[i] > 0) for i in range(2, POINTS)]
    assert score(predictor, points)["metrics"]["AUC"] == pytest.approx(
        100 * np.mean(each), rel=1e-12
    )


def test_filtered_pairs_are_neither_relevant_nor_irrelevant(predictor):
    from snm.prediction.programs import jitted_concordant_counts

    jitted_concordant_counts.cache_clear()
    points, truth = made()
    rng = np.random.default_rng(1)
    pairs = np.array([(i, j) for i in range(POINTS) for j in rng.choice(K, 4, replace=False)])
    # In any order, and a pair twice is a pair.
    points, _ = made(pairs=rng.permutation(np.concatenate([pairs, pairs[:3]])))
    scores = whole_scores(predictor, points.features)
    keep = np.ones((POINTS, K), bool)
    keep[pairs[:, 0], pairs[:, 1]] = False
    each = [
        auc.empirical_auc(scores[i, keep[i]], truth[i, keep[i]] > 0)
        for i in range(2, POINTS)
        if 0 < truth[i, keep[i]].sum() < keep[i].sum()
    ]
    repeats = np.arange(POINTS) == 4
    found = score(predictor, points, duplicates=repeats)
    assert found["metrics"]["AUC"] == pytest.approx(100 * np.mean(each), rel=1e-12)
    fresh = [area for i, area in zip(range(2, POINTS), each, strict=True) if i != 4]
    assert found["without_repeats"]["AUC"] == pytest.approx(100 * np.mean(fresh), rel=1e-12)


def test_counts_of_batches_sum_exactly():
    labels = sparse.csr_matrix(np.array([[1, 0, 1, 0], [0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]]))
    twice, none = np.array([4, 1, 3, 0, 0, 0, 0]), np.zeros(4, np.int64)
    whole = Areas().update(twice, labels, none)
    # 5 of 2 * 2 * 2, and 3 of 2 * 1 * 3; the last two points have no pair.
    assert whole.result() == {"AUC": pytest.approx(100 * (5 / 8 + 3 / 6) / 2)}
    parts = Areas().update(twice[:3], labels[:2], none[:2]).update(twice[3:], labels[2:], none[2:])
    assert parts == whole
    assert Areas().result() == {}


@pytest.mark.slow
def test_a_run_reports_auc_if_requested(tmp_path):
    import dataclasses

    data = tiny.dataset(tmp_path / "tiny")
    plain = train(data, tiny.CONFIG, tmp_path / "run", source=tmp_path / "tiny")
    assert "AUC" not in plain["metrics"]
    with_auc = evaluate(tmp_path / "run", auc=True)["metrics"]
    assert {k: v for k, v in with_auc.items() if k != "AUC"} == plain["metrics"]
    # The same command with --auc scores again, and trains nothing.
    asked = dataclasses.replace(tiny.CONFIG, auc=True)
    again = train(data, asked, tmp_path / "run", source=tmp_path / "tiny")
    assert again["metrics"] == with_auc and again["seconds"] == plain["seconds"]
    scores = whole_scores_of(snm.load(tmp_path / "run"), data.test.features)
    truth = data.test.labels.toarray() > 0
    each = [auc.empirical_auc(s, t) for s, t in zip(scores, truth, strict=True)]
    assert with_auc["AUC"] == pytest.approx(100 * np.mean(each), rel=1e-12)
    assert metric_names(3, auc=True)[-1] == "AUC" and "AUC" not in metric_names(3)


def whole_scores_of(predictor, features):
    labels, scores = predictor.predict(features, tiny.LABELS)
    out = np.empty((features.shape[0], tiny.LABELS), np.float32)
    np.put_along_axis(out, labels, scores, axis=1)
    return out
