"""Builds the tables of a comparison, for Markdown, the HTML page and the terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from snm.compare.report.flat import PARTS
from snm.compare.report.paired import RANKING, RETRIEVAL, best_of, difference
from snm.compare.report.summary import in_seconds, spread, with_spread
from snm.errors import counted
from snm.system.escapes import plain

__all__ = ["Sheet", "device_words", "markdown", "sheets"]


@dataclasses.dataclass(frozen=True)
class Sheet:
    """A table with a title and a note.

    Attributes:
      title: a short title.
      note: how to read the table.
      columns: names of the columns; the first column names the rows.
      rows: the cells as text.
      late: whether the page shows it behind the plots.
    """

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    late: bool = False


def sheets(results: dict[str, Any]) -> list[Sheet]:
    """The tables of a comparison for which `results` has data."""
    seeds = results["plan"]["seeds"]
    arms = results["arms"]
    each = _spread_in_words(seeds, arms) + (
        "with an x the ratio to the arm's baseline" + ", taken seed by seed" * (seeds > 1) + "."
    )
    found = [
        Sheet(
            "Equal steps",
            f"{each} Percent, test points. Arms without a loss in their name have "
            f"{results['plan']['settings']['loss']}, or the one that they are named for.",
            ("arm", "k'", *RETRIEVAL),
            tuple(_row(arm, RETRIEVAL, [_mined(arm)]) for arm in arms),
        )
    ]
    if differing := tuple(arms[0]["differing"]):
        note = (
            "Settings in which arms differ; all others are equal. A learning rate and a score "
            "scale that are set hold for the loss of the preset, bowl and powl; every other loss "
            "has its own. A dash: the arm does not read the setting."
        )
        rows = tuple(
            (arm["name"], *(_setting(arm["differing"][name]) for name in differing)) for arm in arms
        )
        found.append(Sheet("Settings of the arms", note, ("arm", *differing), rows))
    if "tuned" in results:
        best = {name: about["best"] for name, about in results["tuning"].items()}
        found.append(
            Sheet(
                "Each arm at its best",
                f"{each} Settings chosen by R@1 on a held-out fifth of train, "
                f"{results['plan']['trials']} trials an arm, then trained on all of train.",
                ("arm", "chosen", *RETRIEVAL),
                tuple(_row(arm, RETRIEVAL, [_chosen(best[arm["name"]])])
                      for arm in results["tuned"]),
            )
        )  # fmt: skip
    if "equal_seconds" in results:
        found.append(
            Sheet(
                "Equal seconds",
                f"{each} Epochs chosen so that an arm trains as long as its baseline did in the "
                "first table; the rates fall over the arm's own epochs.",
                ("arm", "epochs", "seconds", *RETRIEVAL),
                tuple(_row(arm, RETRIEVAL, [str(arm["epochs"]), _seconds(arm["seconds"])])
                      for arm in results["equal_seconds"]),
            )
        )  # fmt: skip
    if seeds > 1:
        found.append(_against_the_best(results))
    found.append(
        Sheet(
            "Ranking and rare labels",
            f"{each} The runs of the first table. PSP weighs a hit by how rare its label is.",
            ("arm", *RANKING),
            tuple(_row(arm, RANKING, []) for arm in arms),
        )
    )
    found.append(
        Sheet(
            "Time and memory",
            "The runs of the first table, mean over seeds; seconds of training, compiling and "
            "evaluation left out; memory of the whole process at its peak.",
            ("arm", "seconds", "examples/s", "memory, MiB"),
            tuple(
                (arm["name"], _seconds(arm["seconds"]), _number(_speed(arm), 0),
                 _number(_mebibytes(arm["peak_memory_bytes"]), 0))
                for arm in arms
            ),
        )
    )  # fmt: skip
    bounds = _bounds(arms)
    if bounds is not None:
        found.append(bounds)
    failed = [(arm["name"], str(seed["seed"]), seed["failed"])
              for part in ("arms", "tuned", "equal_seconds") for arm in results.get(part, [])
              for seed in arm["seeds"] if "failed" in seed]  # fmt: skip
    if failed:
        note = "Their seeds are missing from the means above; the same command tries them again."
        found.append(Sheet("Failed", note, ("arm", "seed", "reason"), tuple(failed)))
    # Where a baseline failed, no arm has its seconds.
    return [sheet for sheet in found + _others(results) if sheet.rows]


def _against_the_best(results: dict[str, Any]) -> Sheet:
    """Differences to the arm that leads in most metrics, in each part, paired over seeds."""
    best = {
        part: found[0]
        for part in PARTS
        if part in results and (found := best_of(results[part])) is not None
    }

    def cell(name: str, part: str, metric: str) -> str:
        if name == best[part]["name"]:
            return "best"
        arm = next((arm for arm in results[part] if arm["name"] == name), None)
        found = None if arm is None else difference(arm, best[part], metric)
        if found is None:
            return "-"
        mean, around = found
        return f"{'+' * (mean >= 0)}{with_spread(mean, around)}"

    half = "the 95% interval (half the range where two seeds are shared)"
    if results["plan"]["seeds"] == 2:
        half = "the range"
    note = (
        "Each cell is the arm's metric minus that of the best arm, in percentage points: the mean "
        f"over shared seeds ± half {half}. The best arm is the one that leads in most metrics. "
        "Where 0 is within, these seeds do not settle which of the two is better."
    )
    compared = [(part, metric) for part in best for metric in ("R@1", "P@1")]
    rows = tuple(
        (arm["name"], *(cell(arm["name"], part, metric) for part, metric in compared))
        for arm in results["arms"]
    )
    columns = ("arm", *(f"{metric}, {PARTS[part]}" for part, metric in compared))
    return Sheet("Against the best arm", note, columns, rows if len(rows) > 1 and best else ())


def _spread_in_words(seeds: int, arms: list[dict[str, Any]]) -> str:
    if seeds == 1:
        return "One seed, so no intervals; "
    if seeds == 2:
        return "Mean of 2 seeds ± half their range; "
    two = any(sum("failed" not in seed for seed in arm["seeds"]) == 2 for arm in arms)
    note = ", or half the range where two of them finished" * two
    return f"Mean of {seeds} seeds ± half the 95% interval (Student's t){note}; "


_TERMS = {
    "rho": "rho",
    "empirical": "within rho",
    "gaussian": "Gaussian",
    "rademacher": "Rademacher",
    "confidence": "confidence",
    "unit_factors": "factors 1",
    "proved": "as proved",
}


def _bounds(arms: list[dict[str, Any]]) -> Sheet | None:
    """Theorems 6 and 5, mean over seeds; Theorem 6 at the margin of the smallest proved bound."""
    rows, of_risk, of_loss = [], [], []
    for arm in arms:
        seen = [seed["bounds"] for seed in arm["seeds"] if seed.get("bounds")]
        if not seen:
            continue
        best = [min(each["theorem_6"], key=lambda row: row["proved"]) for each in seen]
        fives = [each["theorem_5"] for each in seen if "proved" in each["theorem_5"]]
        of_risk += [row["proved"] < 1 for row in best]
        of_loss += [five["proved"] < five["range"] for five in fives]
        rows.append(
            (
                arm["name"],
                *(_figure([each[name] for each in seen]) for name in ("train_risk", "test_risk")),
                *(_figure([row.get(name) for row in best]) for name in _TERMS),
                _figure([five["proved"] for five in fives]),
                _figure([five["range"] for five in fives]),
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
        f"Theorem 6 as proved is {_vacuous(of_risk, '1')}."
    )
    if of_loss:
        note += (
            " Theorem 5, as proved too, bounds how far the expected loss is above that on the "
            f"training points; it is {_vacuous(of_loss, '`loss at most`')}."
        )
    of_five = ("Theorem 5 as proved", "loss at most")
    columns = ("arm", "train risk", "test risk", *_TERMS.values(), *of_five)
    return Sheet("Generalization bounds", note, columns, tuple(rows), late=True)


def _vacuous(below: Sequence[bool], most: str) -> str:
    """Says in how many runs a bound says something, given which are below `most`."""
    if not any(below):
        return f"not below {most} in any run, so vacuous"
    if all(below):
        return f"below {most} in every run, so not vacuous"
    return f"below {most} in {sum(below)} of {len(below)} runs, and vacuous in the others"


def _figure(values: Sequence[float | None]) -> str:
    """The mean with three significant digits."""
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.3g}" if known else "-"


def _others(results: dict[str, Any]) -> list[Sheet]:
    """Tables of the other packages measured here, and of published figures."""
    found = []
    if results.get("peers"):
        note = (
            "Other packages on the same split, features weighted the same way, scored by the same "
            "code. One run each."
        )
        rows = tuple(
            (peer["name"], peer["failed"], *[""] * 8)
            if "failed" in peer
            else (
                peer["name"],
                peer["settings"],
                *(_number(peer["metrics"].get(name), 2) for name in RETRIEVAL),
                _seconds(peer["seconds"]),
                _number(_mebibytes(peer["peak_memory_bytes"]), 0),
            )
            for peer in results["peers"]
        )
        columns = ("package", "settings", *RETRIEVAL, "seconds", "memory, MiB")
        found.append(Sheet("Peers", note, columns, rows))
    if results.get("published"):
        about = results["published"]
        rows = tuple((row["method"], *(_number(row["metrics"].get(name), 2) for name in
                      about["columns"])) for row in about["rows"])  # fmt: skip
        found.append(
            Sheet("Published figures", about["source"], ("method", *about["columns"]), rows)
        )
    return found


def markdown(results: dict[str, Any]) -> str:
    """The content of `table.md`: all tables, with the command and the environment."""
    about = results["data"]
    lines = [
        f"# {about['name']}: SNM against negative sampling",
        "",
        f"    {results['command']}",
        "",
        f"{about['points']:,} training and {counted(about['test_points'], 'test point')}, "
        f"{counted(about['features'], 'feature')}, {counted(about['labels'], 'label')} (SHA-256 "
        f"{about['sha256'][:12]}); {device_words(results['device'])}, "
        f"jax {results['versions']['jax']}, {results['date']}.",
    ]
    for sheet in sheets(results):
        lines += ["", f"## {sheet.title}", "", sheet.note, ""]
        lines.append("| " + " | ".join(sheet.columns) + " |")
        lines.append("|---|" + "---:|" * (len(sheet.columns) - 1))
        lines += ["| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in sheet.rows]
    return plain("\n".join(lines) + "\n")  # the name of a folder may be no UTF-8


def device_words(named: str) -> str:
    """Platform and kind of a device, or the one word where both have it.

    Example:
      >>> device_words("cpu: cpu"), device_words("gpu: NVIDIA H100")
      ('cpu', 'gpu: NVIDIA H100')
    """
    platform, _, kind = named.partition(": ")
    return platform if kind == platform else named


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


def _row(arm: dict[str, Any], names: Sequence[str], beside: list[str]) -> tuple[str, ...]:
    return (arm["name"], *beside, *(_cell(arm, name) for name in names))


def _cell(arm: dict[str, Any], name: str) -> str:
    mean = arm["mean"].get(name)
    if mean is None:
        return "-"
    text = with_spread(mean, spread(arm, name))
    ratio = arm["ratio"][name]
    return text if ratio is None or arm["name"] == arm["baseline"] else f"{text} ({ratio:.2f}x)"


def _mined(arm: dict[str, Any]) -> str:
    mined, sampled = (
        f"{start} to {arm[name]}" if (start := arm.get(f"{name}_start")) else f"{arm[name]}"
        for name in ("mined", "sampled")
    )
    return f"{mined} of {sampled}"


def _chosen(settings: dict[str, Any] | None) -> str:
    if settings is None:
        return "-"
    short = {"learning_rate": "rate", "negative_weight": "weight", "score_scale": "scale"}
    return ", ".join(f"{short.get(name, name)} {value:g}" for name, value in settings.items())


def _setting(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _seconds(value: float | None) -> str:
    return "-" if value is None else in_seconds(value)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _mebibytes(value: float | None) -> float | None:
    return None if value is None else value / 2**20


def _speed(arm: dict[str, Any]) -> float | None:
    speeds = [s["examples_per_second"] for s in arm["seeds"] if "examples_per_second" in s]
    return sum(speeds) / len(speeds) if speeds else None
