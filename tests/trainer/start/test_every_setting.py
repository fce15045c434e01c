"""Each setting reaches what it is for: with another value, three steps leave other parameters."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from head_reference import QUICK

from snm.config.resolve import resolve
from snm.config.settings import Config
from snm.data.weighting import Weighting
from snm.model.model import init_state
from snm.model.train_step import train_step
from snm.trainer.start.prepare import prepare

BOWL = dict(loss="bowl", phi="logistic", exclude="positive")
POWER = dict(loss="bowl", vartheta="power-law", exclude="positive")
LIST = dict(loss="listnet", learning_rate=1.0)
FEW = dict(sampler="frequency", positives="one")

# What the settings are beside, and the changes of which each leaves other parameters.
CASES = [
    ({}, dict(weighting="l2"), dict(input_dropout=0.5), dict(dim=4), dict(encoder="linear")),
    ({}, dict(feature_init=0.3), dict(score_scale=2.0), dict(learn_score_scale=True)),
    ({}, dict(bias=False), dict(sampled=9), dict(mined=2), dict(exclude="positive")),
    ({}, dict(positives="one"), dict(positive_weights="sum"), dict(sampler="in-batch")),
    ({}, dict(loss="bowl"), dict(batch_size=15), dict(learning_rate=0.5), dict(seed=1)),
    ({}, dict(schedule="linear"), dict(schedule="cosine"), dict(row_optimizer="adagrad")),
    ({}, dict(tower_learning_rate=0.2), dict(tower_momentum=0.5), dict(table_dtype="bfloat16")),
    ({}, dict(compute_dtype="bfloat16"), dict(epochs=4, schedule="linear")),
    (dict(learn_score_scale=True), dict(scale_learning_rate=0.5)),
    (dict(learn_score_scale=True, schedule="linear"), dict(schedule="cosine")),
    (BOWL, dict(phi="hinge"), dict(negative_weight=2.0), dict(weight_scale="surrogate")),
    (BOWL | dict(weight_scale="surrogate"), dict(retrieval_k=2)),
    (BOWL | dict(phi="ramp", score_scale=0.3), dict(ramp_rho=0.5)),
    (BOWL | dict(vartheta="epsilon-tail"), dict(tail_epsilon=0.3)),
    (POWER, dict(vartheta="top"), dict(power_alpha=3.0)),
    (POWER | dict(vartheta="subsample"), dict(subsample_draws=2)),
    (LIST, dict(transformation="sigmoid"), dict(temperature=0.5), dict(loss="listmle")),
    (FEW, dict(frequency_power=0.1), dict(sampler="uniform")),
]
ELSEWHERE = {
    "preset": "of settings",
    "label_text": "needs names: test_label_text.py",
    "class_init": "before the first step: test_centroids.py",
    "sampled_start": "stages: steps/test_stages.py",
    "mined_start": "stages: steps/test_stages.py",
    "seen": "needs a recommender: steps/test_batches.py, evaluation/test_seen.py",
    "item_splits": "needs a recommender: evaluation/test_seen.py",
    "matmul_precision": "the same on a CPU: targets/test_compiled.py",
    "mining_kernel": "the same results: topk/kernel",
} | dict.fromkeys(
    ("memory", "logit_adjustment", "members", "members_at_once", "validation_fraction", "refit",
     "evaluate_every", "patience", "monitor", "propensity_a", "propensity_b", "auc",
     "checkpoint_every", "keep_checkpoints", "on_nonfinite", "data_on", "mesh",
     "steps_per_dispatch"),
    "not of a step",
)  # fmt: skip

one_step = jax.jit(train_step, static_argnums=0, compiler_options=QUICK)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return tiny.dataset(tmp_path_factory.mktemp("made") / "data")


@functools.cache
def trained(data, settings):
    """The parameters after three steps, as float32; of the head, the scale too."""
    config = resolve(dataclasses.replace(tiny.CONFIG, **dict(settings)), data)
    weighting = Weighting.fit(config.weighting, data.train.features)
    prepared = prepare(config, data, weighting)
    source, model = prepared.source, prepared.model
    state, stored = init_state(model), source.resident_arrays()
    for step in range(3):
        item = jax.tree.map(lambda leaf: leaf[0], source.stack(step, 1))
        batch = source.materialize(stored, item, source.shape(step))
        state, metrics = one_step(model, state, batch)
        assert metrics.ok
    head = state.head
    scale = 0.0 if head.log_scale is None else float(head.log_scale)
    rows = [
        np.asarray(table.astype(jnp.float32)) for table in (state.features.rows, head.table.rows)
    ]
    return *rows, *map(np.asarray, jax.tree.leaves(state.tower)), np.float32(scale)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("beside", "change"), [(first, change) for first, *changes in CASES for change in changes]
)
def test_another_value_leaves_other_parameters(beside, change, made):
    one, other = (trained(made, tuple(settings.items())) for settings in (beside, beside | change))
    same = len(one) == len(other) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=1e-6)
        for a, b in zip(one, other, strict=True)
    )
    assert not same


def test_every_setting_has_a_case_or_a_place():
    cased = {name for _, *changes in CASES for change in changes for name in change}
    known = {field.name for field in dataclasses.fields(Config)}
    assert not cased & set(ELSEWHERE)
    assert cased | set(ELSEWHERE) == known, "add a change to CASES, or say in ELSEWHERE why not"
