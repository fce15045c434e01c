"""Looks at runs on the tiny data set: their arrays, checkpoints and logs."""

import dataclasses
import itertools
import json

import jax
import numpy as np
import tiny

import snm
from snm.runs.folder import RunFolder

STEPS_PER_EPOCH = 4


def config(**changes):
    return dataclasses.replace(tiny.CONFIG, **changes)


def arrays(run):
    """All arrays of a run's model."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(snm.load(run).state)]


def newest(run, phase="train"):
    """Steps of the newest checkpoint."""
    return RunFolder(run).checkpoints(2, phase).latest()


def same(first, second):
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True))


def log(run):
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def stop_after(events, count):
    """Consumes some events and drops the run there, as a kill would."""
    for _ in itertools.islice(events, count):
        pass
    events.close()
