"""Losses and gradients that are not finite: what the error names, and batches that are skipped."""

import numpy as np
import pytest
import tiny
from runs.faults.faulty_runs import last_good
from small_runs import arrays, config, log, same

import snm
from snm.batches.epoch_order import Order
from snm.batches.sources.source import Source
from snm.runs.events import NonFiniteError, Skipped
from snm.runs.folder import RunFolder
from snm.trainer import training as trainer


def broken_from(monkeypatch, first_broken, last_broken=10**9):
    """Sets the features of the third point of some steps' batches to NaN."""
    stack = Source.stack

    def broken(self, first, count, length=0):
        batch = stack(self, first, count, length)
        for place in range(count):
            if first_broken <= first + place <= last_broken:
                starts = batch.features.starts[place]
                batch.features.values[place, starts[2] : starts[3]] = np.nan
        return batch

    monkeypatch.setattr(Source, "stack", broken)


def test_the_error_names_the_non_finite_tensor_and_its_rows(data, tmp_path, monkeypatch):
    broken_from(monkeypatch, 6)
    run = tmp_path / "run"
    with pytest.raises(NonFiniteError) as found:
        snm.train(data, tiny.CONFIG, run)
    error = found.value
    points = Order(tiny.POINTS, 16, seed=0).epoch(1)[0][2].tolist()  # its third batch
    assert (error.step, error.points, error.culprits) == (6, points, [points[2]])
    assert str(error).startswith(
        f"step 6: the feature values are not finite; its batch: 1 of 16 points, rows {points[2]} "
    )
    entry = log(run)[-1]
    assert (entry["event"], entry["step"], entry["points"]) == ("nonfinite", 6, points)
    last_good(run)


def test_the_last_batch_of_an_epoch_names_its_rows_despite_empty_places(
    data, tmp_path, monkeypatch
):
    broken_from(monkeypatch, 3)
    with pytest.raises(NonFiniteError) as found:
        snm.train(data, tiny.CONFIG, tmp_path / "run")
    places = Order(tiny.POINTS, 16, seed=0).epoch(0)[0][3].tolist()
    assert places[0] == -1 and places[2] >= 0
    assert found.value.points == [point for point in places if point >= 0]
    assert found.value.culprits == [places[2]]


@pytest.mark.slow
def test_rows_are_numbered_as_in_the_file_despite_a_validation_split(data, tmp_path, monkeypatch):
    broken_from(monkeypatch, 0)
    settings = config(validation_fraction=28 / 60)
    with pytest.raises(NonFiniteError) as found:
        snm.train(data, settings, tmp_path / "run")
    held = data.split(28 / 60, 0).train.features
    order = Order(32, 16, seed=0).epoch(0)[0][0]
    for row, place in zip(found.value.points, order, strict=True):
        assert (data.train.features[row] != held[place]).nnz == 0


@pytest.mark.slow
def test_the_named_tensor_is_the_first_non_finite_one(data, tmp_path):
    """Of a rate too high; that of a loss too steep is in `tests/trainer/test_faults.py`."""
    tensor = "feature rows|sums|queries|class rows|loss"
    with pytest.raises(NonFiniteError, match=rf"step \d+: the ({tensor}).* not finite"):
        snm.train(data, config(learning_rate=1e38, score_scale=1e3), tmp_path / "run")


def test_non_finite_batches_can_be_skipped(data, whole, tmp_path, monkeypatch):
    broken_from(monkeypatch, 6, 7)
    run = tmp_path / "run"
    with pytest.raises(NonFiniteError):
        snm.train(data, tiny.CONFIG, run)
    # Going on with another answer to it, from the checkpoint of step 4.
    events = list(trainer.training(data, config(on_nonfinite="skip"), run))
    assert [event.step for event in events if isinstance(event, Skipped)] == [6, 7]
    result = events[-1].result
    assert result["skipped_steps"] == 2 and result["steps"] == 12
    assert [line["step"] for line in log(run) if line["event"] == "skipped"] == [6, 7]
    # Steps 6 and 7 were one dispatch, of which no loss is known.
    assert [line["loss"] for line in log(run) if line.get("step") == 8 and "loss" in line] == [None]
    assert all(np.isfinite(leaf).all() for leaf in arrays(run))
    # The same again in one go; and stopped after the skipped steps.
    snm.train(data, config(on_nonfinite="skip"), tmp_path / "again")
    assert same(arrays(run), arrays(tmp_path / "again"))
    assert not same(arrays(run), arrays(whole[0]))
    assert RunFolder(run).checkpoints(2).read(8).progress["skipped"] == 2


def test_an_epoch_of_skipped_batches_ends_the_run(data, tmp_path, monkeypatch):
    broken_from(monkeypatch, 2)
    with pytest.raises(NonFiniteError, match="4 steps in a row were skipped: that is an epoch"):
        snm.train(data, config(on_nonfinite="skip"), tmp_path / "run")
