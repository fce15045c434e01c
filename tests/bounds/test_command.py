"""What `snm bounds` prints, and losses that Theorem 5 is not on."""

import json
import math

import jax.numpy as jnp
import numpy as np
import pytest
from command_line import call

import snm
from snm.bounds.measure import _theorem_5, measure_margins
from snm.head.spec import HeadSpec
from snm.losses.sampled import LossOptions
from snm.losses.surrogates import SURROGATES, Phi, PhiConstants
from snm.sampling.samplers import SAMPLERS
from snm.sampling.uniform import UniformSampler
from snm.theory.generalization import Complexity


@pytest.mark.parametrize(
    ("positives", "sampler", "weights", "said"),
    [
        ("one", "frequency", "mean", "drawn by the frequency sampler, and theta is for uniform"),
        ("all", "uniform", "sum", "a sum over its labels, and the theorem is on one label"),
        ("all", "uniform", "mean", None),
        ("one", "uniform", "sum", None),
    ],
)
def test_losses_that_the_theorem_is_not_on(positives, sampler, weights, said):
    spec = HeadSpec(num_labels=50, sampled=10, mined=3, loss="bowl", positives=positives)
    found = _theorem_5(spec, Complexity(1.0, 1.0, 1.0), 100, 0.05, 1.0, sampler, weights)
    assert said in found["why_not"] if said else "proved" in found


def test_the_theorem_is_on_any_uniform_sampler(monkeypatch):
    monkeypatch.setitem(SAMPLERS, "even", type("Even", (UniformSampler,), {}))
    monkeypatch.setitem(SAMPLERS, "skewed", type("Skewed", (UniformSampler,), {"uniform": False}))
    spec = HeadSpec(num_labels=50, sampled=10, mined=3, loss="bowl")
    asked = (spec, Complexity(1.0, 1.0, 1.0), 100, 0.05, 1.0)
    assert "proved" in _theorem_5(*asked, "even", "mean")
    assert "drawn by the skewed sampler" in _theorem_5(*asked, "skewed", "mean")["why_not"]


def test_delta_and_quantiles_of_the_command(tiny_run, capsys):
    call("bounds", tiny_run / "run", "--json", "--delta", 0.001)
    told = json.loads(capsys.readouterr().out)
    assert told["delta"] == 0.001
    tail = 3 * math.sqrt(math.log(2 * 8 / 0.001) / (2 * 60))
    assert told["theorem_6"][0]["confidence"] == pytest.approx(tail)
    predictor, data = snm.load(tiny_run / "run"), snm.load_data(tiny_run / "data")
    sample = measure_margins(predictor, data.train, told["k"])
    # Two labels a point, so that all pairs weigh the same.
    expected = {f"{q:g}": np.quantile(sample.margins, q, method="inverted_cdf")
                for q in (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)}  # fmt: skip
    assert told["margin_quantiles"] == pytest.approx(expected)


def test_a_surrogate_of_which_no_constant_is_known_has_no_bound(monkeypatch):
    def cubic(margin):
        return jnp.maximum(1 - margin, 0) ** 3

    monkeypatch.setitem(SURROGATES, "cubic", Phi(cubic))
    spec = HeadSpec(
        num_labels=50, sampled=10, mined=3, loss="bowl", options=LossOptions(phi="cubic")
    )
    asked = (spec, Complexity(1.0, 1.0, 1.0), 100, 0.05, 1.0, "uniform", "mean")
    assert "the Lipschitz constant of phi cubic is not known" in _theorem_5(*asked)["why_not"]
    constants = PhiConstants(
        slope=lambda lowest: 3 * max(1 - lowest, 0.0) ** 2,
        largest=lambda lowest: max(1 - lowest, 0.0) ** 3,
    )
    monkeypatch.setitem(SURROGATES, "cubic", Phi(cubic, constants=constants))
    found = _theorem_5(*asked)
    assert found["lipschitz"] == 12.0 and found["range"] == pytest.approx(8 * 2)
