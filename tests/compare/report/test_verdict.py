"""The findings of a comparison in sentences."""

from compare.comparison import BASE, arm, full, results

from snm.compare.report.summary import summarize
from snm.compare.report.tables import all_sheets
from snm.compare.report.verdict import verdict


def test_verdict_on_a_significant_gain():
    base, values = [2.0, 3.0, 4.0], [4.0, 6.0, 8.0]
    said = verdict(results(arm(BASE, base), arm("top-16", values, base), seeds=3))
    # 4, 6 and 8: mean 6, half 4.3027 * 2 / sqrt(3) = 4.97. Less 2, 3 and 4, seed by seed, that is
    # 3 and 2.48: no 0 in it, although the intervals of the two arms overlap.
    assert said == [
        "At equal steps, top-16 has the highest mean in all 11 metrics. Its R@1 is 6.00 ± 4.97 "
        "percent: 2.00 ± 0.00 times that of negative-sampling (± half the 95% interval); seed by "
        "seed, the difference is above 0.",
        "Intervals are over seeds, on one data set and one split.",
    ]


def test_the_headline_weighs_all_metrics():
    base, one = arm(BASE, [4.0, 4.5, 5.0]), arm("top-1", [5.0, 5.5, 6.0], [4.0, 4.5, 5.0])
    for name in one["mean"]:
        if name != "R@1":
            one["mean"][name] = 4.0
            # 0.5 less with every seed, but for P@5: more with one seed, less with the others.
            for seed, value in zip(one["seeds"], (3.5, 4.0, 4.5), strict=True):
                seed["metrics"][name] = value + (1.0 if (name, value) == ("P@5", 3.5) else 0.0)
    said = verdict(results(base, one, seeds=3))[0]
    assert said.startswith(
        "At equal steps, negative-sampling has the highest mean in 10 of 11 metrics (top-1 in R@1);"
        " seed by seed, its difference from top-1 is not settled in P@5. Its R@1 is 4.50 ± 1.24 "
        "percent. "
    )


def test_arms_that_are_as_close_to_the_best_are_named_together():
    base = [2.0, 2.0, 2.0]
    # Less 4, 6 and 5: 1, -2.5 and 0.
    close = [arm(f"top-{k}", [5.0, 3.5, 5.0], base) for k in (4, 64)]
    best = arm("top-16", [4.0, 6.0, 5.0], base)
    assert (
        "in all 11 metrics; seed by seed, its difference from top-4 and top-64 is not settled in "
        "any metric. " in verdict(results(arm(BASE, base), best, *close, seeds=3))[0]
    )


def test_arms_that_are_close_in_other_metrics_follow():
    base = [2.0, 2.0, 2.0]
    close = [arm(f"top-{k}", [5.0, 3.5, 5.0], base) for k in (4, 64)]
    for seed in close[1]["seeds"]:
        for name in seed["metrics"]:
            if name not in ("R@1", "P@5"):
                seed["metrics"][name] = 0.0
    best = arm("top-16", [4.0, 6.0, 5.0], base)
    assert (
        "its difference from top-4 is not settled in any metric, nor that from top-64 in R@1 and "
        "P@5. "
    ) in verdict(results(arm(BASE, base), best, *close, seeds=3))[0]


def test_arms_are_compared_with_the_best_seed_by_seed():
    base, best = arm(BASE, [2.0, 3.0, 4.0]), arm("top-16", [4.0, 6.0, 8.0], [2.0, 3.0, 4.0])
    other = arm("softmax", [5.0, None, 7.0], baseline="softmax")
    found = results(base, best, other, seeds=3, equal_seconds=[best])
    sheet = {sheet.title: sheet for sheet in all_sheets(found)}["Against the best arm"]
    assert sheet.columns == ("arm", "R@1, equal steps", "P@1, equal steps",
                             "R@1, equal seconds", "P@1, equal seconds")  # fmt: skip
    # 2, 3 and 4 less than the best: mean 3, half 4.3027 / sqrt(3). Two shared seeds have no
    # interval.
    assert sheet.rows == (
        (BASE, "-3.00 ± 2.48", "-3.00 ± 2.48", "-", "-"),
        ("top-16", "best", "best", "best", "best"),
        ("softmax", "+0.00", "+0.00", "-", "-"),
    )
    one = results(arm(BASE, [2.0]), arm("top-1", [3.0], [2.0]), seeds=1)
    assert "Against the best arm" not in {sheet.title for sheet in all_sheets(one)}


def test_two_seeds_have_no_interval():
    found = results(arm(BASE, [2.0, 4.0]), arm("top-16", [4.0, 8.0], [2.0, 4.0]))
    assert verdict(found) == [
        "At equal steps, top-16 has the highest mean in all 11 metrics. Its R@1 is 6.00 percent: "
        "2.00 times that of negative-sampling, from fewer than three seeds.",
        "Fewer than three seeds have no interval: small differences mean nothing here.",
    ]
    sheets = {sheet.title: sheet for sheet in all_sheets(found)}
    assert "Against the best arm" not in sheets
    assert sheets["Equal steps"].note.startswith("Fewer than three seeds, so no intervals; ")
    assert sheets["Equal steps"].rows[1][2] == "6.00 (2.00x)"


def test_verdict_on_an_insignificant_gain():
    # Residuals (3 - 2.2) / 2, (1.4 - 2.2) / 2 and 0: half 4.3027 * 0.4 / sqrt(3) = 0.99.
    # Differences 1, -0.6 and 0.2: mean 0.2, half 1.99.
    base, values = [2.0, 2.0, 2.0], [3.0, 1.4, 2.2]
    said = verdict(results(arm(BASE, base), arm("top-16", values, base), seeds=3))[0]
    assert said.endswith(
        "1.10 ± 0.99 times that of negative-sampling (± half the 95% interval); seed by seed, the "
        "difference is not settled: its interval includes 0."
    )


def test_sentences_do_not_contradict_each_other():
    # The ratio is 1.5 with every seed; the differences are 0.5, 1.5 and 4: mean 2, half 4.48.
    base, values = [1.0, 3.0, 8.0], [1.5, 4.5, 12.0]
    arms = arm(BASE, base), arm("top-1", values, base), arm("top-16", base, base)
    said = verdict(results(*arms, seeds=3))
    whom = "its difference from negative-sampling and top-16"
    assert f"{whom} is not settled in any metric" in said[0] and "1.50 ± 0.00" in said[0]
    assert said[0].endswith("seed by seed, the difference is not settled: its interval includes 0.")
    assert said[1].startswith("Against negative-sampling, top-1 is not settled (")


def test_arms_that_are_settled_against_their_baselines_are_listed():
    base = [2.0, 4.0, 3.0]
    arms = [arm(BASE, base), *(arm(name, values, base) for name, values in (
        ("top-16", [4.0, 8.0, 6.0]), ("top-1-exclude-all", [1.0, 2.0, 1.5]),
        ("top-1", [1.5, 3.0, 2.25]), ("anneal", [3.0, 3.0, 3.0])))]  # fmt: skip
    assert verdict(results(*arms, seeds=3))[1] == (
        "At equal steps, the interval of the difference in R@1 to the baseline is wholly above 0 "
        "for top-16 and below 0 for top-1-exclude-all and top-1."
    )


def test_verdict_on_losses_of_top_1():
    base, one = arm(BASE, [2.0, 4.0, 3.0]), arm("top-1", [1.0, 2.0, 1.5], [2.0, 4.0, 3.0])
    for seed, better, other in zip(one["seeds"], (2.5, 5.0, 3.75), (3.0, 2.4, 2.7), strict=True):
        seed["metrics"] |= {"R@1": better, "P@5": other}  # the latter is 1 more, 1.6 and 0.3 less
    one |= summarize(one["seeds"], base["seeds"])
    assert verdict(results(base, one, seeds=3))[1] == (
        "Against negative-sampling, top-1 gains in R@1 (1.25); loses in R@3 (0.50), R@5 (0.50), "
        "P@1 (0.50), P@3 (0.50); is not settled (the interval of the difference includes 0) in P@5 "
        "(0.90)."
    )


def test_verdict_when_the_baseline_leads():
    base = arm(BASE, [4.0])
    said = verdict(results(base, arm("top-16", [3.0], [4.0]), seeds=1))
    assert said[0] == (
        "At equal steps, negative-sampling has the highest mean in all 11 metrics. Its R@1 is 4.00 "
        "percent. No arm is above its own baseline; nearest is top-16: 0.75 times that of "
        "negative-sampling, from fewer than three seeds."
    )
    assert said[-1].startswith("Fewer than three seeds")
    other = "softmax-negative-sampling"
    more = [arm(other, [1.0], baseline=other), arm("softmax-top-4", [2.0], [1.0], baseline=other)]
    assert (
        "Farthest above its own baseline is softmax-top-4: 2.00"
        in (verdict(results(base, *more, seeds=1))[0])
    )


def test_the_verdict_agrees_with_the_means():
    # R@1 of `corel5k`: the mean of the seeds' ratios is 1.06, but the mean of top-8 is lower.
    base, values = [7.25, 3.68], [5.98, 4.73]
    said = verdict(results(arm(BASE, base), arm("top-8", values, base)))[0]
    assert said.endswith(
        "No arm is above its own baseline; nearest is top-8: 0.98 times that of "
        "negative-sampling, from fewer than three seeds."
    )
    # Without seed 1, the ratio is not that of the means.
    said = verdict(results(arm(BASE, base), arm("top-8", [5.98, None], base)))[0]
    assert said.endswith(
        "0.82 times that of negative-sampling over the seeds that both have, from fewer than three "
        "seeds."
    )
    less = arm("top-8", [3.0, None], [4.0, 8.0])
    assert verdict(results(arm(BASE, [4.0, 8.0]), less))[0].endswith(
        "No arm is above its own baseline; nearest is top-8: 0.75 times that of negative-sampling "
        "over the seeds that both have, from fewer than three seeds."
    )
    # A seed that a third arm lacks is no concern of these two.
    lost = arm("top-1", [3.0, None], base)
    said = verdict(results(arm(BASE, base), arm("top-8", values, base), lost))[0]
    assert "seeds that both have" not in said


def test_verdict_on_failures_tuning_and_seconds():
    said = verdict(full())
    assert [s.split(",")[0] for s in said] == [
        "At equal steps", "Against negative-sampling",
        "With each arm at its best settings",
        "In equal seconds", "5 of 24 runs failed and are missing from these figures.",
        "Fewer than three seeds have no interval: small differences mean nothing here.",
    ]  # fmt: skip
    assert said[1].endswith("loses in R@1 (0.50), R@3 (0.50), R@5 (0.50), P@1 (0.50), P@3 (0.50), "
                            "P@5 (0.50), from fewer than three seeds.")  # fmt: skip
    assert said[3].endswith("Arms took 4.5 to 4.5 seconds.")
    unfinished = results(arm(BASE, [None]), arm("top-1", [None]), seeds=1)
    assert verdict(unfinished)[0] == "At equal steps, no run finished."
