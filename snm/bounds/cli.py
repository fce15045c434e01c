"""`snm bounds`: tables, and what the bounds do and do not say."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from snm.errors import InputError
from snm.stores.marks import CopiedRun

__all__ = ["Bounds", "verdicts"]


@dataclasses.dataclass
class Bounds:
    """Evaluate generalization bounds on a trained model, next to its risk on test points.

    Prints the margins of the training points, the share of them below each margin rho, and the
    right sides of Theorems 6 and 5 of Reddi et al. (2019): with 1 for the factors that O~ hides,
    which proves nothing, and as proved, without hidden factors. A bound above the largest possible
    risk is called vacuous; the number of points that would make it nontrivial is printed.

    Two constants differ from those of the paper: the Rademacher term of Theorem 6 has 2/rho, as
    Theorem 5 gives, not 1/rho; and the range of a BOWL in Theorem 5 is (||theta||_1 + 1) Phi, with
    the positive's term, not ||theta||_1 Phi. Theorem 6 holds for all margins at once, each with an
    equal part of delta.

    For example:

      snm bounds runs/eurlex
      snm bounds runs/eurlex --k 5 --delta 0.01
      snm bounds runs/eurlex --points 20000 --json
    """

    run: Annotated[Positional[CopiedRun[Path]], arg(metavar="RUN")]
    """Folder of a run."""
    data: str | None = None
    """Data set with test points; by default the one that the run was trained on. The training
    points are always those of the run, so one that was trained on data in memory needs a folder
    with their content."""
    same_ids: bool = False
    """Take labels without names to mean the same in DATA as in the run."""
    k: int | None = None
    """k of the retrieval loss; by default that of the run."""
    delta: float = 0.05
    """The bounds hold with probability 1 - delta, for all margins at once."""
    rho: tuple[float, ...] = ()
    """Margins, to be chosen before the data are seen; by default the largest one that the trained
    model can reach, halved repeatedly."""
    points: int | None = None
    """Number of training points to evaluate the bounds on, drawn at random; all by default. The
    theorems then know of these points alone."""
    json: bool = False
    """Print one JSON object."""

    def __call__(self) -> None:
        """Measures a run and prints its bounds.

        Raises:
          InputError: no run, data that do not fit or cannot be read, or an option out of range.
        """
        import numpy as np

        from snm.bounds.measure import bounds_of_run, measure_margins
        from snm.runs.stored_run import StoredRun
        from snm.runs.unfinished import note_if_unfinished
        from snm.system.compilation_cache import enable_compilation_cache
        from snm.system.terminal import counters, say, waiting
        from snm.trainer.run_data import evaluation_data

        if not 0 < self.delta < 1:
            raise InputError("--delta", str(self.delta), "a probability between 0 and 1")
        if self.points is not None and self.points < 1:
            raise InputError("--points", str(self.points), "at least 1")
        if self.same_ids and self.data is None:  # the data of the run have the same ids anyway
            raise InputError("--same-ids", "no --data", "the data that have the same ids")
        enable_compilation_cache()
        note_if_unfinished(self.run)
        with waiting(f"reading {self.run}"):
            stored = StoredRun.open(self.run)
            predictor, config = stored.load(), stored.config
            dataset, notes = evaluation_data(
                stored, self.data, same_ids=self.same_ids, own_train=True
            )
        for note in () if self.json else notes:
            say(note)
        k = config.retrieval_k if self.k is None else self.k
        assert dataset.test is not None
        samples = []
        with counters() as counter:
            for name, points, max_points in (
                ("training points", dataset.train, self.points),
                ("test points", dataset.test, None),
            ):
                labelled = int(np.count_nonzero(np.diff(points.labels.indptr)))
                shown = counter(name, min(max_points or labelled, labelled))
                samples.append(
                    measure_margins(predictor, points, k, max_points=max_points, on_progress=shown)
                )
        bounds = bounds_of_run(
            predictor,
            *samples,
            k=k,
            delta=self.delta,
            rhos=self.rho,
            sampler=config.sampler,
            positive_weights=config.positive_weights,
        )
        bounds = {"run": str(self.run), **bounds, "verdicts": verdicts(bounds)}
        if self.json:
            print(json.dumps(bounds))
            return
        _print(bounds)


def verdicts(bounds: dict[str, Any]) -> list[str]:
    """The conclusions of each bound, in one or two sentences.

    Args:
      bounds: the result of `measure.bounds_of_run`.
    """
    sentences = [
        _verdict_of_theorem_6(bounds, "proved", "as proved"),
        _verdict_of_theorem_6(bounds, "unit_factors", "with hidden factors 1"),
        _verdict_of_theorem_5(bounds),
    ]
    if (note := bounds["theorem_5"].get("note")) is not None:
        sentences.append(f"Theorem 5 does not describe this loss: {note}.")
    return sentences


def _verdict_of_theorem_6(bounds: dict[str, Any], key: str, form: str) -> str:
    rows = bounds["theorem_6"]
    best = min(rows, key=lambda row: row[key])
    where = f"at rho {best['rho']:.3g}"
    if best[key] < 1:
        says = "the risk is at most" if key == "proved" else "nothing proved, but the sum is"
        return f"Theorem 6 {form}: {says} {best[key]:.3f} {where}."
    text = f"Theorem 6 {form} is vacuous: its smallest right side is {best[key]:.3g}, {where}"
    if key != "proved":
        return f"{text}."
    needed = [row["points_needed"] for row in rows if row["points_needed"] is not None]
    if not needed:
        return f"{text}; no number of points is enough, because every point is within every margin."
    return (
        f"{text}; more than {_whole(min(needed))} points would be needed to come below 1 "
        f"({bounds['points']:,} now)."
    )


def _verdict_of_theorem_5(bounds: dict[str, Any]) -> str:
    five = bounds["theorem_5"]
    if "why_not" in five:
        return f"Theorem 5 says nothing here: {five['why_not']}."
    if five["proved"] < five["range"]:
        return (
            f"Theorem 5 as proved: the expected loss is at most {five['proved']:.3g} above the "
            f"mean loss, which lies in [0, {five['range']:.3g}]."
        )
    return (
        f"Theorem 5 as proved is vacuous: {five['proved']:.3g}, where the loss itself cannot "
        f"exceed {five['range']:.3g}; more than {_whole(five['points_needed'])} points would "
        f"be needed to come below ({bounds['points']:,} now)."
    )


def _print(bounds: dict[str, Any]) -> None:
    from rich import box

    from snm.system.terminal import console, make_table

    console.print(
        f"{bounds['run']}: k = {bounds['k']}, {bounds['points']:,} training points, "
        f"{bounds['num_labels']:,} labels, delta = {bounds['delta']:g}"
    )
    percents = (f"{100 * float(name):g}%" for name in bounds["margin_quantiles"])
    quantiles = make_table("margins of training points", numbers=percents, box=box.SIMPLE)
    quantiles.add_row(*(f"{value:.3g}" for value in bounds["margin_quantiles"].values()))
    console.print(quantiles)
    console.print(
        f"risk (share of labels missing from the top {bounds['k']}): training points "
        f"{bounds['train_risk']:.4f}, test points {bounds['test_risk']:.4f}; "
        "by the class rows alone, without memory, filters and --seen"
    )
    columns = {
        "rho": "rho",
        "empirical": "within",
        "gaussian": "Gaussian",
        "rademacher": "Radem.",
        "confidence": "confid.",
        "unit_factors": "factors 1",
        "proved": "proved",
        "points_needed": "needed",
    }
    title = "Theorem 6: bound of the risk at each margin"
    table = make_table(title, numbers=columns.values(), box=box.SIMPLE)
    for row in bounds["theorem_6"]:
        needed = row["points_needed"]
        table.add_row(
            *(f"{row[key]:.{3 if key == 'empirical' else 2}g}" for key in list(columns)[:-1]),
            "never" if needed is None else _whole(needed, below=1e6),
        )
    console.print(table)
    five = bounds["theorem_5"]
    if "why_not" not in five:
        title = "Theorem 5: bound of the trained loss's generalization error"
        table = make_table(title, [""], [""], show_header=False, box=box.SIMPLE)
        for name, value in five.items():
            if name == "note":
                continue
            if name == "points_needed":
                value = _whole(value)
            shown = "factors 1" if name == "unit_factors" else name.replace("_", " ")
            table.add_row(shown, value if isinstance(value, str) else f"{value:.4g}")
        console.print(table)
    console.print(
        "within: share of the training points with a margin of at most rho. factors 1: sum of "
        "within, the smaller of the Gaussian and the Rademacher term, and confidence, with 1 for "
        "the factors that O~ hides. proved: sum of within, 2 sqrt(pi) Gaussian, and confidence. "
        "needed: the number of points above which proved is below 1. The hypothesis class is "
        "linear in the learned embedding. The encoder, the length of the longest class row and the "
        "default margins come from the trained model, and are treated as fixed beforehand; the "
        "class of the whole model is larger, and so are its bounds."
    )
    for text in bounds["verdicts"]:
        console.print(f"- {text}")


def _whole(points: float, below: float = 1e15) -> str:
    """A number of points, rounded down; with two digits and an exponent from `below` on."""
    return f"{math.floor(points):,}" if points < below else f"{points:.2g}"
