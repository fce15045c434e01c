"""Measures the complexities of linear and two-layer classes on data, and evaluates Theorem 5.

The generalization bounds of ordered weighted losses grow with ||theta||_1, ||theta||_2 and the
complexity of the class (Reddi et al., 2019, section 4). The table shows the complexities on
training points with TF-IDF features of unit length: for the linear class with label embeddings of
unit length, exact or estimated by drawing multipliers; for the two-layer class of the same norm, a
lower bound from gradient ascent and an upper bound. The plot shows both branches of Theorem 5,
without the factors that O~ hides, against the number B of sampled labels, for top-k SNM and
negative sampling.

    python -m experiments.theory.complexity ../shared/data/delicious ../shared/data/citeulike-t-14k

Takes a few seconds per data set.
"""

from __future__ import annotations

import time

import numpy as np
import tyro

import snm
from experiments.shared.command_line import run_command
from experiments.shared.figures import COLOURS, panels, save_results
from snm.data.weighting import Weighting
from snm.losses.rank_weights import negative_sampling, top
from snm.losses.theta import theta_norms
from snm.theory.complexity import linear_complexity, two_layer_complexity
from snm.theory.constants import lemma_7, phi_largest
from snm.theory.generalization import Complexity, theorem_5

TOP, DELTA = 5, 0.05


def bounds(complexity: Complexity, n: int, num_labels: int) -> list[dict[str, float]]:
    """Theorem 5 for the BOWL with hinge and scores in [-1, 1], for each B and way of sampling."""
    rows = []
    for sampled in np.unique(np.geomspace(TOP, num_labels - 1, 12).astype(int)):
        scale = {"num_labels": num_labels, "retrieval_k": TOP, "scale": "surrogate"}
        for how, weights in (
            ("top-k SNM", top(TOP, sampled=int(sampled), **scale)),
            ("negative sampling", negative_sampling(int(sampled), **scale)),
        ):
            l1, l2 = theta_norms(weights, int(sampled), num_labels)
            constants = lemma_7("bowl", l1, l2, 1.0, phi_largest("hinge", -1.0))
            bound = theorem_5(constants, complexity, n, num_labels, DELTA)
            rows.append({"B": int(sampled), "how": how, "l1": l1, "l2": l2,
                         "gaussian": bound.gaussian, "rademacher": bound.rademacher,
                         "confidence": bound.confidence, "range": constants.largest})  # fmt: skip
    return rows


def main(data: tyro.conf.Positional[tuple[str, ...]]) -> None:
    """Measures each data set, prints the table and draws the plot.

    Args:
      data: folders of data sets.
    """
    rows, details = [], {}
    figure, axes = panels(len(data))
    for axis, source in zip(axes, data, strict=True):
        dataset = snm.load_data(source)
        train = dataset.train
        kept = np.flatnonzero(np.diff(train.labels.indptr))
        features = Weighting.fit("tfidf", train.features).apply(train.features)[kept]
        labels = train.labels[kept]
        started = time.perf_counter()
        linear = linear_complexity(features, labels, draws=16)
        layers = two_layer_complexity(features, labels, draws=4, steps=40)
        seconds = time.perf_counter() - started
        how = "estimate" if linear.standard_error[1] else "exact"
        for name, what in (
            ("gaussian", "G_S, estimate"),
            ("gaussian_completion", f"G of the completion, {how}"),
            ("rademacher_completion", "R of the completion, bound"),
        ):
            at = {"gaussian": 0, "gaussian_completion": 1}.get(name)
            rows.append({
                "data": dataset.name, "complexity": what,
                "linear": getattr(linear.estimate, name),
                "standard error": None if at is None else linear.standard_error[at],
                "at least": getattr(linear.below, name) or None,
                "at most": getattr(linear.above, name),
                "two layers, at least": getattr(layers.below, name) or None,
                "two layers, at most": getattr(layers.above, name),
            })  # fmt: skip
        found = bounds(linear.estimate, len(kept), train.num_labels)
        details[dataset.name] = {"points": len(kept), "labels": train.num_labels,
                                 "sha256": dataset.sha256, "seconds": seconds,
                                 "theorem_5": found}  # fmt: skip
        for number, way in enumerate(("top-k SNM", "negative sampling")):
            mine = [row for row in found if row["how"] == way]
            for key, line in (("gaussian", "-"), ("rademacher", "--")):
                axis.plot([row["B"] for row in mine], [row[key] for row in mine], line,
                          color=COLOURS[number], label=f"{way}, {key.capitalize()}")  # fmt: skip
        limit = [row["range"] for row in found if row["how"] == "top-k SNM"]
        axis.plot([row["B"] for row in found if row["how"] == "top-k SNM"], limit, ":",
                  color="#555555", label="range of the loss (SNM)")  # fmt: skip
        axis.set(xscale="log", yscale="log", xlabel="B, sampled labels",
                 title=f"{dataset.name}, K = {train.num_labels:,}")  # fmt: skip
    axes[0].set_ylabel(f"branches of Theorem 5, k = {TOP}")
    axes[0].legend(fontsize=7)
    title = "Complexities on training points, unit class rows"
    save_results("complexity", title, rows, figure, k=TOP, delta=DELTA, data=details)


if __name__ == "__main__":
    run_command(main)
