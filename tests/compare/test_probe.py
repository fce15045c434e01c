"""The probe of a comparison equals a brute force, and has no side effects."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import tiny

import snm
from snm.compare.probe import ModelProbe
from snm.config.resolve import resolve


@pytest.mark.slow
@pytest.mark.parametrize("exclude", ["positive", "all"])
def test_the_probe_equals_a_brute_force(dataset, tmp_path, exclude):
    settings = dataclasses.replace(tiny.CONFIG, exclude=exclude, sampled="all", score_scale=2.0)
    snm.train(dataset, settings, tmp_path / "run")
    predictor = snm.load(tmp_path / "run")
    probe = ModelProbe(dataset, resolve(settings, dataset))
    found = probe(predictor)

    train = dataset.train
    labels, sorted_scores = predictor.predict(train.features, tiny.LABELS)
    scores = np.zeros((tiny.POINTS, tiny.LABELS))
    np.put_along_axis(scores, labels, sorted_scores / 2.0, axis=1)
    known = train.labels.toarray() != 0
    positives = probe._positives
    assert known[np.arange(tiny.POINTS), positives].all()
    own = scores[np.arange(tiny.POINTS), positives]
    ids = np.asarray(probe._sample(0, tiny.LABELS - 1).ids)
    mined, others, sampled = [], [], []
    for i in range(tiny.POINTS):
        barred = set(np.flatnonzero(known[i])) if exclude == "all" else {positives[i]}
        rest = [j for j in ids if j not in barred]
        sampled += [(i, j) for j in rest]
        mined += [(i, j) for j in sorted(rest, key=lambda j: -scores[i, j])[:3]]
        others.append(max(scores[i, j] for j in range(tiny.LABELS) if j != positives[i]))
    negatives = found["negatives"]
    assert negatives["false_share_mined"] == pytest.approx(np.mean([known[p] for p in mined]))
    assert negatives["false_share_sampled"] == pytest.approx(np.mean([known[p] for p in sampled]))
    quantiles = (0.05, 0.25, 0.5, 0.75, 0.95)
    for name, pairs in (("mined", mined), ("sampled", sampled)):
        wanted = np.quantile([scores[p] for p in pairs], quantiles)
        np.testing.assert_allclose(negatives[name], wanted, atol=2e-6)
    np.testing.assert_allclose(negatives["positive"], np.quantile(own, quantiles), atol=2e-6)
    margins = own - others
    np.testing.assert_allclose(found["margin"]["quantiles"][20], np.median(margins), atol=2e-6)
    assert found["margin"]["share_not_positive"] == np.mean(margins <= 0)
    deciles = np.bincount([probe._deciles[j] for _, j in mined], minlength=10) / len(mined)
    np.testing.assert_allclose(negatives["mined_by_decile"], deciles, atol=1e-6)
    test = snm.evaluate(tmp_path / "run", dataset)["metrics"]
    assert found["test"]["R@1"] == pytest.approx(test["R@1"])
    # If all labels are sampled, there is one sample and the deviation is 0.
    assert found["gradient"]["norm"] > 0
    assert found["gradient"]["deviation"] == 0


def test_gradient_deviation_and_a_probe_without_side_effects(dataset, tiny_run):
    predictor = snm.load(tiny_run / "run")
    rows = np.array(predictor.state.head.table.rows)
    probe = ModelProbe(dataset, resolve(tiny.CONFIG, dataset))
    first, second = probe(predictor), probe(predictor)
    assert first == second
    assert first["gradient"]["deviation"] > 0
    np.testing.assert_array_equal(rows, predictor.state.head.table.rows)


def test_a_model_that_diverges_is_measured_without_a_warning(dataset, tiny_run):
    """Its run says what is wrong; scores and gradients may be infinite a step before."""
    predictor = snm.load(tiny_run / "run")
    rows = predictor.state.head.table.rows
    signs = jnp.where(jnp.arange(len(rows)) % 2, 1.0, -1.0)
    rows = jnp.zeros_like(rows).at[:, 0].set(1e38 * signs)
    table = dataclasses.replace(predictor.state.head.table, rows=rows)
    head = dataclasses.replace(predictor.state.head, table=table)
    state = dataclasses.replace(predictor.state, head=head)
    probe = ModelProbe(dataset, resolve(tiny.CONFIG, dataset))
    found = probe(dataclasses.replace(predictor, state=state))
    assert not np.isfinite(found["gradient"]["deviation"])
