"""Writes `report.html`: the findings of a comparison as text, tables and plots in one file."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

import numpy as np

from snm.compare.probe import MARGIN_QUANTILES
from snm.compare.report.cells import format_mean, format_seconds, format_short
from snm.compare.report.html.plots import (
    Bar,
    Lines,
    Plot,
    Row,
    draw_bars,
    draw_lines,
    draw_score_quantiles,
)
from snm.compare.report.html.svg import plot_style
from snm.compare.report.markdown import device_words
from snm.compare.report.parts import PARTS
from snm.compare.report.series import (
    Points,
    Record,
    good_seeds,
    last_probes,
    over_probes,
    over_seeds,
    probe_value,
)
from snm.compare.report.tables import all_sheets, over_shared_seeds
from snm.compare.report.verdict import verdict
from snm.text import escape_controls

__all__ = ["environment", "page"]

Named = list[tuple[str, Points]]  # names of arms and their points

_TEXT_COLUMNS = ("chosen", "tried", "settings", "reason")
_TENTHS = "tenth of the labels, 1 the rarest"


def page(results: Record) -> str:
    """Renders the report as one HTML document that loads no other file.

    Args:
      results: the content of `results.json`.
    """
    with plot_style():
        sections = [
            ("curves", "During training and at its end", [_curves(results), _ratios(results)]),
            ("why", "Why", _why(results["arms"])),
            ("frequency", "Rare labels, time and memory",
             [_by_frequency(results["arms"]), _cost(results["arms"])]),
        ]  # fmt: skip
    template = resources.files("snm.compare.report.html").joinpath("report.html.j2")
    with_plots = [
        (key, title, [plot for plot in plots if plot.rows]) for key, title, plots in sections
    ]
    return (
        environment()
        .from_string(template.read_text(encoding="utf-8"))
        .render(
            results=results,
            about=results["data"],
            device=device_words(results["device"]),
            verdict=verdict(results),
            tables=[
                (sheet, [name in _TEXT_COLUMNS for name in sheet.columns])
                for sheet in all_sheets(results)
            ],
            sections=[section for section in with_plots if section[2]],
        )
    )


def environment() -> Any:
    """Jinja's environment: HTML and control characters in names are escaped."""
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True,
                       lstrip_blocks=True, keep_trailing_newline=True,
                       finalize=lambda x: escape_controls(x) if type(x) is str else x)  # fmt: skip


# -- the plots -------------------------------------------------------------------------------


def _curves(results: Record) -> Plot:
    arms, points = results["arms"], min(2000, results["data"]["test_points"])
    panels = [
        Lines(f"R@1 against {by}", unit, "R@1, %", functools.partial(_r1, by=by), _ends)
        for by, unit in (("step", "steps"), ("seconds", "seconds of training"))
    ]
    note = (
        f"On {points:,} test points, the same at every measurement; evaluation is left out of the "
        "seconds. Lines: mean of the seeds."
    )
    return draw_lines("R@1 during training", note + _bands(arms), arms, panels)


def _r1(arm: Record, by: str) -> Points:
    return over_probes(arm, lambda entry: probe_value(entry, "test", "R@1"), by)


def _ratios(results: Record) -> Plot:
    rows, has_whiskers = [], False
    for key, part in PARTS.items():
        arms = [arm for arm in results.get(key, ()) if arm["name"] != arm["baseline"]]
        panels = []
        for metric in ("R@1", "P@1"):
            bars = [
                Bar(arm["name"], ratio, format_mean(ratio, half), half)
                for arm in arms
                if (ratio := arm["ratio"].get(metric)) is not None
                for half in [arm["ratio_ci95"].get(metric)]
            ]
            heading = f"{metric}, {part.title}: ratio to the baseline"
            if bars:
                alt_text = f"Ratios: {_values(bars)}."
                panels.append(draw_bars(heading, alt_text, heading, bars, reference=1.0))
            has_whiskers = has_whiskers or any(bar.half_width is not None for bar in bars)
        if panels:
            rows.append(Row((), tuple(panels)))
    drawn = [arm for part in PARTS for arm in results.get(part, ())]
    shared = over_shared_seeds(drawn)
    note = f"The arm's mean divided by the mean of its baseline{shared}; dashed: equal."
    if has_whiskers:
        note += " Whiskers: 95% interval; an arrow where it leaves the drawing."
    return Plot("Ratio to the baseline", note, tuple(rows))


def _why(arms: list[Record]) -> list[Plot]:
    """Plots of the probe's measurements."""
    unseen = [arm["name"] for arm in arms if last_probes(arm)
              and not any("negatives" in entry for entry in last_probes(arm))]  # fmt: skip
    missing = f" Left out, as they do not sample uniformly: {', '.join(unseen)}." if unseen else ""
    known = Lines(
        "Known positives among the mined", "steps", "share of the mined, %",
        _false_share, _ends,
    )  # fmt: skip
    mined = Lines("Mined labels by frequency", _TENTHS, "share of the mined, %", _mined,
                  _first_and_last_tenth, horizontal=(10.0, "uniform"),
                  ticks=range(1, 11))  # fmt: skip
    gradient = [
        Lines(f"Gradient's {key}", "steps", f"{key} of the gradient",
              functools.partial(_gradient, key=key), _ends)
        for key in ("norm", "deviation")
    ]  # fmt: skip
    margins = Lines(
        "Margins at the end", "margin of at most rho", "share of points, %",
        _margins, lambda drawn: _share_missed(drawn, arms), vertical=0.0, markers=False,
    )  # fmt: skip
    gradient_note = "By the points' embeddings: norm of the mean over samples of labels"
    if any(y for arm in arms for _, y, _, _ in gradient[1].points(arm)):
        gradient_note += ", and standard deviation from one sample to the next."
    else:
        gradient.pop()
        gradient_note += ". It has no deviation: every sample holds all labels."
    if {"loss", "score_scale"} & arms[0]["differing"].keys():
        gradient_note += (
            " It grows with the score scale, and losses differ in it: compare the heights of arms "
            "of one loss and scale only."
        )
    row = draw_score_quantiles(arms)
    scores = Plot(
        "Scores of positives and negatives",
        "A label of each point, the sampled negatives, and those of them that are mined. Line: "
        "median; bands: the middle 50% and 90%. Where all sampled labels are negatives, the two "
        "are the same and drawn once." + missing,
        () if row is None else (row,),
    )
    return [
        scores,
        draw_lines("Known positives among the mined", "Mined labels that the point carries. Where "
                 "all known labels are excluded there are none." + missing + _bands(arms),
                 arms, [known]),
        draw_lines("Mined labels by frequency", "At the end; each tenth of the labels, by the "
                 "training points that carry them." + missing + _bands(arms), arms, [mined]),
        draw_lines("Gradient", gradient_note + missing + _bands(arms), arms, gradient),
        draw_lines("Margins at the end", "Score of a point's label less the best of all others. "
                 "The empirical term of Theorem 6 of Reddi et al. (2019), k = 1; lower is "
                 "better.", arms, [margins]),
    ]  # fmt: skip


def _false_share(arm: Record) -> Points:
    return over_probes(
        arm, lambda entry: probe_value(entry, "negatives", "false_share_mined"), scale=100
    )


def _mined(arm: Record) -> Points:
    shares = [probe_value(entry, "negatives", "mined_by_decile") for entry in last_probes(arm)]
    return over_seeds(range(1, 11), [share for share in shares if share], scale=100)


def _gradient(arm: Record, key: str) -> Points:
    return over_probes(arm, lambda entry: probe_value(entry, "gradient", key))


def _margins(arm: Record) -> Points:
    """Distribution function of the margins, from quantiles averaged over seeds."""
    quantiles = [probe_value(entry, "margin", "quantiles") for entry in last_probes(arm)]
    points = over_seeds(MARGIN_QUANTILES, [margins for margins in quantiles if margins])
    return [(margin, 100 * share, 100 * share, 100 * share) for share, margin, _, _ in points]


def _by_frequency(arms: list[Record]) -> Plot:
    panels = [
        Lines(title, _TENTHS, unit, functools.partial(_tenths, key=key), _first_and_last_tenth,
              ticks=range(1, 11))
        for key, title, unit in (("recall", "Recall of each tenth", "recall at 1, %"),
                                 ("precision", "Part of P@1 from each tenth", "part of P@1, %"))
    ]  # fmt: skip
    note = (
        "All test points, first answer. Recall: share of the occurrences of the tenth's labels "
        "that are found. The parts of P@1 add up to it. Lines: mean of the seeds."
    )
    return draw_lines("Rare and frequent labels", note + _bands(arms), arms, panels)


def _tenths(arm: Record, key: str) -> Points:
    groups = [seed["by_label_frequency"] for seed in good_seeds(arm)
              if seed.get("by_label_frequency")]  # fmt: skip
    return over_seeds(range(1, 11), [[group[key] for group in seed] for seed in groups])


def _cost(arms: list[Record]) -> Plot:
    panels = []
    for key, title, unit, size, format_value in (
        ("seconds", "Time of training", "seconds", 1, format_seconds),
        ("peak_memory_bytes", "Memory of the process at its peak", "MiB", 2**20, "{:,.0f}".format),
    ):
        bars = [
            Bar(arm["name"], arm[key] / size, format_value(arm[key] / size),
                seeds=[seed[key] / size for seed in good_seeds(arm)])
            for arm in arms if arm[key] is not None
        ]  # fmt: skip
        if bars:
            alt_text = f"{_values(bars)} {unit}."
            panels.append(draw_bars(title, alt_text, f"{title}, {unit}", bars))
    note = "The runs of the first table. Bars: mean of the seeds; dots: each seed."
    return Plot("Time and memory", note, (Row((), tuple(panels)),) if panels else ())


# -- text -----------------------------------------------------------------------------------


def _values(bars: list[Bar]) -> str:
    return ", ".join(f"{bar.name} {bar.text}" for bar in bars)


def _bands(arms: list[Record]) -> str:
    several = any(len(good_seeds(arm)) > 1 for arm in arms)
    return " Bands: lowest to highest seed." if several else ""


def _ends(drawn: Named) -> str:
    ordered = sorted(drawn, key=lambda pair: -pair[1][-1][1])
    ends = (f"{name} ends at {format_short(points[-1][1])}" for name, points in ordered)
    return f"{', '.join(ends)}."


def _first_and_last_tenth(drawn: Named) -> str:
    ends = (
        f"{name} {format_short(points[0][1])} and {format_short(points[-1][1])}"
        for name, points in drawn
    )
    return f"Percent in the rarest and in the most frequent tenth: {', '.join(ends)}."


def _share_missed(drawn: Named, arms: list[Record]) -> str:
    ends = {arm["name"]: last_probes(arm) for arm in arms}
    shares = (
        f"{name} {100 * np.mean(missed):.0f}%"
        for name, _ in drawn
        if (missed := [e["margin"]["share_not_positive"] for e in ends[name] if "margin" in e])
    )
    return f"Points whose label does not come first (margin of at most 0): {', '.join(shares)}."
