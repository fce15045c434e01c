"""The alternative paths of a step: which programs are compared."""

import jax
import pytest

from benchmarks.steps import paths
from snm.bench.shapes import Shape, make_model, make_source, make_state

TINY = Shape("tiny", 400, 300, 200, 12, 3.0, 16, 64, (16,), dim=8)


def test_steps_are_compiled_as_in_training(monkeypatch):
    tables = []

    def options(found):
        tables.extend(found)
        return {"no_such_option": 1}

    monkeypatch.setattr(paths, "step_options", options)
    batch = jax.tree.map(lambda leaf: leaf[0], make_source(TINY, 16, 16).stack(0, 1))
    step = paths.lowered(make_model(TINY, 16), make_state(TINY), batch)
    with pytest.raises(jax.errors.JaxRuntimeError, match="no_such_option"):
        step.compile()
    assert tables == [4 * 300 * 8, 4 * 200 * 8]
