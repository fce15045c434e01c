"""What `snm train` and `snm evaluate` print of the metrics of a run."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from snm.errors import counted
from snm.system.terminal import console, format_value, make_table, say

__all__ = ["metrics_table", "print_held_out", "print_metrics", "print_summary"]


def print_summary(found: dict[str, Any], title: str) -> None:
    """Prints the metrics of `snm.evaluate`, in percent, and a line of each other result."""
    _print_notes(found)
    if not found["metrics"]["points"]:
        say("no test point has a label that counts, so nothing was evaluated")
        return
    console.print(metrics_table(found["metrics"], title))
    _print_popularity(found)
    if fresh := _without_repeats(found):
        say(f"{_of_fresh(found)} ({fresh['points']:,}): {_precision(fresh)}")
    _print_area(found)
    _print_calibration(found)
    _print_odd_points(found)


def print_held_out(held: dict[str, Any]) -> None:
    """Prints a line of `validation` of a result."""
    found = held["metrics"]
    ks = [k for k in (1, 3, 5) if f"P@{k}" in found]
    names, values = "/".join(map(str, ks)), " / ".join(f"{found[f'P@{k}']:.2f}" for k in ks)
    steps = ", ".join(f"{step:,}" for step in held["steps"])
    each = "" if len(held["steps"]) == 1 else ", each member alone"
    points = counted(found["points"], "held-out point")
    say(f"{points}: P@{names} {values}{each}; best {held['monitor']} at step {steps}")


def print_metrics(found: dict[str, Any], title: str) -> None:
    """Prints all that `snm.evaluate` found, in percent, with a table of each result."""
    _print_notes(found)
    console.print(metrics_table(found["metrics"], title))
    _print_popularity(found)
    if fresh := _without_repeats(found):
        console.print(metrics_table(fresh, _of_fresh(found)))
    _print_area(found)
    _print_calibration(found)
    if "reliability" in found:
        console.print(_reliability_table(found["reliability"]))
    if "at_threshold" in found:
        console.print(_threshold_table(found["at_threshold"]))
    _print_odd_points(found)
    # Of fewer than ten labels, some groups are empty.
    if groups := [one for one in found.get("by_label_frequency") or [] if one["labels"]]:
        k = max(int(name.split("@")[1]) for name in found["metrics"] if "@" in name)
        console.print(_groups_table(groups, k))


# -- lines -------------------------------------------------------------------------------------


def _print_notes(found: dict[str, Any]) -> None:
    for note in found.get("notes", ()):
        say(note)


def _precision(metrics: dict[str, Any]) -> str:
    return ", ".join(f"{name} {metrics[name]:.2f}" for name in metrics if name.startswith("P@"))


def _print_popularity(found: dict[str, Any]) -> None:
    if popular := found.get("by_popularity"):
        say(f"the most frequent training labels, for every point: {_precision(popular)}")


def _without_repeats(found: dict[str, Any]) -> dict[str, Any] | None:
    """The metrics of the test points that equal no training point, if some do and some do not."""
    fresh = found.get("without_repeats")
    if fresh is not None and not fresh["points"]:
        say("every test point equals a training point: these metrics tell nothing of new ones")
        return None
    return fresh


def _of_fresh(found: dict[str, Any]) -> str:
    left = found["metrics"]["points"] - found["without_repeats"]["points"]
    return f"without {counted(left, 'test point')} equal to a training point"


def _print_area(found: dict[str, Any]) -> None:
    if "AUC" in found["metrics"]:
        console.print(
            f"AUC {found['metrics']['AUC']:.2f} %: how often a relevant label scores above an "
            "irrelevant one, averaged over points"
        )


def _print_calibration(found: dict[str, Any]) -> None:
    if reliability := found.get("reliability"):
        console.print(
            f"ECE@{reliability['k']} {reliability['ECE']:.4f}: mean distance between the "
            "probability of answers and the share of them that is right; exact probabilities "
            f"would have about {reliability['ECE_by_chance']:.4f} by chance"
        )


def _print_odd_points(found: dict[str, Any]) -> None:
    if unlabelled := found["metrics"]["points_without_labels"]:
        console.print(f"left out: {counted(unlabelled, 'point')} without labels")
    if empty := found.get("points_without_features"):
        points = counted(empty, "test point")
        console.print(f"{points} without a known feature: predicted by the biases of the labels")


# -- tables ------------------------------------------------------------------------------------


def metrics_table(metrics: dict[str, Any], title: str) -> Group:
    """Metrics in percent: a row for each measure, a column for each k."""
    ks = sorted({int(name.split("@")[1]) for name in metrics if "@" in name})
    heading = Text(f"{title} ({metrics['points']:,})", "italic")  # may be wider than the table
    table = make_table(None, ["%"], (f"@{k}" for k in ks))
    names = list(dict.fromkeys(name.split("@")[0] for name in metrics if "@" in name))
    for name in names:
        cells = (metrics.get(f"{name}@{k}") for k in ks)
        table.add_row(name, *("" if cell is None else f"{cell:.2f}" for cell in cells))
    return Group(heading, table)


def _groups_table(groups: list[dict[str, Any]], k: int) -> Table:
    """Recall and precision at k of labels in groups of like frequency."""
    # A group's precision is what it adds to that of all labels.
    headings = {"recall": f"recall@{k} %", "precision": f"adds to P@{k}"}
    columns = (headings.get(name, name) for name in groups[0])
    table = make_table("labels by training frequency, rarest tenth first", numbers=columns)
    for group in groups:
        table.add_row(*(format_value(value) for value in group.values()))
    return table


def _reliability_table(reliability: dict[str, Any]) -> Table:
    """The reliability diagram: a bar of the share that is right for each bin of probability."""
    numbers = "probability", "right", "answers"
    table = make_table("probabilities of the best answers", numbers=numbers)
    table.add_column("right: #, probability: |")
    for one in reliability["bins"]:
        bar = list("#" * round(30 * one["right"])) + [" "] * 31
        bar[round(30 * one["probability"])] = "|"
        table.add_row(f"{one['probability']:.3f}", f"{one['right']:.3f}", f"{one['answers']:,}",
                      "".join(bar[:31]).rstrip())  # fmt: skip
    return table


def _threshold_table(rows: list[dict[str, Any]]) -> Table:
    """F1 at each threshold."""
    headings = {"F1": "F1 of points", "answers": "labels a point"}
    columns = (headings.get(name, name) for name in rows[0])
    table = make_table("labels that are at least as likely as a threshold", numbers=columns)
    for row in rows:
        name, *values = row.values()
        table.add_row(name, *(f"{value:.2f}" for value in values))
    return table
