"""The most frequent labels as answers to every point, against a sort for each point."""

import dataclasses

import numpy as np
import pytest
import tiny
from scipy import sparse

import snm
from snm.cli.metrics_tables import print_metrics, print_summary
from snm.data.dataset import Points
from snm.evaluation.evaluate import Measures, TrainCounts, evaluate_points
from snm.evaluation.metrics import Metrics, propensities
from snm.evaluation.popularity import Popularity


def by_sorting(frequency, num_points, k, dropped):
    """For each point the labels that are not dropped, sorted by frequency and then by id."""
    pairs = {tuple(pair) for pair in dropped.tolist()}
    found = np.full((num_points, k), -1)
    for point in range(num_points):
        left = [label for label in range(len(frequency)) if (point, label) not in pairs]
        best = sorted(left, key=lambda label: (-frequency[label], label))[:k]
        found[point, : len(best)] = best
    return found


@pytest.mark.parametrize("k", [1, 4, 12])
def test_the_most_frequent_labels_that_are_left(k):
    rng = np.random.default_rng(0)
    for num_points, num_pairs in ((1, 0), (6, 5), (6, 30), (40, 200)):
        frequency = rng.integers(0, 5, 12)  # with ties
        dropped = rng.integers(0, [num_points, 12], (num_pairs, 2))  # some twice
        found = Popularity.of(frequency).best(num_points, k, dropped)
        np.testing.assert_array_equal(found, by_sorting(frequency, num_points, k, dropped))
    every = np.stack([np.zeros(12, int), np.arange(12)], axis=1)
    assert (Popularity.of(frequency).best(1, k, every) == -1).all()


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("filtered", [False, True])
def test_metrics_of_the_most_frequent_labels(seen, filtered, tiny_run):
    """In blocks of 7 points; filtered labels are left out, and seen ones where a model does so."""
    rng = np.random.default_rng(1)
    model = dataclasses.replace(snm.load(tiny_run / "run"), block_rows=7)
    shape = (tiny.TEST_POINTS, model.model.num_features)
    features = sparse.random_array(shape, density=0.2, rng=rng, dtype=np.float32, format="csr")
    labels = (rng.random((tiny.TEST_POINTS, tiny.LABELS)) < 0.2).astype(np.float32)
    labels[4] = 0
    frequency = rng.integers(0, 9, tiny.LABELS)
    dropped = np.zeros((0, 2), np.int64)
    if seen:
        features = features[:, : tiny.LABELS]
        features.resize(shape)
        model = dataclasses.replace(model, model=dataclasses.replace(model.model, drop_seen=True))
        dropped = np.stack(features.nonzero(), axis=1)
    pairs = np.argwhere(rng.random(labels.shape) < 0.1)[::-1] if filtered else None
    kept = labels.copy()
    if filtered:
        dropped = np.concatenate([dropped, pairs])
        kept[tuple(pairs.T)] = 0
    points = Points(sparse.csr_matrix(features), sparse.csr_matrix(labels), filter=pairs)
    counts = TrainCounts(frequency, 100)
    found = evaluate_points(model, points, counts, Measures((1, 2, 6), popularity=True))
    best = by_sorting(frequency, tiny.TEST_POINTS, 6, dropped)
    start = Metrics.start(tiny.LABELS, ks=(1, 2, 6), propensity=propensities(frequency, 100))
    expected = start.update(best, sparse.csr_matrix(kept)).result()
    assert found["by_popularity"] == pytest.approx(expected, rel=1e-12)
    some = kept.any(axis=1)
    hits = np.take_along_axis(kept, np.maximum(best, 0), axis=1) * (best >= 0)
    by_hand = 100 * hits[some, :2].sum() / (2 * some.sum())
    assert found["by_popularity"]["P@2"] == pytest.approx(by_hand) and by_hand > 0
    plain = evaluate_points(model, points, counts, Measures((1, 2, 6)))
    assert plain == {name: one for name, one in found.items() if name != "by_popularity"}
    unknown = evaluate_points(model, points, None, Measures((1, 2, 6), popularity=True))
    assert "by_popularity" not in unknown


def test_a_run_tells_what_the_most_frequent_labels_would_have(tiny_run, capsys):
    found = snm.evaluate(tiny_run / "run")
    data = snm.load_data(tiny_run / "data")
    best = np.argsort(-data.train.labels.getnnz(axis=0), kind="stable")[0]
    truth = data.test.labels
    expected = 100 * truth[:, [best]].nnz / np.count_nonzero(truth.getnnz(axis=1))
    assert found["by_popularity"]["P@1"] == pytest.approx(expected)
    result = snm.runs.folder.RunFolder(tiny_run / "run").read_result()
    assert result["by_popularity"] == found["by_popularity"]
    assert result["by_popularity"].keys() == result["metrics"].keys()
    for shown in (print_summary, print_metrics):
        shown(found, "test points")
        said = " ".join(capsys.readouterr().out.split())
        assert (
            f"the most frequent training labels, for every point: P@1 {expected:.2f}, P@3" in said
        )
