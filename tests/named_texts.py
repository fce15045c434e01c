"""Texts whose labels are named by words that the texts use: data that `snm data import` writes."""

from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from snm.data.formats.repository_text.writer import write_text
from snm.data.vectorizer import Vectorizer

LABELS, WORDS = 80, 240
POINTS, TEST_POINTS = 1000, 200
NAMES = tuple(f"name{label}" for label in range(LABELS))
"""Each is a word of the vocabulary, whose id is that of its label."""
UNSEEN = np.arange(LABELS - 4, LABELS)
"""Labels that only test points have, and these often."""


def points(count: int, seed: int, labels: np.ndarray) -> tuple[csr_matrix, csr_matrix]:
    """Points of one label, rare ones of few points, whose text mostly has the name."""
    rng = np.random.default_rng(seed)
    share = 1 / (1.0 + np.arange(len(labels)))
    of_point = rng.choice(labels, count, p=share / share.sum())
    words = np.zeros((count, WORDS), np.float32)
    for row, label in enumerate(of_point):
        words[row, LABELS + rng.choice(WORDS - LABELS, 2, replace=False)] = 1
        if rng.random() < 0.8:
            words[row, label] = 1
        words[row, rng.choice(LABELS - len(UNSEEN))] = 1  # a name that says nothing
    ones = np.ones(count, np.float32)
    truth = csr_matrix((ones, of_point, np.arange(count + 1)), shape=(count, LABELS))
    return csr_matrix(words), truth


def write(folder: Path, names: tuple[str, ...] = NAMES) -> Path:
    """A data folder; test points have all labels, training points all but `UNSEEN`."""
    folder.mkdir(parents=True)
    for name, count, seed, labels in (
        ("train", POINTS, 0, np.arange(LABELS - len(UNSEEN))),
        ("test", TEST_POINTS, 1, np.roll(np.arange(LABELS), len(UNSEEN))),
    ):
        write_text(folder / f"{name}.txt", *points(count, seed, labels))
    (folder / "labels.txt").write_text("".join(f"{name}\n" for name in names))
    words = (*NAMES, *(f"word{number}" for number in range(WORDS - LABELS)))
    Vectorizer("counts", WORDS, vocabulary=words).write(folder / "vectorizer.json")
    return folder
