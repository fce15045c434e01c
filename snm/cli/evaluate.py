"""`snm evaluate`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from snm.errors import InputError, counted

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

__all__ = ["Evaluate", "print_metrics"]


@dataclasses.dataclass
class Evaluate:
    """Evaluate a trained model on test points, by exact search over all labels.

    For example:

      snm evaluate runs/eurlex
      snm evaluate runs/eurlex --data path/to/another-split --json
      snm evaluate runs/eurlex --auc
      snm evaluate runs/eurlex --index out/index
      snm evaluate runs/eurlex --threshold micro-f1 macro-f1 0.5
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of a run, or its address in a store, such as gs://bucket/runs/a."""
    data: str | None = None
    """Data set, by default the one that the run was trained on. Its test part is used; of other
    data without one, all points. Its labels are mapped to those of the run by name."""
    same_ids: bool = False
    """Take labels without names to mean the same in DATA as in the run."""
    json: bool = False
    """Print one JSON object."""
    index: Path | None = None
    """Index written by `snm export`, to compare with exact search."""
    auc: bool = False
    """Compute the AUC too: relevant labels against all others. Takes three times as long."""
    threshold: Annotated[tuple[str, ...] | None, arg(metavar="P|GOAL ...")] = None
    """Compute micro-F1, macro-F1 and the F1 of points too, of the labels that are at least so
    likely: probabilities, or micro-f1, macro-f1 or f1@k, as `snm predict --threshold`."""

    def __call__(self) -> None:
        """Runs the verb."""
        from snm.system.cache_folder import keep_programs

        keep_programs()
        _run(self)


def _run(command: Evaluate) -> None:
    """Evaluates a run and prints its metrics; with an index, also what approximate search loses.

    Raises:
      InputError: no run, data without test points or of another shape, or an index of another run.
    """
    from snm.runs.unfinished import remark_unfinished
    from snm.system.terminal import console, waiting
    from snm.trainer.evaluate import evaluate

    if command.threshold == ():
        raise InputError("--threshold", "nothing", "probabilities, micro-f1, macro-f1 or f1@k")
    run, data, index = command.run, command.data, command.index
    same_ids = command.same_ids
    if same_ids and data is None:  # those of its own data are the same, or it is refused
        raise InputError("--same-ids", "no --data", "the data that have the same ids")
    remark_unfinished(run)
    if index is not None:
        from snm.export.index import IndexedPredictor
        from snm.runs.load import load

        # Opened first, so that an index of another run is refused before the long part.
        searched = IndexedPredictor.open(index, load(run))
    with waiting(f"evaluating {run}"):
        found = evaluate(
            run,
            data,
            same_ids=same_ids,
            auc=command.auc or None,
            thresholds=command.threshold or (),
        )
    if index is not None:
        with waiting(f"searching {index}"):
            by_index = evaluate(run, data, same_ids=same_ids, wrap=lambda _: searched)
            found["by_index"] = by_index["metrics"]
    if command.json:
        import numpy as np

        print(json.dumps(found, default=lambda x: np.asarray(x).tolist()))
        return
    print_metrics(found, f"{run}: test points")
    if index is not None:
        console.print(_metrics_table(found["by_index"], f"the same, searched with {index}"))
        lost = {
            name: value - found["by_index"][name] if "@" in name else value
            for name, value in found["metrics"].items()
        }
        console.print(_metrics_table(lost, "lost by approximate search"))


def print_metrics(found: dict[str, Any], title: str) -> None:
    """Prints the metrics of `snm.evaluate`, in percent, and what they leave out."""
    from rich.table import Table

    from snm.system.terminal import console, displayed, say

    for note in found.get("notes", ()):
        say(note)
    console.print(_metrics_table(found["metrics"], title))
    if "without_repeats" in found:
        fresh = found["without_repeats"]
        left = found["metrics"]["points"] - fresh["points"]
        if fresh["points"]:
            repeats = f"without {counted(left, 'test point')} equal to a training point"
            console.print(_metrics_table(fresh, repeats))
        else:
            say("every test point equals a training point: these metrics tell nothing of new ones")
    if "AUC" in found["metrics"]:
        area = found["metrics"]["AUC"]
        console.print(
            f"AUC {area:.2f} %: how often a relevant label scores above an irrelevant one, "
            "averaged over points"
        )
    if "reliability" in found:
        reliability = found["reliability"]
        console.print(
            f"ECE@{reliability['k']} {reliability['ECE']:.4f}: how far probabilities are from the "
            f"share of right answers, in bins (about {reliability['ECE_by_chance']:.4f} if they "
            "were exact)"
        )
        console.print(_reliability_table(reliability))
    if "at_threshold" in found:
        console.print(_threshold_table(found["at_threshold"]))
    unlabelled = found["metrics"]["points_without_labels"]
    if unlabelled:
        console.print(f"left out: {counted(unlabelled, 'point')} without labels")
    # Of fewer than ten labels, some groups are empty.
    groups = [one for one in found.get("by_label_frequency") or [] if one["labels"]]
    if groups:
        k = max(int(name.split("@")[1]) for name in found["metrics"] if "@" in name)
        title = "labels by training frequency, rarest tenth first"
        table = Table(title=title, title_justify="left")
        # A group's precision is what it adds to that of all labels.
        headings = {"recall": f"recall@{k} %", "precision": f"adds to P@{k}"}
        for name in groups[0]:
            table.add_column(headings.get(name, name), justify="right")
        for group in groups:
            table.add_row(*(displayed(value) for value in group.values()))
        console.print(table)


def _reliability_table(reliability: dict[str, Any]) -> Table:
    """The reliability diagram: a bar of the share that is right for each bin of probability."""
    from rich.table import Table

    table = Table(title="probabilities of the best answers", title_justify="left")
    for name in ("probability", "right", "answers"):
        table.add_column(name, justify="right")
    table.add_column("right: #, probability: |")
    for one in reliability["bins"]:
        bar = list("#" * round(30 * one["right"])) + [" "] * 31
        bar[round(30 * one["probability"])] = "|"
        table.add_row(f"{one['probability']:.3f}", f"{one['right']:.3f}", f"{one['answers']:,}",
                      "".join(bar[:31]).rstrip())  # fmt: skip
    return table


def _threshold_table(rows: list[dict[str, Any]]) -> Table:
    """F1 at each threshold."""
    from rich.table import Table

    table = Table(title="labels that are at least as likely as a threshold", title_justify="left")
    headings = {"F1": "F1 of points", "answers": "labels a point"}
    for name in rows[0]:
        table.add_column(headings.get(name, name), justify="right")
    for row in rows:
        name, *values = row.values()
        table.add_row(name, *(f"{value:.2f}" for value in values))
    return table


def _metrics_table(metrics: dict[str, Any], title: str) -> Group:
    """Metrics in percent: a row for each measure, a column for each k."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    ks = sorted({int(name.split("@")[1]) for name in metrics if "@" in name})
    heading = Text(f"{title} ({metrics['points']:,})", "italic")  # may be wider than the table
    table = Table("%")
    for k in ks:
        table.add_column(f"@{k}", justify="right")
    names = list(dict.fromkeys(name.split("@")[0] for name in metrics if "@" in name))
    for name in names:
        cells = (metrics.get(f"{name}@{k}") for k in ks)
        table.add_row(name, *("" if cell is None else f"{cell:.2f}" for cell in cells))
    return Group(heading, table)
