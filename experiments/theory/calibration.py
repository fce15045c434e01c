"""Compares condition (3) of Theorem 4 with calibration measured by minimization.

By Theorem 4 of Reddi et al. (2019) an ordered weighted loss is calibrated if its weights are large
enough for the tail of the label distribution (condition (3)). This experiment minimizes each loss
at known distributions, over all score vectors and over those with a wrong top k. The gap between
the minima is positive if the loss is calibrated, and then the minimizer predicts the k most
probable labels. The top-k loss with a heavy tail is a counterexample: equal scores minimize it. The
condition is sufficient, but not necessary: with a light tail the top-k loss violates it and is
calibrated nevertheless.

The plot increases M, the rank up to which the weights are 1/k. The gap becomes positive at the M
that condition (3) requires, not before.

    python -m experiments.theory.calibration

Takes about 25 seconds on 2 cores.
"""

from __future__ import annotations

import numpy as np

from experiments.shared.figures import COLOURS, DASHES, panels, save_results
from snm.losses.rank_weights import top
from snm.losses.theta import theta_from_vartheta
from snm.theory.calibration import condition_3, recommended_theta, relevant_labels, smallest_m
from snm.theory.calibration_gap import calibration_gap
from snm.theory.retrieval import bayes_compatible

K, TOP = 12, 2
SMOOTH = ("logistic", "squared_hinge", "exponential")


def distributions() -> dict[str, np.ndarray]:
    """Distributions with few probable labels and a light, a short or a heavy tail."""
    light = np.array([0.45, 0.4, *[0.015] * (K - TOP)])
    few = np.array([0.3, 0.25, 0.2, 0.15, 0.1, *[0.0] * (K - 5)])
    heavy = np.array([0.16, 0.14, *[0.07] * (K - TOP)])
    return {"light tail": light, "five labels": few, "heavy tail": heavy}


def thetas(distribution: np.ndarray) -> dict[str, np.ndarray]:
    """The paper's choices of theta; each is 1/k for the first k ranks."""
    snm = {
        f"top-{TOP} SNM, B = {b}": theta_from_vartheta(
            top(TOP, scale="surrogate", sampled=b, num_labels=K, retrieval_k=TOP), b, K
        )
        for b in (4, 8)
    }
    most = relevant_labels(distribution)
    return {
        f"top-{TOP} loss": recommended_theta(K, TOP, TOP),
        f"1/k up to M = {most}": recommended_theta(K, TOP, most),
        **snm,
    }


def main() -> None:
    """Minimizes the losses, prints the table and draws the plot."""
    rows = []
    for name, distribution in distributions().items():
        # With probability 0 the infimum is at infinite scores; a small probability avoids that.
        known = distribution + 1e-6
        known /= known.sum()
        for weights, theta in thetas(distribution).items():
            condition = condition_3(distribution, theta, TOP)
            row = {
                "distribution": name,
                "theta": weights,
                "(3) holds": condition.holds,
                "fails at m": condition.first_failure,
            }
            answers = []
            for kind in ("powl", "bowl"):
                for phi in SMOOTH[:2]:
                    found = calibration_gap(known, theta, TOP, phi=phi, kind=kind)
                    name_of = f"{kind} {phi.replace('_', ' ')}"
                    row[name_of] = found.gap if found.calibrated else 0.0
                    answers.append(bool(bayes_compatible(found.scores, known, TOP)))
            rows.append({**row, "all answer Top_k": all(answers)})
    figure, axes = panels(2)
    heavy = distributions()["heavy tail"]
    needed = smallest_m(heavy, TOP)
    ranks = list(range(TOP, K))
    for axis, kind in zip(axes, ("powl", "bowl"), strict=True):
        for number, phi in enumerate(SMOOTH):
            gaps = [
                calibration_gap(heavy, recommended_theta(K, TOP, m), TOP, phi=phi, kind=kind).gap
                for m in ranks
            ]
            axis.plot(
                ranks, gaps, "o", linestyle=DASHES[number], color=COLOURS[number], markersize=3,
                label=phi.replace("_", " "),
            )  # fmt: skip
        axis.axvline(needed, color="#888888", linewidth=0.8)
        axis.annotate("smallest M of (3)", (needed, axis.get_ylim()[1]), xytext=(-4, -8),
                      textcoords="offset points", ha="right", fontsize=8)  # fmt: skip
        axis.set(xlabel="M: theta is 1/k up to rank M, then 0", title=f"{kind.upper()}, heavy tail")
    axes[0].set_ylabel("cost of the best wrong answer")
    axes[0].legend(loc="center left")
    title = f"Calibration at K = {K}, k = {TOP}: condition (3) and the minimum of the loss"
    save_results(
        "calibration", title, rows, figure, distributions=distributions(), smallest_m=needed
    )


if __name__ == "__main__":
    main()
