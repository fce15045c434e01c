"""Evaluates Tables 1 to 3 of Lan, Liu, Ma and Li (2009), and checks their claims.

Tables 2 and 3 claim under which condition a transformation has the tighter bound. For each claim,
and for ListMLE against RankCosine, the experiment counts over a grid of a, BM, b and m how often
the condition agrees with the factors that it is derived from (printed N of the sigmoid), and with
the factors for the exact largest slope a/4.

    python -m experiments.theory.listwise_tables

Takes a few seconds.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np

from experiments.shared.figures import COLOURS, DASHES, panels, save_results
from snm.losses.transformations import exponential, linear, sigmoid
from snm.theory import listwise, listwise_tables

SLOPES = (0.25, 0.5, 1.0, 2.0)
REACHES = (0.25, 0.5, 1.0, 2.0, 5.0)  # BM
ROOMS = (0.01, 0.05, 0.2, 0.5, 1.0, 3.0)  # b - aBM
LENGTHS = (3, 4, 5, 6, 10, 100, 1000)
EXAMPLE = {"a": 1.0, "reach": 1.0, "b": 3.0}


def main() -> None:
    """Counts agreements, prints Table 1 for one setting, and draws the factors."""
    counts: dict[str, Counter[str]] = {}

    def count(name: str, claimed: bool, printed: bool, exact: bool) -> None:
        seen = counts.setdefault(name, Counter())
        seen["settings"] += 1
        seen["claimed"] += claimed
        seen["agrees with printed N"] += claimed == printed
        seen["agrees with exact N"] += claimed == exact

    for a, reach, room in itertools.product(SLOPES, REACHES, ROOMS):
        b, k = a * reach + room, math.exp(-a * reach)
        for claim in listwise_tables.table_2(a, b, reach):
            count(f"Table 2 (RankCosine): {claim.text}", claim.claimed, claim.printed, claim.exact)
        for m in LENGTHS:
            if room > k * k * (1 + k):
                for claim in listwise_tables.table_3(a, b, reach, m):
                    name = f"Table 3 (ListMLE, ListNet): {claim.text}"
                    count(name, claim.claimed, claim.printed, claim.exact)
            for psi in (linear(a, b), exponential(a), sigmoid(a)):
                computed, claimed = listwise_tables.listmle_beats_rankcosine(psi, reach, m)
                when = "m >= 6" if m >= 6 else "m < 6"
                count(f"ListMLE before RankCosine, {when}", claimed, computed, computed)
    example = {c.text: c for c in listwise_tables.table_3(1.0, 11.0, 10.0, 1000)}
    for text in ("linear before sigmoid", "sigmoid before exponential"):
        # The example of the paper claims both for every m >= 1.
        name = f"Example of 3.3.2 (a 1, BM 10, b 11, m 1000): {text}"
        count(name, True, example[text].printed, example[text].exact)
    rows = [{"claim": name, **seen} for name, seen in counts.items()]

    table_1 = listwise_tables.table_1(EXAMPLE["a"], EXAMPLE["b"], EXAMPLE["reach"], 10)
    for name, values in table_1.items():
        print(f"Table 1, a 1, BM 1, b 3, m 10, {name:<11} "
              + "  ".join(f"{key} {value:.4g}" for key, value in values.items()))  # fmt: skip

    figure, axes = panels(3, width=3.4)
    lengths = np.arange(3, 101)
    forms = (linear(1.0, 3.0), exponential(1.0), sigmoid(1.0))
    for axis, algorithm in zip(axes, listwise.ALGORITHMS, strict=True):
        for number, psi in enumerate(forms):
            logs = [
                (
                    listwise.log_factor(algorithm, psi, 1.0, int(m))
                    + math.log(listwise.slope(psi, 1.0))
                )
                / math.log(10)
                for m in lengths
            ]
            axis.plot(
                lengths, logs, color=COLOURS[number], linestyle=DASHES[number], label=psi.name
            )
        axis.set(xlabel="list length m", title=algorithm)
    axes[0].set_ylabel("log10 of C N (exact N)")
    axes[0].legend()
    title = "Claims of Tables 2 and 3 over a grid of settings: in how many they agree"
    save_results(
        "listwise-tables", title, rows, figure, table_1={"m": 10, **EXAMPLE, "values": table_1}
    )


if __name__ == "__main__":
    main()
