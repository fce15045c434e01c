"""`snm evaluate`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import FlagCreatePairsOff, Positional, arg

from snm.errors import InputError
from snm.stores.marks import CopiedFolder, CopiedRun

__all__ = ["Evaluate"]


@dataclasses.dataclass
class Evaluate:
    """Evaluate a trained model on test points, by exact search over all labels.

    Beside the model, the most frequent training labels are measured as answers to every point, but
    for labels that the model leaves out of its answers too. A model that is no better has learned
    no more than how frequent labels are.

    A test point without a known feature or word is measured by the labels with the highest biases.
    `snm predict` gives no labels then, so that metrics of its answers can be lower.

    For example:

      snm evaluate runs/eurlex
      snm evaluate runs/eurlex --data path/to/another-split --json
      snm evaluate runs/movies --k 1 10 20
      snm evaluate runs/eurlex --auc
      snm evaluate runs/amazon --propensity-a 0.6 --propensity-b 2.6
      snm evaluate runs/eurlex --index out/index
      snm evaluate runs/eurlex --threshold micro-f1 macro-f1 0.5
      snm evaluate runs/eurlex --by-label labels.csv
    """

    run: Annotated[Positional[CopiedRun[Path]], arg(metavar="RUN")]
    """Folder of a run, or its address in a store, such as gs://bucket/runs/a."""
    data: str | None = None
    """Data set, by default the one that the run was trained on. Its test part is used; of other
    data without one, all points. Its labels are mapped to those of the run by name."""
    same_ids: bool = False
    """Take labels without names to mean the same in DATA as in the run."""
    k: Annotated[tuple[int, ...] | None, arg(metavar="INT ...")] = None
    """Values of k of the metrics, each 1 to the number of labels; by default 1, 3 and 5, where
    there are so many."""
    json: bool = False
    """Print one JSON object."""
    index: CopiedFolder[Path | None] = None
    """Index written by `snm export`, to compare with exact search."""
    auc: FlagCreatePairsOff[bool] = False
    """Compute the AUC too: relevant labels against all others, by the scores of the model without
    the votes of a memory. Takes three times as long. Without --auc and --no-auc, the setting of the
    run counts."""
    no_auc: FlagCreatePairsOff[bool] = False
    """Leave the AUC out, also of a run that was trained with --auc."""
    propensity_a: float | None = None
    """A of the propensity model, which PSP and PSnDCG have; by default that of the run."""
    propensity_b: float | None = None
    """B of the propensity model; by default that of the run."""
    threshold: Annotated[tuple[str, ...] | None, arg(metavar="P|GOAL ...")] = None
    """Compute micro-F1, macro-F1 and the F1 of points too, of the labels that are at least so
    likely: probabilities, or micro-f1, macro-f1 or f1@k, as `snm predict --threshold`."""
    by_label: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write a CSV file of labels, those first that the predictions miss most often: training and
    test points, how often a label is among the best predicted ones, and how often rightly."""

    def __call__(self) -> None:
        """Prints the metrics of the run; with an index, also the loss by approximate search.

        Raises:
          InputError: no run, data without test points or of another shape, or an index of another
            run.
        """
        import numpy as np

        from snm.runs.unfinished import note_if_unfinished
        from snm.system.compilation_cache import enable_compilation_cache

        enable_compilation_cache()
        _check_options(self)
        note_if_unfinished(self.run)
        results = _compute_metrics(self)
        if self.json:
            print(json.dumps(results, default=lambda x: np.asarray(x).tolist()))
        else:
            _print(self, results)


def _check_options(command: Evaluate) -> None:
    """Checks the options that do not depend on the run."""
    from snm.system.files.checks import check_writable

    if command.threshold == ():
        raise InputError("--threshold", "nothing", "probabilities, micro-f1, macro-f1 or f1@k")
    if command.by_label is not None:
        check_writable("--by-label", command.by_label)
    if command.k == ():
        raise InputError("--k", "nothing", "numbers of answers, such as 1 10")
    if command.auc and command.no_auc:
        raise InputError("--auc", "--no-auc as well", "one of the two")
    if command.same_ids and command.data is None:  # the data of the run have the same ids anyway
        raise InputError("--same-ids", "no --data", "the data that have the same ids")


def _compute_metrics(command: Evaluate) -> dict[str, Any]:
    """Computes all metrics, those of the index as `by_index`; writes the table of labels."""
    from snm.evaluation.label_table import write_label_table
    from snm.export.index import with_index
    from snm.runs.stored_run import load
    from snm.system.terminal import waiting
    from snm.trainer.evaluate_run import evaluate

    run, index = command.run, command.index
    with waiting(f"opening {run}"):
        predictor = load(run)
        # Before the evaluation, so that an index of another run is refused early.
        indexed = None if index is None else with_index(predictor, index)
    with waiting(f"evaluating {run}"):
        results = evaluate(
            run,
            command.data,
            same_ids=command.same_ids,
            ks=command.k,
            auc=command.auc if command.auc or command.no_auc else None,
            thresholds=command.threshold or (),
            by_label=command.by_label is not None,
            propensity_a=command.propensity_a,
            propensity_b=command.propensity_b,
            predictor=predictor,
            indexed=indexed,
        )
    if command.by_label is not None:
        write_label_table(command.by_label, results.pop("by_label"), predictor.label_names)
    return results


def _print(command: Evaluate, results: dict[str, Any]) -> None:
    """Prints tables of the metrics, and of the loss by approximate search."""
    from snm.cli.metrics_tables import metrics_table, print_metrics
    from snm.system.terminal import console

    print_metrics(results, f"{command.run}: test points")
    if (by_index := results.get("by_index")) is None:
        return
    console.print(metrics_table(by_index, f"the same, searched with {command.index}"))
    lost = {
        name: value - by_index[name] if "@" in name else value
        for name, value in results["metrics"].items()
    }
    console.print(metrics_table(lost, "lost by approximate search"))
