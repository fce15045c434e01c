"""Prints the metrics of a run, for `snm train` and `snm evaluate`."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from snm.system.terminal import console, format_value, make_table, say
from snm.text import counted

__all__ = ["metrics_table", "print_held_out", "print_metrics", "print_summary"]


def print_summary(results: dict[str, Any], title: str) -> None:
    """Prints a table of the metrics of `snm.evaluate`, in percent, and a line per other result."""
    _print_notes(results)
    if not results["metrics"]["points"]:
        say("no test point has a label that counts, so nothing was evaluated")
        return
    console.print(metrics_table(results["metrics"], title))
    _print_popularity(results)
    if new_points := _without_repeats(results):
        say(f"{_new_points_title(results)} ({new_points['points']:,}): {_precision(new_points)}")
    _print_auc(results)
    _print_calibration(results)
    _print_unusual_points(results)


def print_held_out(validation: dict[str, Any]) -> None:
    """Prints a line on the field `validation` of a result."""
    metrics = validation["metrics"]
    ks = [k for k in (1, 3, 5) if f"P@{k}" in metrics]
    names, values = "/".join(map(str, ks)), " / ".join(f"{metrics[f'P@{k}']:.2f}" for k in ks)
    steps = ", ".join(f"{step:,}" for step in validation["steps"])
    suffix = "" if len(validation["steps"]) == 1 else ", each member alone"
    points = counted(metrics["points"], "held-out point")
    say(f"{points}: P@{names} {values}{suffix}; best {validation['monitor']} at step {steps}")


def print_metrics(results: dict[str, Any], title: str) -> None:
    """Prints all results of `snm.evaluate`, in percent, with a table for each."""
    _print_notes(results)
    console.print(metrics_table(results["metrics"], title))
    _print_popularity(results)
    if new_points := _without_repeats(results):
        console.print(metrics_table(new_points, _new_points_title(results)))
    _print_auc(results)
    _print_calibration(results)
    if "reliability" in results:
        console.print(_reliability_table(results["reliability"]))
    if "at_threshold" in results:
        console.print(_threshold_table(results["at_threshold"]))
    _print_unusual_points(results)
    # With fewer than ten labels, some groups are empty.
    if groups := [group for group in results.get("by_label_frequency") or [] if group["labels"]]:
        k = max(int(name.split("@")[1]) for name in results["metrics"] if "@" in name)
        console.print(_groups_table(groups, k))


# -- lines -------------------------------------------------------------------------------------


def _print_notes(results: dict[str, Any]) -> None:
    for note in results.get("notes", ()):
        say(note)


def _precision(metrics: dict[str, Any]) -> str:
    return ", ".join(f"{name} {metrics[name]:.2f}" for name in metrics if name.startswith("P@"))


def _print_popularity(results: dict[str, Any]) -> None:
    if popular := results.get("by_popularity"):
        say(f"the most frequent training labels, for every point: {_precision(popular)}")


def _without_repeats(results: dict[str, Any]) -> dict[str, Any] | None:
    """The metrics of test points that equal no training point; None if all or none of them do."""
    new_points = results.get("without_repeats")
    if new_points is not None and not new_points["points"]:
        say("every test point equals a training point: these metrics tell nothing of new ones")
        return None
    return new_points


def _new_points_title(results: dict[str, Any]) -> str:
    repeated = results["metrics"]["points"] - results["without_repeats"]["points"]
    return f"without {counted(repeated, 'test point')} equal to a training point"


def _print_auc(results: dict[str, Any]) -> None:
    if "AUC" in results["metrics"]:
        console.print(
            f"AUC {results['metrics']['AUC']:.2f} %: how often a relevant label scores above an "
            "irrelevant one, averaged over points"
        )


def _print_calibration(results: dict[str, Any]) -> None:
    if reliability := results.get("reliability"):
        console.print(
            f"ECE@{reliability['k']} {reliability['ECE']:.4f}: mean distance between the "
            "probability of answers and the share of them that is right; exact probabilities "
            f"would have about {reliability['ECE_by_chance']:.4f} by chance"
        )


def _print_unusual_points(results: dict[str, Any]) -> None:
    if unlabelled := results["metrics"]["points_without_labels"]:
        console.print(f"left out: {counted(unlabelled, 'point')} without labels")
    if empty := results.get("points_without_features"):
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
    """Recall and precision at k for groups of labels with similar frequency."""
    # The precision of a group is its part of P@k; the parts add up.
    headings = {"recall": f"recall@{k} %", "precision": f"adds to P@{k}"}
    columns = (headings.get(name, name) for name in groups[0])
    table = make_table("labels by training frequency, rarest tenth first", numbers=columns)
    for group in groups:
        table.add_row(*(format_value(value) for value in group.values()))
    return table


def _reliability_table(reliability: dict[str, Any]) -> Table:
    """The reliability diagram: for each bin of probabilities, a bar of the share that is right."""
    columns = "probability", "right", "answers"
    table = make_table("probabilities of the best answers", numbers=columns)
    table.add_column("right: #, probability: |")
    for entry in reliability["bins"]:
        bar = list("#" * round(30 * entry["right"])) + [" "] * 31
        bar[round(30 * entry["probability"])] = "|"
        numbers = (f"{entry['probability']:.3f}", f"{entry['right']:.3f}", f"{entry['answers']:,}")
        table.add_row(*numbers, "".join(bar[:31]).rstrip())
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
