"""What a run says of its data, sampler and loss at its start."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest
import tiny
from small_runs import config

from snm.losses.sampled import LOSSES, HeadLoss
from snm.runs.events import Noted
from snm.trainer.training import training


def test_what_a_run_says_of_its_data_is_said_once(data, tmp_path):
    weights = np.linspace(0.5, 2, tiny.POINTS).astype(np.float32)
    weighted = dataclasses.replace(data, train=dataclasses.replace(data.train, weights=weights))
    settings = config(epochs=1, members=2, validation_fraction=28 / 60, patience=9, refit=True)
    events = list(training(weighted, settings, tmp_path / "run"))
    notes = [event.text for event in events if isinstance(event, Noted)]
    assert notes == ["weights of points: 0.5 to 2, 1.25 on average"]


@pytest.mark.parametrize("sampler", ["uniform", "frequency", "in-batch"])
@pytest.mark.parametrize("loss", ["softmax", "listnet"])
def test_a_correction_that_a_loss_ignores_is_told(data, tmp_path, loss, sampler):
    settings = config(epochs=1, loss=loss, sampler=sampler, exclude="all")
    events = list(training(data, settings, tmp_path / "run"))
    notes = [event.text for event in events if isinstance(event, Noted)]
    said = f"listnet ignores the log weights of the {sampler} sampler: labels drawn more often "
    said += "count more (softmax corrects for it)"
    assert notes == [said] * (loss == "listnet" and sampler != "uniform")


class _Own(HeadLoss):
    name = "own"

    def value(self, scores, draw=None):
        return jax.numpy.sum(scores.weights * scores.positive)


def test_a_loss_that_does_not_say_whether_it_takes_exponentials_is_noted(
    data, tmp_path, monkeypatch
):
    numbers = itertools.count()

    def notes(loss, **changes):
        monkeypatch.setitem(LOSSES, loss.name, loss)
        run = tmp_path / f"{next(numbers)}"
        events = training(data, config(loss=loss.name, **changes), run)
        found = [event.text for event in itertools.takewhile(_is_note, events)]
        return [text for text in found if "takes_exponentials" in text]

    (note,) = notes(_Own())
    assert note.startswith("score scale 1: loss own does not say takes_exponentials (True for ")
    assert not notes(_Own(), score_scale=2.0)
    assert not notes(type("Said", (_Own,), {"takes_exponentials": False})())
    ours = [type(loss) for loss in LOSSES.values() if loss.name != "own"]
    assert all(kind.takes_exponentials is not HeadLoss.takes_exponentials for kind in ours)


def _is_note(event):
    return isinstance(event, Noted)
