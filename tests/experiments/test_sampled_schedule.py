"""The committed figures of `sampled_schedule`, computed again from the runs and the formulas."""

import json
import math
import statistics
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "experiments" / "results" / "sampled-schedule.json"
LABELS = {"corel5k": 374, "delicious": 983, "citeulike-t-14k": 13_883}
SETS = json.loads(FILE.read_text(encoding="utf-8"))["sets"]
ARMS = ("constant", "B grows, k' fixed", "B and k' grow", "B falls, k' fixed", "B and k' fall")
RATE = 50.0


@pytest.mark.parametrize("name", LABELS)
def test_every_arm_scores_as_many_labels(name):
    """Four stages of equal length; k' is fixed, or the same share of B at each of them."""
    stages = SETS[name]["stages"]
    assert tuple(stages) == ARMS
    sizes = {arm: [(row["B"], row["k'"]) for row in rows] for arm, rows in stages.items()}
    [(constant, mined)] = sizes["constant"]
    for arm in ARMS[1:]:
        assert len(sizes[arm]) == 4
        assert sum(b for b, _ in sizes[arm]) == 4 * constant
        rises = [b for b, _ in sizes[arm]] == sorted(b for b, _ in sizes[arm])
        assert rises == ("grow" in arm)
        if "fixed" in arm:
            assert {k for _, k in sizes[arm]} == {mined}
        else:
            assert len({b // k for b, k in sizes[arm]}) == 1
    # Falling, the stages are those of growing in reverse order.
    assert stages["B falls, k' fixed"] == stages["B grows, k' fixed"][::-1]
    assert stages["B and k' fall"] == stages["B and k' grow"][::-1]


@pytest.mark.parametrize("name", LABELS)
def test_theory_of_each_stage(name):
    """Weights 1/k' for the k' hardest of B of K - 1 others.

    The label of rank j weighs if it is drawn, with probability B / (K - 1), and at most k' - 1 of
    the j - 1 harder labels are among the B - 1 others.
    """
    others = LABELS[name] - 1
    seen = {}
    # The stages of a falling B are those of the growing one.
    for row in (row for arm in ARMS[:3] for row in SETS[name]["stages"][arm]):
        b, k = row["B"], row["k'"]
        harder = np.arange(others)
        theta = stats.hypergeom.cdf(k - 1, others - 1, harder, b - 1) * b / others / k
        assert theta.sum() == pytest.approx(1)
        squares = float(theta @ theta)
        assert row["theta_1"] == pytest.approx(theta[0])
        assert row["l2"] == pytest.approx(math.sqrt(squares))
        assert row["lemma_2"] == pytest.approx(
            math.sqrt(b / k / others)
        )  # of weights that sum to 1
        assert row["ranks"] == pytest.approx(1 / squares)
        assert row["gradient variance"] == pytest.approx(1 / k - squares)
        assert row["surrogate l1"] == pytest.approx(k * others / b)  # k' weights of (K - 1) / B
        seen[row["l2"]] = row["gaussian"]
    # Theorem 5 for a hinge: ||theta||_2 K G(completion) + G_S, a line over ||theta||_2.
    norms, branches = np.array(list(seen)), np.array(list(seen.values()))
    slope, height = np.polyfit(norms, branches, 1)
    np.testing.assert_allclose(slope * norms + height, branches, rtol=1e-6)
    assert 0 < height < branches.min()


@pytest.mark.parametrize("name", LABELS)
def test_means_are_those_of_three_seeds(name):
    found = SETS[name]
    for row in found["summary"]:
        tried = [
            run for run in found["runs"] if run["part"] == "held out" and run["arm"] == row["arm"]
        ]
        assert sorted(run["rate"] for run in tried) == [15.0, RATE, 150.0]
        best = max(tried, key=lambda run: run["R@1"])["rate"]
        for how, rate in (("plain", RATE), ("tuned", best)):
            runs = [
                run
                for run in found["runs"]
                if (run["part"], run["arm"], run["rate"]) == ("test", row["arm"], rate)
            ]
            assert sorted(run["seed"] for run in runs) == [0, 1, 2] and row[how]["rate"] == rate
            for key in ("R@1", "P@1"):
                values = [run[key] for run in runs]
                assert row[how]["mean"][key] == pytest.approx(statistics.mean(values))
                assert row[how]["sd"][key] == pytest.approx(statistics.stdev(values))


def test_what_the_page_says_of_the_arms():
    """Growing both is best at one rate, a falling B loses everywhere; where the page counts, so."""
    means = {
        (name, row["arm"], how): row[how]["mean"]
        for name, found in SETS.items()
        for row in found["summary"]
        for how in ("plain", "tuned")
    }
    for name in SETS:
        arms = {arm: means[name, arm, "plain"]["R@1"] for arm in ARMS}
        assert max(arms, key=arms.get) == "B and k' grow"
        for how in ("plain", "tuned"):
            for key in ("R@1", "P@1"):
                for arm in ("B falls, k' fixed", "B and k' fall"):
                    assert means[name, arm, how][key] < means[name, "constant", how][key]
    rates = [row["tuned"]["rate"] for found in SETS.values() for row in found["summary"]]
    assert (rates.count(150.0), len(rates)) == (12, 15)
    clear = []
    for found in SETS.values():
        by_arm = {row["arm"]: row for row in found["summary"]}
        for how in ("plain", "tuned"):
            both = by_arm["B and k' grow"][how], by_arm["constant"][how]
            gain = both[0]["mean"]["R@1"] - both[1]["mean"]["R@1"]
            clear.append(gain > max(one["sd"]["R@1"] for one in both))
    assert sum(clear) == 2
