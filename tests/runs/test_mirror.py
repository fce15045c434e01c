"""A run in a store: whole at every moment, resumed to the bit, and clear when it gives up."""

import dataclasses
import random
import shutil

import jax
import numpy as np
import pytest
import tiny
from flaky_store import KilledError

import snm

RUN = "flaky://bucket/runs/a"
CONFIG = dataclasses.replace(tiny.CONFIG, epochs=4, seed=3)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.write(tmp_path_factory.mktemp("data") / "tiny")


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    run = tmp_path_factory.mktemp("whole") / "run"
    result = snm.train(data, CONFIG, run)
    return arrays(run), result["metrics"]


def arrays(run):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(snm.load(run).state)]


def same(found, expected):
    return all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def forget(tmp_path):
    """What a machine loses that is taken away."""
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_run_goes_on_to_the_same_bits(seed, flaky, data, undisturbed, tmp_path):
    """Killed at three writes, each time with the local disk lost, 5% of all operations failing."""
    rng = random.Random(seed)
    flaky.rng, flaky.share = random.Random(seed), 0.05
    kills, writes = rng.sample(range(5, 150), 3), [0]

    def kill(kind, name):
        writes[0] += kind == "put"
        if kind == "put" and writes[0] in kills:
            raise KilledError

    flaky.before = staticmethod(kill)
    met = 0
    while True:
        try:
            snm.train(data, CONFIG, RUN)
            break
        except KilledError:
            met += 1
            forget(tmp_path)
    assert met and flaky.failed
    flaky.before = staticmethod(lambda kind, name: None)
    forget(tmp_path)
    expected, metrics = undisturbed
    assert same(arrays(RUN), expected)
    assert snm.evaluate(RUN)["metrics"] == metrics
