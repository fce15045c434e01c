"""Measures what data sets lose with half of each point's features, for `--input-dropout auto`.

    python -m experiments.rules.half_features DATA ... --out FILE

Prints `evidence_lost` and `neighbors_lost` of the training points of each data set.
"""

from __future__ import annotations

from pathlib import Path

import tyro

import snm
from experiments.shared.command_line import run_command
from experiments.shared.kept_runs import KeptRuns
from experiments.shared.tables import averaged, print_groups
from snm.config.evidence import evidence_lost, neighbors_lost


def main(data: tyro.conf.Positional[list[Path]], out: Path) -> None:
    """Measures all data sets, and writes JSON after each.

    Args:
      data: folders of data sets.
      out: JSON file to write; what it has is kept.
    """
    kept = KeptRuns(out)
    for folder in data:
        if not kept.has(data=folder.name):
            train = snm.load_data(folder).train
            kept.add(
                data=folder.name,
                points=train.num_points,
                evidence=evidence_lost(train),
                neighbors=neighbors_lost(train),
            )
    print_groups(
        "lost with half of the features",
        kept.rows,
        by={"data": "data"},
        columns={key: averaged(key, form=".3f") for key in ("evidence", "neighbors")},
    )


if __name__ == "__main__":
    run_command(main)
