"""Compares columns of the rows that `snm export --to faiss` and `--to hnswlib` index.

A score is q . r + b. A graph index stores the row (r, b / c) and searches for the query (q, c); c
does not change the scores, but the links of the graph. One more column can make all rows equally
long (Bachrach et al., 2014). The first line of each data set is what `snm export` does; c = 1 with
that column is what it did before.

Each set is trained for 3 epochs with dim 64 and 2 members, and without a memory. Recall is relative
to exact search, on the first 2,048 test points. Seconds are not compared: they depend on the
machine.

    python -m experiments.answers.index_columns DATA ...
        --out experiments/results/index-columns.json

Takes 5 minutes a set on 2 cores.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import tyro
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

import snm
from experiments.shared.command_line import run_command
from snm.config.settings import preset
from snm.export.arrays import model_arrays
from snm.export.cli import Export
from snm.export.index import bias_scale
from snm.export.measure import recall
from snm.prediction.predictor import Predictor
from snm.runs.folder import write_json

SETTINGS = {"epochs": 3, "dim": 64, "members": 2, "memory": "off"}
POINTS, KS = 2048, (1, 5, 10)


def measure(predictor: Predictor, features: csr_matrix) -> list[dict[str, Any]]:
    """Recall@k of each choice of c and of equal lengths."""
    # Only the search is measured, so labels that are features of the point are answers too.
    every = dataclasses.replace(predictor.model, drop_seen=False)
    predictor = dataclasses.replace(predictor, model=every)
    queries = np.concatenate(list(predictor.queries(features[:POINTS])))
    exact, _ = predictor.predict(features[:POINTS], max(KS))
    arrays, chosen = model_arrays(predictor), bias_scale(predictor)
    rows, bias = arrays["class_rows"], arrays["bias"]
    found = []
    for c, equal in ((chosen, False), (2 * chosen, False), (chosen, True), (1.0, True)):
        columns = [rows, bias[:, None] / c]
        asked = [queries, np.full((len(queries), 1), c)]
        if equal:
            squares = sum((part.astype(np.float64) ** 2).sum(axis=1) for part in columns)
            columns.append(np.sqrt(np.max(squares) - squares)[:, None])
            asked.append(np.zeros((len(queries), 1)))
        shares = searched(np.hstack(columns, dtype=np.float32), np.hstack(asked, dtype=np.float32))
        hits = {k: recall(labels, exact[:, :k]) for k, labels in shares.items()}
        share_of_query = round(c / (2 * chosen), 3)
        found.append({"c": c, "c_of_query": share_of_query, "equal": equal, "recall": hits})
        print(found[-1], flush=True)
    return found


def searched(rows: NDArray[np.float32], queries: NDArray[np.float32]) -> dict[int, NDArray]:
    """The labels that a graph with the parameters of `snm export` finds, for each k."""
    index = faiss.IndexHNSWFlat(rows.shape[1], Export.links, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction, index.hnsw.efSearch = Export.build_effort, Export.search_effort
    index.add(rows)
    return {k: index.search(queries, k)[1] for k in KS}


def main(data: tyro.conf.Positional[tuple[Path, ...]], out: Path) -> None:
    """Trains on each set, and writes the recalls."""
    config, sets = dataclasses.replace(preset("default"), **SETTINGS), []
    for folder in data:
        dataset = snm.load_data(folder)
        assert dataset.test is not None, f"{folder} has no test points"
        with tempfile.TemporaryDirectory() as place:
            snm.train(folder, config, Path(place) / "run")
            predictor = snm.load(Path(place) / "run")
            about = {"data": dataset.name, "labels": predictor.model.spec.num_labels}
            sets.append({**about, "columns": measure(predictor, dataset.test.features)})
        write_json(out, {"settings": SETTINGS, "points": POINTS, "sets": sets})


if __name__ == "__main__":
    run_command(main)
