"""The findings of a comparison as sentences."""

from __future__ import annotations

from snm.compare.report.cells import format_mean, format_seconds
from snm.compare.report.paired import (
    RETRIEVAL,
    baseline_of,
    best_arm,
    difference,
    other_loss,
)
from snm.compare.report.parts import PARTS, count_failed
from snm.compare.report.series import Record, good_seeds
from snm.compare.report.summary import BY_LOSS

__all__ = ["verdict"]

_FEW = "from fewer than three seeds"
"""Said of figures without an interval."""


def verdict(results: Record) -> list[str]:
    """The findings as sentences.

    Who leads in each table, arms that are settled against their baselines, gains of top-1,
    failures, intervals.
    """
    sentences = [
        _leader(part.opening, results[key]) for key, part in PARTS.items() if key in results
    ]
    sentences[0] += _unequal(results["arms"])
    if results["plan"]["settings"]["memory"] == "on":
        sentences[0] += " All arms have a memory of neighbours, which can hide their differences."
    if "equal_seconds" in results:
        sentences[-1] += _time_range(results["equal_seconds"])
    gains = [_gains_and_losses(arm, baseline_of(arm, results["arms"])) for arm in results["arms"]
             if ("-" + arm["name"]).endswith("-top-1") and arm["ratio"]]  # fmt: skip
    sentences[1:1] = _settled(results["arms"]) + gains
    failed, total = count_failed(results)
    if failed:
        sentences.append(f"{failed} of {total} runs failed and are missing from these figures.")
    if results["plan"]["seeds"] < 3:
        sentences.append(
            "Fewer than three seeds have no interval: small differences mean nothing here."
        )
    else:
        sentences.append("Intervals are over seeds, on one data set and one split.")
    return sentences


def _unequal(arms: list[Record]) -> str:
    """A note on loss-dependent settings that differ between arms, and so may cause a lead."""
    names = [words for name, words in BY_LOSS.items() if name in arms[0]["differing"]]
    return f" Settings are not equal: arms differ in {_with_and(names)}." if names else ""


def _time_range(arms: list[Record]) -> str:
    """The range of training times; epochs are whole, so the times are only nearly equal."""
    seconds = [arm["seconds"] for arm in arms if arm["seconds"] is not None]
    return (
        f" Arms took {format_seconds(min(seconds))} to {format_seconds(max(seconds))} seconds."
        if seconds
        else ""
    )


def _leader(words: str, arms: list[Record]) -> str:
    """The leader in most metrics, arms close to it, and its R@1 relative to the baseline."""
    if (leaders := best_arm(arms)) is None:
        return f"{words}, no run finished."
    best, first = leaders
    scored = [arm for arm in arms if "R@1" in arm["mean"]]
    value = format_mean(best["mean"]["R@1"], best["ci95"]["R@1"])
    text = f"{words}, {best['name']} has the highest mean in {_share_of_metrics(best, first)}"
    text += f"{_close(best, scored, list(first))}. Its R@1 is {value} percent"
    if best["name"] != best["baseline"]:
        return f"{text}: {_against(best, arms)}."
    others = [arm for arm in scored
              if arm["name"] != arm["baseline"] and arm["ratio"]["R@1"] is not None]  # fmt: skip
    if not others:
        return f"{text}."
    nearest = max(others, key=lambda arm: arm["ratio"]["R@1"])
    if nearest["ratio"]["R@1"] > 1:
        found = f"Farthest above its own baseline is {nearest['name']}"
    else:
        found = f"No arm is above its own baseline; nearest is {nearest['name']}"
    return f"{text}. {found}: {_against(nearest, arms)}."


def _against(arm: Record, arms: list[Record]) -> str:
    """The ratio of an arm's R@1 to its baseline's."""
    ratio, half = arm["ratio"]["R@1"], arm["ratio_ci95"]["R@1"]
    if ratio is None:
        has = "no R@1 above 0 in the same seeds"
        if arm["name"] in other_loss(arms):
            has = "another loss"
        return f"no ratio to {arm['baseline']}, which has {has}"
    # A mean is over all seeds of an arm, a ratio over those that the baseline has as well.
    baseline = baseline_of(arm, arms)
    own, others = ({seed["seed"] for seed in good_seeds(each)} for each in (arm, baseline))
    over = " over the seeds that both have" * (own != others)
    text = f"{format_mean(ratio, half)} times that of {arm['baseline']}{over}"
    if half is None:
        return f"{text}, {_FEW}"
    side = {1: "is above 0", -1: "is below 0"}.get(
        _side(difference(arm, baseline, "R@1")),
        "is not settled: its interval includes 0",
    )
    return f"{text} (± half the 95% interval); seed by seed, the difference {side}"


def _side(paired: tuple[float, float | None] | None) -> int:
    """The side of 0 that a paired difference is on: 1 above, -1 below; 0 if that is not settled.

    The interval of a ratio is that at the estimate, and would settle other arms. This is one rule
    for all sentences, and for the table of differences to the best arm.

    Args:
      paired: a result of `difference`. Without an interval, the sign decides.
    """
    if paired is None:
        return 0
    mean, half = paired[0], paired[1] or 0.0
    return int(mean - half > 0) - int(mean + half < 0)


def _settled(arms: list[Record]) -> list[str]:
    """The arms that are settled at R@1 against their baselines, as a sentence, or nothing.

    Of a single arm, the sentence on the leader says so already.
    """
    others = {
        arm["name"]: difference(arm, baseline_of(arm, arms), "R@1")
        for arm in arms
        if arm["name"] != arm["baseline"] and arm["ratio"].get("R@1") is not None
    }
    parts = []
    for side, word in ((1, "above"), (-1, "below")):
        names = [name for name, paired in others.items()
                 if paired and paired[1] is not None and _side(paired) == side]  # fmt: skip
        if names:
            parts.append(f"{word} 0 for {_with_and(names)}")
    if len(others) < 2 or not parts:
        return []
    whole = "the interval of the difference in R@1 to the baseline is wholly"
    return [f"{PARTS['arms'].opening}, {whole} {' and '.join(parts)}."]


def _share_of_metrics(best: Record, first: dict[str, str]) -> str:
    """The number of metrics in which an arm leads, and the leaders of the others."""
    metrics_of: dict[str, list[str]] = {}
    for name, arm in first.items():
        metrics_of.setdefault(arm, []).append(name)
    own = metrics_of.pop(best["name"], [])
    if not metrics_of:
        return f"all {len(first)} metrics"
    others = "; ".join(f"{arm} in {', '.join(names)}" for arm, names in metrics_of.items())
    return f"{len(own)} of {len(first)} metrics ({others})"


def _close(best: Record, scored: list[Record], names: list[str]) -> str:
    """The metrics in which the interval of the paired difference to another arm includes 0, if any.

    Paired over seeds, as the ratios are, so that arms of other losses are compared as well.
    """
    close: dict[str, list[str]] = {}
    for arm in scored:
        for name in names if arm is not best else ():
            paired = difference(best, arm, name)
            if paired is not None and paired[1] is not None and not _side(paired):
                close.setdefault(arm["name"], []).append(name)
    arms_of: dict[str, list[str]] = {}
    for arm_name, close_names in close.items():
        metrics = "any metric" if len(close_names) == len(names) else _with_and(close_names)
        arms_of.setdefault(metrics, []).append(arm_name)
    parts = [(f"from {_with_and(arms)}", f"in {metrics}") for metrics, arms in arms_of.items()]
    if not parts:
        return ""
    (whom, where), *others = parts
    text = f"; seed by seed, its difference {whom} is not settled {where}"
    return text + "".join(f", nor that {whom} {where}" for whom, where in others)


def _gains_and_losses(arm: Record, baseline: Record) -> str:
    """The metrics in which an arm is better and worse than its baseline."""
    ratios = {name: (ratio, difference(arm, baseline, name)) for name in RETRIEVAL
              if (ratio := arm["ratio"].get(name)) is not None}  # fmt: skip
    parts = []
    undecided = "is not settled (the interval of the difference includes 0) in"
    for side, word in ((1, "gains in"), (-1, "loses in"), (0, undecided)):
        names = [f"{name} ({ratio:.2f})" for name, (ratio, paired) in ratios.items()
                 if _side(paired) == side]  # fmt: skip
        if names:
            parts.append(f"{word} {', '.join(names)}")
    if not parts:
        return f"{arm['name']} has no ratio to {arm['baseline']}."
    has_interval = any(paired and paired[1] is not None for _, paired in ratios.values())
    suffix = "" if has_interval else f", {_FEW}"
    return f"Against {arm['baseline']}, {arm['name']} {'; '.join(parts)}{suffix}."


def _with_and(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
