"""The tables of a comparison: one function each, of the results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from snm.compare.report.cells import (
    format_chosen,
    format_figure,
    format_grid,
    format_mean,
    format_mebibytes,
    format_mined,
    format_number,
    format_row,
    format_seconds,
    format_setting,
    format_speed,
)  # fmt: skip
from snm.compare.report.paired import RANKING, RETRIEVAL, best_arm, difference, other_loss
from snm.compare.report.parts import PARTS

__all__ = ["Sheet", "all_sheets", "over_shared_seeds"]

_UNEQUAL_SECONDS = 1.25  # ratio of times that are called unequal

Results = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Sheet:
    """A table with a title and a note.

    Attributes:
      title: a short title.
      note: how to read the table.
      columns: names of the columns; the first column names the rows.
      rows: the cells as text.
      late: whether the page shows it after the plots.
    """

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    late: bool = False


def all_sheets(results: Results) -> list[Sheet]:
    """The tables of a comparison for which `results` has data.

    Args:
      results: the content of `results.json`, as far as it is known.
    """
    tables = (table(results) for table in _TABLES)
    # If a baseline failed, the table of equal seconds has no rows.
    return [table for table in tables if table is not None and table.rows]


def _equal_steps(results: Results) -> Sheet:
    note = (
        f"{_legend(results, 'arms')} Percent, test points. Arms without a loss in their name have "
        f"{results['plan']['settings']['loss']}, or the one that they are named for. "
        f"{_own_settings(results)}"
    )
    labels = results["data"]["labels"]
    rows = [format_row(arm, RETRIEVAL, [format_mined(arm, labels)]) for arm in results["arms"]]
    return Sheet("Equal steps", note, ("arm", "k'", *RETRIEVAL), tuple(rows))


def _own_settings(results: Results) -> str:
    """What the comparison sets itself, and whether the answers have the votes of a memory."""
    settings = results["plan"]["settings"]
    if settings["memory"] == "off":
        return (
            "Each run is one model of all training points, without validation, a memory of "
            "neighbours or a logit adjustment."
        )
    adjusted = ", and a logit adjustment where that pays" * (settings["logit_adjustment"] == "on")
    return (
        "Each run is one model, without validation, and has a memory of neighbours where that "
        f"raises precision on held-out points{adjusted}. Its votes can hide differences between "
        "arms."
    )


def _settings(results: Results) -> Sheet | None:
    arms = results["arms"]
    names = tuple(arms[0]["differing"])
    if not names:
        return None
    note = (
        "Settings in which arms differ; all others are equal. A learning rate and a score scale "
        "that are set hold for the loss of the preset or file, bowl and powl; every other loss has "
        "its own. A dash: the arm does not read the setting."
    )
    rows = [
        (arm["name"], *(format_setting(arm["differing"][name]) for name in names)) for arm in arms
    ]
    return Sheet("Settings of the arms", note, ("arm", *names), tuple(rows))


def _tuned(results: Results) -> Sheet | None:
    if "tuned" not in results:
        return None
    rows = [
        format_row(arm, RETRIEVAL, [format_chosen(tuning), format_grid(tuning)])
        for arm in results["tuned"]
        for tuning in [results["tuning"][arm["name"]]]
    ]
    note = (
        f"{_legend(results, 'tuned')} Settings chosen by R@1 on a held-out fifth of train, "
        f"{results['plan']['trials']} trials an arm, then trained on all of train."
    )
    if any("*" in chosen for _, chosen, *_ in rows):
        note += " With *, the rate is at the edge of those tried: a better one may lie beyond it."
        note += " Weights and scales have no mark: of two values, each is at an edge."
    columns = ("arm", "chosen", "tried", *RETRIEVAL)
    return Sheet("Each arm at its best", note, columns, tuple(rows))


def _equal_seconds(results: Results) -> Sheet | None:
    if "equal_seconds" not in results:
        return None
    note = (
        f"{_legend(results, 'equal_seconds')} Epochs chosen so that an arm trains as long as its "
        "baseline did in the first table; the rates fall over the arm's own epochs."
    )
    if unequal := _unequal_seconds(results["equal_seconds"]):
        note += (
            f" The seconds of {', '.join(unequal)} are not equal to the baseline's: the ratio "
            f"is above {_UNEQUAL_SECONDS}, since epochs are whole and the time of a run varies."
        )
    rows = [
        format_row(arm, RETRIEVAL, [str(arm["epochs"]), format_seconds(arm["seconds"])])
        for arm in results["equal_seconds"]
    ]
    return Sheet("Equal seconds", note, ("arm", "epochs", "seconds", *RETRIEVAL), tuple(rows))


def _unequal_seconds(arms: Sequence[dict[str, Any]]) -> list[str]:
    """The arms whose time is not that of their baseline."""
    seconds = {arm["name"]: arm["seconds"] for arm in arms}
    return [
        arm["name"]
        for arm in arms
        if (own := seconds[arm["name"]]) and (baseline := seconds.get(arm["baseline"]))
        if max(own / baseline, baseline / own) > _UNEQUAL_SECONDS
    ]


def _against_the_best(results: Results) -> Sheet | None:
    """Differences to the arm that leads in most metrics, in each part, paired over seeds."""
    if results["plan"]["seeds"] < 3:
        return None
    best = {
        part: leaders[0]
        for part in PARTS
        if part in results and (leaders := best_arm(results[part])) is not None
    }

    def cell(name: str, part: str, metric: str) -> str:
        if name == best[part]["name"]:
            return "best"
        arm = next((arm for arm in results[part] if arm["name"] == name), None)
        paired = None if arm is None else difference(arm, best[part], metric)
        if paired is None:
            return "-"
        mean, half = paired
        return f"{'+' * (mean >= 0)}{format_mean(mean, half)}"

    note = (
        "Each cell is the arm's metric minus that of the best arm, in percentage points: the mean "
        "over shared seeds ± half the 95% interval, if they are three or more. The best arm is the "
        "one that leads in most metrics. Where 0 is within, these seeds do not settle which of the "
        "two is better."
    )
    compared = [(part, metric) for part in best for metric in ("R@1", "P@1")]
    rows = tuple(
        (arm["name"], *(cell(arm["name"], part, metric) for part, metric in compared))
        for arm in results["arms"]
    )
    columns = ("arm", *(f"{metric}, {PARTS[part].name}" for part, metric in compared))
    return Sheet("Against the best arm", note, columns, rows if len(rows) > 1 and best else ())


def _ranking(results: Results) -> Sheet:
    note = (
        f"{_legend(results, 'arms')} The runs of the first table. "
        "PSP weighs a hit by how rare its label is."
    )
    names: tuple[str, ...] = RANKING
    if any("AUC" in arm["mean"] for arm in results["arms"]):
        names += ("AUC",)
        note += " AUC: how often a label of the point scores above a label that it lacks."
    rows = [format_row(arm, names, []) for arm in results["arms"]]
    return Sheet("Ranking and rare labels", note, ("arm", *names), tuple(rows))


def _costs(results: Results) -> Sheet:
    note = (
        "The runs of the first table, mean over seeds; seconds of training, compiling and "
        "evaluation left out; memory of the whole process at its peak."
    )
    rows = [
        (
            arm["name"],
            format_seconds(arm["seconds"]),
            format_speed(arm),
            format_mebibytes(arm["peak_memory_bytes"]),
        )
        for arm in results["arms"]
    ]
    columns = ("arm", "seconds", "examples/s", "memory, MiB")
    return Sheet("Time and memory", note, columns, tuple(rows))


_TERMS = {
    "rho": "rho",
    "empirical": "within rho",
    "gaussian": "Gaussian",
    "rademacher": "Rademacher",
    "confidence": "confidence",
    "unit_factors": "factors 1",
    "proved": "as proved",
}


def _bounds(results: Results) -> Sheet | None:
    """Theorems 6 and 5, mean over seeds; Theorem 6 at the margin of the smallest proved bound."""
    rows, risk_bounded, loss_bounded = [], [], []
    has_theorem_5 = False
    undescribed: dict[str, None] = {}  # why Theorem 5 is not on the loss of an arm
    for arm in results["arms"]:
        bounds = [seed["bounds"] for seed in arm["seeds"] if seed.get("bounds")]
        if not bounds:
            continue
        best = [min(bound["theorem_6"], key=lambda row: row["proved"]) for bound in bounds]
        fives = [bound["theorem_5"] for bound in bounds if "proved" in bound["theorem_5"]]
        has_theorem_5 = has_theorem_5 or bool(fives)
        risk_bounded += [row["proved"] < 1 for row in best]
        notes = dict.fromkeys(five["note"] for five in fives if "note" in five)
        undescribed |= notes
        if not notes:
            loss_bounded += [five["proved"] < five["range"] for five in fives]
        rows.append(
            (
                arm["name"],
                *(
                    format_figure([bound[name] for bound in bounds])
                    for name in ("train_risk", "test_risk")
                ),
                *(format_figure([row.get(name) for row in best]) for name in _TERMS),
                *(
                    format_figure([five[name] for five in fives]) + "*" * bool(notes)
                    for name in ("proved", "range")
                ),
            )
        )
    if not rows:
        return None
    note = (
        "Risk: the share of labels that the first k answers miss. Theorem 6 of Reddi et al. "
        "(2019) bounds it by the share of training points within a margin rho and terms that fall "
        "with the number of points; shown at the rho of least proved bound, delta 0.05 over eight "
        "margins. Factors 1: the smaller of Gaussian and Rademacher, with 1 for the factors that "
        "O~ hides; it proves nothing. As proved: 2 sqrt(pi) Gaussian. The class is linear in the "
        "learned embedding, the encoder held fixed; margins on at most 10,000 training points. "
        f"Theorem 6 as proved is {_vacuous(risk_bounded, '1')}."
    )
    if has_theorem_5:
        note += (
            " Theorem 5, as proved too, bounds how far the expected loss is above that on the "
            "training points"
        )
        if loss_bounded:
            note += "; among the runs without *" * bool(undescribed) or ";"
            note += f" it is {_vacuous(loss_bounded, '`loss at most`')}"
        note += "."
    if undescribed:
        note += f" With *, Theorem 5 does not describe the loss, as {'; '.join(undescribed)}."
    theorem_5_columns = ("Theorem 5 as proved", "loss at most")
    columns = ("arm", "train risk", "test risk", *_TERMS.values(), *theorem_5_columns)
    return Sheet("Generalization bounds", note, columns, tuple(rows), late=True)


def _vacuous(below: Sequence[bool], limit: str) -> str:
    """A phrase on the number of runs with a bound below `limit`, the largest possible value."""
    if not any(below):
        return f"not below {limit} in any run, so vacuous"
    if all(below):
        return f"below {limit} in every run, so not vacuous"
    return f"below {limit} in {sum(below)} of {len(below)} runs, and vacuous in the others"


def _failed(results: Results) -> Sheet:
    note = "Their seeds are missing from the means above; the same command tries them again."
    rows = [
        (arm["name"], str(seed["seed"]), seed["failed"])
        for part in PARTS
        for arm in results.get(part, [])
        for seed in arm["seeds"]
        if "failed" in seed
    ]
    return Sheet("Failed", note, ("arm", "seed", "reason"), tuple(rows))


def _peers(results: Results) -> Sheet:
    """Other packages, measured here."""
    note = (
        "Other packages on the same split, features weighted the same way, scored by the same "
        "code. One run each."
    )
    rows = [
        (peer["name"], peer["failed"], *[""] * 8)
        if "failed" in peer
        else (
            peer["name"],
            peer["settings"],
            *(format_number(peer["metrics"].get(name), 2) for name in RETRIEVAL),
            format_seconds(peer["seconds"]),
            format_mebibytes(peer["peak_memory_bytes"]),
        )
        for peer in results.get("peers") or []
    ]
    columns = ("package", "settings", *RETRIEVAL, "seconds", "memory, MiB")
    return Sheet("Peers", note, columns, tuple(rows))


def _published(results: Results) -> Sheet | None:
    if not results.get("published"):
        return None
    published = results["published"]
    rows = [
        (
            method["method"],
            *(format_number(method["metrics"].get(name), 2) for name in published["columns"]),
        )
        for method in published["rows"]
    ]
    columns = ("method", *published["columns"])
    return Sheet("Published figures", published["source"], columns, tuple(rows))


_TABLES: tuple[Callable[[Results], Sheet | None], ...] = (
    _equal_steps,
    _settings,
    _tuned,
    _equal_seconds,
    _against_the_best,
    _ranking,
    _costs,
    _bounds,
    _failed,
    _peers,
    _published,
)
"""In the order of the report."""


def _legend(results: Results, part: str) -> str:
    """Explains a cell with a mean over seeds, in the table of a part."""
    seeds, arms = results["plan"]["seeds"], results[part]
    of_means = "of the mean to that of " if seeds > 1 else "to "
    paired = ", its interval paired by seed" * (seeds > 2)
    without = ""
    if names := other_loss(arms):
        without = f" No ratio, as --losses lacks their loss: {', '.join(names)}."
    return (
        f"{_interval_in_words(seeds)}with an x the ratio {of_means}"
        f"the arm's baseline{over_shared_seeds(arms)}{paired}.{without}"
    )


def over_shared_seeds(arms: Sequence[dict[str, Any]]) -> str:
    """Over which seeds ratios are, where the means of two arms are not over the same."""
    return ", over the seeds that both have" * any(
        "failed" in seed for arm in arms for seed in arm["seeds"] if len(arm["seeds"]) > 1
    )


def _interval_in_words(seeds: int) -> str:
    if seeds < 3:
        return "Fewer than three seeds, so no intervals; "
    return f"Mean of {seeds} seeds ± half the 95% interval (Student's t); "
