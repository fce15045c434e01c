"""`results.csv` has one line for each run."""

import csv

import pytest
from compare.comparison import BASE, NAMES, arm, full, results

from snm.compare.report.flat import results_csv


def test_a_line_for_each_run():
    base = [2.0, 4.0]
    bowl = arm(BASE, base, learning_rate=50.0, vartheta="top", tail_epsilon=0.5)
    other = arm("softmax", [1.0, None], base, learning_rate=20.0, vartheta=None, tail_epsilon=None)
    lines = list(csv.DictReader(results_csv(results(bowl, other, tuned=[bowl])).splitlines()))
    assert [(line["part"], line["arm"], line["seed"]) for line in lines] == [
        ("equal steps", BASE, "0"), ("equal steps", BASE, "1"),
        ("equal steps", "softmax", "0"), ("equal steps", "softmax", "1"),
        ("tuned", BASE, "0"), ("tuned", BASE, "1"),
    ]  # fmt: skip
    assert all(line[name] == "4.0" for line in lines[1::4] for name in NAMES)
    assert (lines[0]["seconds"], lines[0]["peak_memory_bytes"]) == ("4.0", str(2**29))
    assert [line["learning_rate"] for line in lines[:4]] == ["50.0", "50.0", "20.0", "20.0"]
    assert (lines[0]["tail_epsilon"], lines[2]["tail_epsilon"]) == ("0.5", "")  # no setting of both
    assert (lines[3]["failed"], lines[3]["R@1"]) == ("loss is not finite", "")
    assert lines[2]["failed"] == "" and lines[2]["baseline"] == BASE


def test_ratios_of_an_arm_are_in_the_lines_of_its_seeds():
    base = [2.0, 4.0, 6.0]
    found = results(arm(BASE, base), arm("top-1", [6.0, 4.0, 2.0], base), seeds=3)
    lines = list(csv.DictReader(results_csv(found).splitlines()))
    # The means are equal, and the residuals 1, 0 and -1; t for 2 degrees at 97.5% is 4.302653.
    assert [line["ratio P@1"] for line in lines] == [""] * 3 + ["1.0"] * 3
    assert [line["ratio_ci95 P@1"] for line in lines[:3]] == [""] * 3  # the baseline's own
    assert [float(line["ratio_ci95 P@1"]) for line in lines[3:]] == pytest.approx(
        [4.302653 / 3**0.5] * 3, rel=1e-6
    )
    found = results(arm(BASE, base[:2]), arm("top-1", [4.0, 2.0], base[:2]))
    lines = list(csv.DictReader(results_csv(found).splitlines()))
    assert [line["ratio P@1"] for line in lines] == [""] * 2 + ["1.0"] * 2
    assert {line["ratio_ci95 P@1"] for line in lines} == {""}


def test_names_stay_whole():
    lines = list(csv.reader(results_csv(full()).splitlines()))
    assert {len(line) for line in lines} == {len(lines[0])}
    assert "<i>&amp;" in {line[1] for line in lines}
    assert len(lines) == 1 + 2 * (6 + 3 + 3)
