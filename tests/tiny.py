"""A data set to train on in a blink; every batch has the same shape, so one program does."""

import dataclasses
from pathlib import Path

import numpy as np
from scipy import sparse

from snm.config.resolved import RESOLVED, ResolvedConfig, unresolved_values
from snm.config.settings import Config, preset
from snm.data.dataset import Dataset, Points
from snm.data.formats.repository_text.writer import write_text
from snm.data.generated.synthetic import generate
from snm.data.load import load

POINTS, TEST_POINTS, FEATURES, LABELS = 60, 20, 30, 20

# Four steps an epoch, the last one short; two a dispatch. A checkpoint an epoch costs more
# than its steps: where a test has more than some dozen steps and does not stop in their middle, it
# sets `checkpoint_every`. The last step is always saved.
CONFIG: Config = dataclasses.replace(
    preset("default"),
    dim=8,
    members=1,
    epochs=3,
    batch_size=16,
    sampled=8,
    mined=3,
    input_dropout=0.0,
    class_init="random",
    learning_rate=1.0,
    schedule="constant",
    steps_per_dispatch=2,
    checkpoint_every=4,
)
REMEMBERING = dataclasses.replace(
    CONFIG, members=2, epochs=2, sampled=40, memory="on", checkpoint_every=1000
)
"""For `neighbour_data`."""
FLAGS = [
    f"--{name.replace('_', '-')}={getattr(CONFIG, name)}"
    for name in (
        "dim", "members", "epochs", "batch_size", "sampled", "mined", "input_dropout",
        "class_init", "learning_rate", "schedule", "steps_per_dispatch", "checkpoint_every",
    )
]  # fmt: skip


def resolved(config: Config) -> ResolvedConfig:
    """Settings without a data set: `auto` is what the rules say of few points."""
    values = {name: getattr(config, name) for name in RESOLVED}
    for name, value in (
        ("weighting", "tfidf"),
        ("seen", "keep"),
        ("label_text", "off"),
        ("memory", "off"),
        ("logit_adjustment", "off"),
        ("item_splits", 0),
        ("members_at_once", 1),
        ("learn_score_scale", False),
        ("feature_init", 1.0),
        ("propensity_a", 0.55),
        ("propensity_b", 1.5),
    ):
        values[name] = value if values[name] == "auto" else values[name]
    assert "auto" not in values.values()
    return ResolvedConfig(**unresolved_values(config), **values)


def rows(count: int, seed: int) -> list[str]:
    """Points of two labels and four features, two of which tell the labels."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        labels = np.sort(rng.choice(LABELS, 2, replace=False))
        noise = LABELS + rng.choice(FEATURES - LABELS, 2, replace=False)
        features = [*labels, *np.sort(noise)]
        entries = " ".join(f"{j}:{rng.integers(1, 4)}" for j in features)
        lines.append(f"{labels[0]},{labels[1]} {entries}")
    return lines


def write(folder: Path, *, test: bool = True, names: bool = False) -> Path:
    """A folder with `train.txt`, and perhaps the rest."""
    folder.mkdir(parents=True)
    parts = [("train", POINTS, 0)] + ([("test", TEST_POINTS, 1)] if test else [])
    for name, count, seed in parts:
        header = f"{count} {FEATURES} {LABELS}"
        (folder / f"{name}.txt").write_text("\n".join([header, *rows(count, seed)]) + "\n")
    if names:
        text = "".join(f"name {label}\n" for label in range(LABELS))
        (folder / "labels.txt").write_text(text, encoding="utf-8")
    return folder


def dataset(folder: Path) -> Dataset:
    """The same, loaded."""
    return load(write(folder))


def neighbour_data(folder: Path, seed: int = 5) -> Path:
    """A folder with 600 training points whose neighbours have their labels, and 150 test points."""
    made = generate(points=600, test_points=150, features=120, labels=60, seed=seed,
                    labels_per_point=2, nonzeros_per_point=8)  # fmt: skip
    folder.mkdir()
    for name, points in (("train", made.train), ("test", made.test)):
        assert points is not None
        write_text(folder / f"{name}.txt", points.features, points.labels)
    return folder


def tastes() -> Dataset:
    """A recommender: 600 points with six of the twelve items of one of five tastes, two as labels.

    The test points are those of training.
    """
    rng = np.random.default_rng(0)
    taste = rng.integers(5, size=600)
    items = 12 * taste[:, None] + np.argsort(rng.random((600, 12)), axis=1)[:, :6]
    features, labels = np.zeros((600, 60), np.float32), np.zeros((600, 60), np.float32)
    np.put_along_axis(features, items[:, :4], 1, axis=1)
    np.put_along_axis(labels, items[:, 4:], 1, axis=1)
    points = Points(sparse.csr_matrix(features), sparse.csr_matrix(labels))
    return Dataset("tastes", points, points, None, "0" * 64)
