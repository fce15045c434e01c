"""Draws Figure 1 of Agarwal, Har-Peled and Roth (2005): two AUC bounds against the sample size.

The setting is linear ranking on the line with delta = 0.01. The bound with bipartite rank-shatter
coefficients (r = 3) is compared with that of Freund et al. (2003) with shatter coefficients
(s(2m) = 8m + 1). The paper claims that the new bound is tighter wherever it is meaningful (below
0.5).

    python -m experiments.theory.auc_figure_1

Takes one or two seconds.
"""

from __future__ import annotations

import numpy as np

from experiments.shared.figures import COLOURS, panels, save_results
from snm.theory.auc import linear_1d_bounds

DELTA = 0.01
SHARES = (0.5, 0.1, 0.01)  # fractions of positives
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)


def main() -> None:
    """Draws the figure."""
    figure, axes = panels(len(SHARES), width=3.2)
    rows = []
    for axis, share in zip(axes, SHARES, strict=True):
        grid = np.unique(np.geomspace(200, 300_000, 200).round())
        curves = np.array(
            [
                linear_1d_bounds(DELTA, max(1, round(share * s)), round((1 - share) * s))
                for s in grid
            ]
        )
        axis.plot(grid, curves[:, 0], color=COLOURS[0], label="rank-shatter (Corollary 1)")
        axis.plot(grid, curves[:, 1], "--", color=COLOURS[1], label="Freund et al. (Theorem 6)")
        axis.axhline(0.5, color="#888888", linewidth=0.8)
        axis.set(xscale="log", ylim=(0, 1), xlabel="sample size M", title=f"m/(m+n) = {share:g}")
        meaningful = curves[:, 1] < 0.5
        assert (curves[meaningful, 0] < curves[meaningful, 1]).all()
        for size in SIZES:
            ours, theirs = linear_1d_bounds(DELTA, round(share * size), round((1 - share) * size))
            ratio = theirs / ours
            rows.append(
                {"m/(m+n)": share, "M": size, "ours": ours, "Freund et al.": theirs, "ratio": ratio}
            )
    axes[0].set_ylabel("deviation of the AUC")
    axes[0].legend(loc="upper right")
    title = f"AUC on the line: deviation with probability {1 - DELTA:g}"
    save_results("auc-figure-1", title, rows, figure, delta=DELTA)


if __name__ == "__main__":
    main()
