"""Runs on the tiny data set: what they start from, and their arrays, checkpoints and logs."""

import dataclasses
import itertools
import json

import jax
import numpy as np
import pytest
import tiny

import snm
from snm.runs.events import Noted
from snm.runs.folder import RunFolder

STEPS_PER_EPOCH = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.write(tmp_path_factory.mktemp("data") / "tiny")


@pytest.fixture(scope="module")
def data(folder):
    return snm.load_data(folder)


@pytest.fixture(scope="module")
def whole(tiny_run):
    """The undisturbed run that others are compared with: its folder and its result."""
    folder = tiny_run / "run"
    return folder, json.loads((folder / "result.json").read_text())


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


def notes(events):
    """The texts of the notes among the events of a run."""
    return [event.text for event in events if isinstance(event, Noted)]


def stop_after(events, count):
    """Consumes some events and drops the run there, as a kill would."""
    for _ in itertools.islice(events, count):
        pass
    events.close()
