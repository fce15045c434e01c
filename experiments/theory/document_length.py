"""Evaluates ranking bounds against the length m of document lists, and measures online descent.

Tewari and Chaudhuri (2015) use the Lipschitz constant in the max norm. Their bounds for ListNet do
not grow with m (Theorems 5 and 6), or only by a logarithm (Theorems 9 and 17). The bound of
Chapelle and Wu grows with sqrt(m), and the constant of RankSVM is O(m^2). The experiment also
measures the excess loss of one pass of online gradient descent, with the step of Theorem 5, on
generated lists.

    python -m experiments.theory.document_length

Takes about 30 seconds on 2 cores.
"""

from __future__ import annotations

import math

import numpy as np

from experiments.shared.figures import COLOURS, DASHES, panels, save_results
from snm.losses.listwise import listnet
from snm.theory import ranking, ranking_fit

LENGTHS = (2, 5, 10, 30, 100, 300, 1000)
N, RADIUS, REACH, DELTA, LARGEST_GRADE = 1_000_000, 1.0, 1.0, 0.05, 2.0
RUN_N, TEST_N, D = 500, 1500, 8
TRAINED = (2, 5, 10, 30, 100)


def bounds(m: int) -> dict[str, float]:
    """The bounds at n = 1,000,000. B bounds the loss minus the entropy and does not depend on m."""
    net, svm = ranking.listnet_constants(), ranking.ranksvm_constants(m)
    assert net.smoothness is not None
    # Cross entropy minus the entropy of the grades is at most G (||s|| + ||y||) in the max norm.
    largest = net.lipschitz * (RADIUS * REACH + LARGEST_GRADE)
    two = net.lipschitz_l2
    size = (RADIUS, REACH)
    return {
        "Theorem 5 (OGD)": ranking.theorem_5(net.lipschitz, *size, N).total,
        "Theorem 6 (ERM, lambda)": ranking.theorem_6(net.lipschitz, *size, N).total,
        "Theorem 9": ranking.theorem_9(net.lipschitz, *size, largest, N, m, DELTA).total,
        "Theorem 17, loss 0": ranking.theorem_17(
            net.smoothness, *size, largest, N, m, DELTA, 0.0
        ).total,
        "Chapelle-Wu": ranking.chapelle_wu(two, *size, N, m, DELTA).total,
        "RankSVM, Theorem 5": ranking.theorem_5(svm.lipschitz, *size, N).total,
    }


def lists(n: int, m: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Generates documents of norm at most 1, with grades 0 to 2 from a linear score and noise."""
    x = rng.normal(size=(n, m, D)) / math.sqrt(D)
    x /= np.maximum(1, np.linalg.norm(x, axis=-1, keepdims=True))
    noise = 0.5 * rng.normal(size=(n, m))
    return x, np.clip(np.round(1 + 2 * x.sum(axis=-1) / math.sqrt(D) + noise), 0, LARGEST_GRADE)


def excess(m: int, rng: np.random.Generator) -> float:
    """Loss of online descent over 500 lists minus that of the best w, on fresh lists."""
    test = lists(TEST_N, m, rng)
    best = ranking_fit.regularized_erm(*test, listnet, radius=RADIUS, tolerance=1e-5)
    step = ranking_fit.prescribed_step(2.0, RADIUS, REACH, RUN_N)
    w = ranking_fit.online_gradient_descent(*lists(RUN_N, m, rng), listnet, step=step)
    return loss(*test, w) - loss(*test, best.weights)


def loss(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    """Mean ListNet loss over lists."""
    s = x @ w
    p = np.exp(y) / np.exp(y).sum(axis=1, keepdims=True)
    return float((np.log(np.exp(s).sum(axis=1)) - (p * s).sum(axis=1)).mean())


def main() -> None:
    """Evaluates the bounds, trains, prints the table and draws the plot."""
    rng = np.random.default_rng(0)
    rows = []
    limit = ranking.theorem_5(2.0, RADIUS, REACH, RUN_N).total
    for m in LENGTHS:
        row: dict[str, float | int | None] = {"m": m, **bounds(m), "measured": None}
        if m in TRAINED:
            row["measured"] = excess(m, rng)
            assert row["measured"] <= limit
        rows.append(row)
    figure, axes = panels(2)
    for number, name in enumerate(bounds(2)):
        points = [row[name] for row in rows]
        axes[0].plot(LENGTHS, points, color=COLOURS[number], linestyle=DASHES[number], label=name)
    axes[0].set(xscale="log", yscale="log", ylim=(1e-3, 1e6), xlabel="documents a list, m",
                ylabel="bound", title="bounds at n = 1,000,000")  # fmt: skip
    axes[0].legend(ncols=2, fontsize=7, loc="upper left")
    measured = [row["measured"] for row in rows if row["measured"] is not None]
    axes[1].plot(TRAINED, measured, "o-", color=COLOURS[0], label="measured")
    axes[1].axhline(limit, color=COLOURS[1], linestyle="--", label="Theorem 5")
    axes[1].set(xscale="log", yscale="log", xlabel="documents a list, m", ylabel="excess loss",
                title=f"online descent on ListNet, n = {RUN_N}")  # fmt: skip
    axes[1].legend()
    title = f"Bounds against the length of lists (n = {N:,}, W = R = 1, delta = {DELTA:g})"
    save_results("document-length", title, rows, figure, measured_n=RUN_N, measured_bound=limit)


if __name__ == "__main__":
    main()
