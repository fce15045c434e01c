"""What a run says of its data, sampler and loss at its start."""

import dataclasses

import jax
import numpy as np
import pytest
import tiny
from small_runs import config, notes

from snm.config.resolve import resolve
from snm.data.weighting import Weighting
from snm.losses.sampled import LOSSES, HeadLoss
from snm.trainer.start.prepare import prepare
from snm.trainer.start.start_notes import notes_on_settings, start_notes
from snm.trainer.training import training


def test_what_a_run_says_of_its_data_is_said_once(data, tmp_path):
    weights = np.linspace(0.5, 2, tiny.POINTS).astype(np.float32)
    weighted = dataclasses.replace(data, train=dataclasses.replace(data.train, weights=weights))
    settings = config(epochs=1, members=2, validation_fraction=28 / 60, patience=9, refit=True)
    said = notes(training(weighted, settings, tmp_path / "run"))
    assert said == ["weights of points: 0.5 to 2, 1.25 on average"]


@pytest.mark.parametrize("sampler", ["uniform", "frequency", "in-batch"])
@pytest.mark.parametrize("loss", ["softmax", "listnet"])
def test_a_correction_that_a_loss_ignores_is_told(data, loss, sampler):
    settings = resolve(config(loss=loss, sampler=sampler, exclude="all"), data)
    prepared = prepare(settings, data, Weighting.fit("none", data.train.features))
    said = f"listnet ignores the log weights of the {sampler} sampler: labels drawn more often "
    said += "count more (softmax corrects for it)"
    expected = [said] * (loss == "listnet" and sampler != "uniform")
    assert start_notes(settings, data, prepared.source, None) == expected


class _Own(HeadLoss):
    name = "own"

    def value(self, scores, draw=None):
        return jax.numpy.sum(scores.weights * scores.positive)


def test_a_loss_that_does_not_say_whether_it_takes_exponentials_is_noted(data, monkeypatch):
    def said(loss, **changes):
        monkeypatch.setitem(LOSSES, loss.name, loss)
        return notes_on_settings(config(loss=loss.name, **changes), data)

    (note,) = said(_Own())
    assert note.startswith("score scale 1: loss own does not say takes_exponentials (True for ")
    assert not said(_Own(), score_scale=2.0)
    assert not said(type("Said", (_Own,), {"takes_exponentials": False})())
    ours = [type(loss) for loss in LOSSES.values() if loss.name != "own"]
    assert all(kind.takes_exponentials is not HeadLoss.takes_exponentials for kind in ours)
