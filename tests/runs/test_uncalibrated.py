"""What an error says about a run without probabilities."""

import pytest

import snm
from snm.errors import InputError


@pytest.mark.parametrize("memory", [True, False])
def test_a_run_without_probabilities(tiny_run, memory):
    model = snm.load(tiny_run / "run", memory=memory)
    said = "found a model without probabilities, expected one trained to its end with memory on"
    for option, threshold in (("probabilities", None), ("threshold", 0.5)):
        with pytest.raises(InputError, match=f"^{option}: {said}"):
            model.predict_proba([[0.0] * 30], threshold=threshold)
