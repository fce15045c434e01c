"""What goes wrong in a run: losses that are not finite, faults, and what its log tells."""

import dataclasses
import math

import pytest
import tiny
from command_line import call
from small_runs import log

from snm.runs.events import (
    Finished,
    Started,
    Stepped,
)
from snm.trainer.training import training

EXPLOSIVE = dict(loss="powl", phi="exponential", positives="one", score_scale=1000.0, mined=8)


def test_a_loss_that_is_not_finite_stops_the_run_with_one_line(folder, tmp_path, capsys):
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in EXPLOSIVE.items()]
    call("train", folder, "--run-dir", tmp_path / "run", *tiny.FLAGS, *flags, status=1)
    said = capsys.readouterr().err
    assert said.startswith("snm: error: step 0: the loss ") and said.count("\n") == 1


def test_log_events_and_trace(data, tmp_path):
    run = tmp_path / "run"
    events = list(training(data, tiny.CONFIG, run, profile=True))
    kinds = [type(event) for event in events]
    assert kinds[0] is Started and kinds[-1] is Finished
    stepped = [event for event in events if isinstance(event, Stepped)]
    assert [event.step for event in stepped] == [2, 4, 6, 8, 10, 12]
    assert sum(event.points for event in stepped) == 3 * tiny.POINTS
    seconds = sum(event.seconds for event in stepped)
    assert events[-1].result["seconds"] == pytest.approx(seconds)
    lines = log(run)
    # A checkpoint is written while the steps go on, so when it is whole is not known.
    kinds = [line["event"] for line in lines]
    assert kinds.count("saved") == 3 and kinds.count("stepped") == 6 == len(kinds) - 3
    assert [line["step"] for line in lines if line["event"] == "saved"] == [4, 8, 12]
    assert all(line["phase"] == "train" and line["time"] > 1e9 for line in lines)
    assert [line["loss"] for line in lines if "loss" in line] == [event.loss for event in stepped]
    (board,) = (run / "tensorboard" / "train").iterdir()
    assert "tfevents" in board.name and board.stat().st_size > 100
    assert list((run / "profile").rglob("*.xplane.pb"))


def test_a_short_batch_shows_the_mean_loss_of_its_points(data, tmp_path):
    """Scores of 0 and 18 negatives: each positive's softmax loss is log 19, in batches of any size.

    60 points are batches of 16, 16, 16 and 12. Over its full size the last had 12 / 16 of the loss.
    """
    told = {"sampled": "all", "mined": "all", "score_scale": 1e-6, "learning_rate": 1e-9}
    config = dataclasses.replace(
        tiny.CONFIG, **told, bias=False, learn_score_scale=False, epochs=1, steps_per_dispatch=1
    )
    events = list(training(data, config, tmp_path / "run"))
    stepped = [event for event in events if isinstance(event, Stepped)]
    assert [event.points for event in stepped] == [16, 16, 16, 12]
    assert [event.loss for event in stepped] == pytest.approx([math.log(19)] * 4, rel=1e-5)
