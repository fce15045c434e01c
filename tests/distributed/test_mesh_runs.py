"""Runs on a mesh compute what runs on one device do: losses, metrics, and what an error names."""

import dataclasses

import numpy as np
import pytest
from distributed.uneven import DATA, SMALL

import snm
from snm.batches.epoch_order import Order
from snm.batches.sources.source import Source
from snm.runs.events import NonFiniteError, Started, Stepped
from snm.trainer.training import training


def run(folder, **changes):
    """The losses of a run by step, and its metrics on the test points."""
    losses, metrics, began = [], {}, []
    for event in training(DATA, dataclasses.replace(SMALL, **changes), folder):
        if isinstance(event, Stepped):
            losses.append(event.loss)
        elif isinstance(event, Started):
            began.append(event.step)
        elif not hasattr(event, "step"):
            metrics = event.result["metrics"]
    return np.array(losses), metrics, began


CASES = {
    "decoupled softmax": {},
    "bowl, one positive": dict(
        preset="paper", loss="bowl", positives="one", exclude="positive", encoder="relu", bias=False
    ),
    "negative sampling": dict(loss="bowl", mined="all"),
    "powl by products": dict(loss="powl", mined=60),
    "all labels": dict(sampled="all"),
    "full softmax": dict(sampled="all", mined="all"),
    "adagrad": dict(row_optimizer="adagrad", learning_rate=0.1),
    "subsample": dict(loss="bowl", vartheta="subsample"),
    "frequency": dict(sampler="frequency", mined="all"),
    "in-batch": dict(sampler="in-batch", mined="all"),
    "in-batch, counted": dict(sampler="in-batch", loss="bowl", mined="all", sampled="auto"),
    "in-batch, k' of them": dict(sampler="in-batch", loss="bowl", mined=30, sampled="auto"),
    "on the device": dict(data_on="device"),
    "rising B": dict(sampled="all", sampled_start=40, mined=8),
    "learned scale": dict(learn_score_scale=True),
    # Seed 0 meets a near tie in step 9 of member 2, which a mesh rounds to the other side.
    "two members": dict(members=2, seed=2),
    "lists": dict(loss="listmle"),
    "lists of the whole sample": dict(loss="rankcosine", mined="all", learning_rate=20.0),
}
# Feature rows lie over the longer axis: `data` and `label` in turn.
EIGHT = ("data=8", "label=8", "data=4,label=2", "data=2,label=4")
MESHES = (*EIGHT, "data=2", "label=2")
OF_FEATURES = ("adagrad", "two members")  # what concerns their rows
# Whose sample depends on how the points are cut.
OF_POINTS = ("bowl, one positive", "in-batch", "in-batch, counted", "in-batch, k' of them")
CONSTANT = dict(schedule="constant")
BFLOAT16 = dict(table_dtype="bfloat16")


@pytest.fixture(scope="module")
def on_one(tmp_path_factory):
    """The run on one device with some settings, computed once."""
    found = {}

    def of(changes):
        key = repr(changes)
        if key not in found:
            found[key] = run(tmp_path_factory.mktemp("one") / "run", **changes)
        return found[key]

    return of


def _pairs():
    """Each case on both axes at once; what depends on one of them, on more meshes."""
    for case in CASES:
        if case == "decoupled softmax":
            yield from ((case, mesh) for mesh in MESHES)
        elif case in OF_FEATURES:
            yield from ((case, mesh) for mesh in EIGHT)
        elif case != "on the device":  # draws on the device: compared with itself below
            yield case, "data=2,label=4"
            if case in OF_POINTS:
                yield case, "data=2"


@pytest.mark.slow
@pytest.mark.parametrize(("case", "mesh"), list(_pairs()))
def test_a_mesh_computes_what_one_device_does(case, mesh, on_one, tmp_path):
    losses, metrics, _ = on_one(CASES[case])
    here, found, _ = run(tmp_path / "run", mesh=mesh, **CASES[case])
    np.testing.assert_allclose(here, losses, rtol=1e-4)
    for name, value in metrics.items():
        assert found[name] == pytest.approx(value, abs=0.3), name


@pytest.mark.slow
@pytest.mark.parametrize("mesh", EIGHT)
def test_resident_points_are_sharded(mesh, on_one, tmp_path):
    losses, metrics, _ = on_one(CASES["on the device"])
    here, found, _ = run(tmp_path / "run", mesh=mesh, **CASES["on the device"])
    np.testing.assert_allclose(here, losses, rtol=1e-4)
    assert found["P@1"] == pytest.approx(metrics["P@1"], abs=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "then"),
    [("", "label=8"), ("label=8", "data=8"), ("data=8", "data=2,label=4"), ("data=2,label=4", "")],
)
def test_a_run_continues_on_another_mesh(first, then, on_one, tmp_path):
    half, _, _ = run(tmp_path / "run", mesh=first, epochs=1, **CONSTANT)
    rest, found, began = run(tmp_path / "run", mesh=then, epochs=2, **CONSTANT)
    assert began == [10]  # of 20 steps
    whole, metrics, _ = on_one(CONSTANT)
    np.testing.assert_allclose(np.concatenate([half, rest]), whole, rtol=1e-4)
    assert found["P@1"] == pytest.approx(metrics["P@1"], abs=0.3)
    # What was kept has no added rows: it loads on one device.
    loaded = snm.load(tmp_path / "run").state
    assert loaded.head.table.rows.shape == (203, 16)
    assert loaded.features.rows.shape == (301, 16)


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["data=8", "label=8"])
def test_bfloat16_tables_on_either_axis(mesh, on_one, tmp_path):
    """Rows are rounded by the same bits on any mesh; sums in another order may round elsewhere."""
    losses, metrics, _ = on_one(BFLOAT16)
    here, found, _ = run(tmp_path / "run", mesh=mesh, **BFLOAT16)
    np.testing.assert_allclose(here[:4], losses[:4], rtol=5e-3)
    np.testing.assert_allclose(here, losses, rtol=0.05)
    assert found["P@1"] == pytest.approx(metrics["P@1"], abs=10)


@pytest.mark.slow
def test_warm_start_on_a_mesh(tmp_path):
    old = dataclasses.replace(SMALL, epochs=1)
    list(training(DATA, old, tmp_path / "old"))
    found = []
    for mesh in ("", "data=8"):
        events = training(DATA, dataclasses.replace(SMALL, mesh=mesh), tmp_path / f"new{mesh}",
                          warm_start=tmp_path / "old")  # fmt: skip
        found.append([event.loss for event in events if isinstance(event, Stepped)])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["data=2,label=4", "data=8"])
def test_the_non_finite_error_on_a_mesh_names_tensor_and_row(mesh, tmp_path, monkeypatch):
    stack = Source.stack

    def broken(self, first, count, length=0):
        """The third point of step 3 has features that are no numbers."""
        batch = stack(self, first, count, length)
        if first == 3:
            values, starts = batch.features.values[0], batch.features.starts[0]
            if self.data_parts > 1:
                values, starts = values[0], starts[0]
            values[starts[2] : starts[3]] = np.nan
        return batch

    monkeypatch.setattr(Source, "stack", broken)
    with pytest.raises(NonFiniteError) as error:
        run(tmp_path / "run", mesh=mesh, epochs=1)
    points = Order.of(320, 32, seed=0).epoch(0)[0][3]
    assert error.value.points == points.tolist()
    assert error.value.tensor == "the feature values are"
    assert error.value.culprits == [points[2]]
