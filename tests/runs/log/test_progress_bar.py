"""Tests the progress bar: it is drawn if requested, and passes all events on."""

import io

import tiny
from rich.console import Console

from snm.runs.events import Evaluated, Finished, Started, Stepped
from snm.runs.log import progress_bar as progress
from snm.runs.log.progress_bar import show_progress
from snm.trainer import training as trainer

EVENTS = [
    Started("train", 4, 12, 4, 60),
    Stepped(6, 32, 1.5, 0.1),
    Stepped(8, 32, float("nan"), 0.1),
    Evaluated(8, {"points": 20, "points_without_labels": 1, "P@1": 62.5}, True),
    Stepped(12, 60, 1.25, 0.1),
    Finished({"metrics": {}}),
]


def test_the_bar_and_the_events(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda: Console(file=screen, force_terminal=True, width=100)
    )
    assert list(show_progress(EVENTS)) == EVENTS
    last = screen.getvalue().rsplit("\r", 1)[-1]
    assert "train  loss 1.2500  validation P@1 62.50" in last and "12/12" in last


def test_a_notebook_shows_the_bar_by_default(tmp_path, monkeypatch):
    assert not progress.in_notebook()
    seen = []
    monkeypatch.setattr(trainer, "show_progress", lambda events: seen.append(1) or events)
    data = tiny.dataset(tmp_path / "data")
    trainer.training(data, tiny.CONFIG, tmp_path / "run")
    assert seen == []
    trainer.training(data, tiny.CONFIG, tmp_path / "run", progress=True)
    monkeypatch.setattr(trainer, "in_notebook", lambda: True)
    trainer.training(data, tiny.CONFIG, tmp_path / "run")
    trainer.training(data, tiny.CONFIG, tmp_path / "run", progress=False)
    assert (
        seen == [1, 1] and not (tmp_path / "run").exists()
    )  # nothing begins before the first event
