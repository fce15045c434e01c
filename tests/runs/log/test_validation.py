"""What the result says of held-out points, from the log."""

import json
import types

import pytest

from snm.runs.folder import RunFolder
from snm.runs.log.validation import validation_metrics

CONFIG = types.SimpleNamespace(members=2, monitor="P@3")


def line(phase, step, best, event="evaluated"):
    metrics = {"points": 30, "points_without_labels": 1, "P@1": step / 2, "P@3": best}
    return json.dumps({"event": event, "phase": phase, "step": step, "metrics": metrics}) + "\n"


def folder_of(tmp_path, *lines):
    (tmp_path / "log.jsonl").write_text("".join(lines), encoding="utf-8")
    return RunFolder(tmp_path)


def test_each_member_counts_at_its_best_and_the_last_word_on_a_step(tmp_path):
    """Step 20 of member 1 was repeated after a kill, which left half a line."""
    folder = folder_of(
        tmp_path,
        line("train", 10, 1.0), line("train", 20, 9.0), line("train", 30, None)[:40] + "\n",
        line("train", 20, 2.0), line("train", 30, 1.5), line("refit", 40, 8.0),
        line("member-2", 10, 4.0), line("member-2", 20, 4.0), line("member-2", 30, None),
        line("member-2", 30, 7.0, event="probed"),
    )  # fmt: skip
    assert validation_metrics(folder, CONFIG)["validation"] == {
        "monitor": "P@3",
        "steps": [20, 10],
        "metrics": {"points": 30, "points_without_labels": 1, "P@1": 7.5, "P@3": 3.0},
    }


def test_a_score_of_0_counts_and_a_metric_that_is_no_number_is_left_out(tmp_path):
    some = line("train", 10, 0.0).replace('"P@1": 5.0', '"AUC": null, "P@1": 5.0')
    folder = folder_of(tmp_path, some, line("member-2", 10, 0.0))
    found = validation_metrics(folder, CONFIG)["validation"]
    assert found["metrics"] == {"points": 30, "points_without_labels": 1, "P@1": 5.0, "P@3": 0.0}


@pytest.mark.parametrize("lines", [(), (line("train", 10, 1.0),), (line("train", 10, None),)])
def test_nothing_is_said_where_a_member_was_not_evaluated(tmp_path, lines):
    assert validation_metrics(folder_of(tmp_path, *lines), CONFIG) == {}
    (tmp_path / "log.jsonl").unlink()
    assert validation_metrics(RunFolder(tmp_path), CONFIG) == {}
