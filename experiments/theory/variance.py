"""Measures the variance of the sampled loss and of its gradient against B and k'.

Stochastic Negative Mining samples B labels and keeps the k' with the highest scores (Reddi et al.,
2019, Algorithm 1, with weights 1/k'). For one example with K labels the experiment draws the loss
and its gradient in the scores many times. It compares their variances with `snm.theory.variance`:
the bound k' (1 - B/N) (vartheta_1 spread)^2 for the loss, and, for the hinge without clipping, the
exact value ||vartheta||_2^2 - ||theta||_2^2 for the gradient.

    python -m experiments.theory.variance

Takes about 20 seconds on 2 cores.
"""

from __future__ import annotations

import numpy as np

from experiments.shared.figures import COLOURS, panels, save_results
from snm.losses.rank_weights import top
from snm.theory.variance import linear_gradient_variance, value_variance_bound

K, DRAWS = 2049, 3000
SAMPLED = (16, 64, 256, 1024, 2048)
MINED = (1, 4, 16, None)  # None: all sampled labels


def measure(
    scores: np.ndarray, sampled: int, mined: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Variance of the BOWL's negative part (hinge), and the trace of its gradient's covariance."""
    values = np.empty(DRAWS)
    total, squares = np.zeros(scores.size), 0.0
    for number in range(DRAWS):
        chosen = rng.choice(scores.size, sampled, replace=False)
        hardest = chosen[np.argpartition(-scores[chosen], mined - 1)[:mined]]
        values[number] = np.mean(1 + scores[hardest])
        total[hardest] += 1 / mined
        squares += 1 / mined
    mean = total / DRAWS
    # Unbiased: the mean of the squares minus the square of the mean, times n / (n - 1).
    trace = (squares / DRAWS - mean @ mean) * DRAWS / (DRAWS - 1)
    # If all labels are sampled, only rounding errors remain.
    return round(float(values.var(ddof=1)), 15), round(float(trace), 15)


def main() -> None:
    """Draws samples, measures variances, prints the table and draws the plot."""
    rng = np.random.default_rng(0)
    scores = np.clip(rng.normal(0, 0.25, K - 1), -1, 1)
    spread = float(np.ptp(scores))
    figure, axes = panels(2)
    rows = []
    for number, some in enumerate(MINED):
        curve = []
        for sampled in SAMPLED:
            mined = sampled if some is None else some
            weights = top(mined)
            value, trace = measure(scores, sampled, mined, rng)
            bound = value_variance_bound(weights, sampled, K, spread)
            exact = linear_gradient_variance(weights, sampled, K)
            assert value <= bound * 1.1 + 1e-12
            curve.append((sampled, value, bound, trace, exact))
            rows.append(
                {
                    "k'": "all (negative sampling)" if some is None else str(mined),
                    "B": sampled,
                    "variance of the value": value,
                    "bound": bound,
                    "variance of the gradient": trace,
                    "exact": exact,
                }
            )
        x, value, bound, trace, exact = np.array(curve).T
        colour = COLOURS[number]
        label = "all sampled" if some is None else f"k' = {some}"
        for axis, points, line, mark in (
            (axes[0], value, bound, "o-"),
            (axes[1], trace, exact, "o"),  # on the dashed line
        ):
            shown = line > 0
            axis.plot(x[shown], points[shown], mark, color=colour, markersize=4, label=label)
            axis.plot(x[shown], line[shown], "--", color=colour, linewidth=1)
    for axis, title in zip(
        axes, ("value: dashed the bound", "gradient: dashed exact"), strict=True
    ):
        axis.set(xscale="log", yscale="log", xlabel="B, sampled labels", title=title)
    axes[0].set_ylabel("variance over samples")
    axes[1].legend()
    title = f"Variance of SNM at K = {K}, BOWL with hinge, weights 1/k', {DRAWS} draws"
    save_results("variance", title, rows, figure, num_labels=K, draws=DRAWS, spread=spread)


if __name__ == "__main__":
    main()
