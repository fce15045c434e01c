"""Compares `snm` as a backend of Annif with the backends of Annif, by the evaluation of Annif.

The data sets are bags of words without texts. So a document consists of invented words, one for
each feature, repeated as often as its value says; all backends get the same documents, with the
analyzer `simple` of Annif. Each backend is trained by `annif train` and evaluated by `annif eval`
on the test documents, with the first 10 suggestions, the default of Annif. omikuji has the settings
of Annif's wiki. fastText has those of the first example there, with dim 500 instead of 100 and 30
epochs instead of 5: with those of the example, it ends with NaN on enron. Seconds are of the whole
command, with the start of Python, while other programs ran.

    python -m experiments.answers.annif_backends DATA ...
        --out experiments/results/annif-backends.json
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tyro

import snm
from experiments.shared.command_line import run_command
from snm.data.dataset import Dataset, Points
from snm.machine.versions import versions
from snm.runs.folder import write_json
from snm.system.files import disk

BACKENDS = {
    "snm": {"backend": "snm"},
    "snm fast": {"backend": "snm", "preset": "fast"},
    "omikuji Parabel": {"backend": "omikuji"},
    "omikuji Bonsai": {
        "backend": "omikuji",
        "cluster_balanced": "False",
        "cluster_k": "100",
        "max_depth": "3",
    },
    "fasttext": {"backend": "fasttext", "dim": "500", "lr": "0.25", "epoch": "30", "loss": "hs"},
    "tfidf": {"backend": "tfidf"},
}
METRICS = ("F1@5", "NDCG", "NDCG@5", "NDCG@10", "Precision@1", "Precision@3", "Precision@5")
URI = "http://example.org/{}"


def write_documents(points: Points, path: Path) -> int:
    """Writes the points that have a feature and a label; returns how many."""
    lines = []
    for row in range(points.num_points):
        there = slice(*points.features.indptr[row : row + 2])
        words = [
            f"word{feature}x"
            for feature, value in zip(
                points.features.indices[there], points.features.data[there], strict=True
            )
            for _ in range(max(1, round(float(value))))
        ]
        labels = points.labels.indices[slice(*points.labels.indptr[row : row + 2])]
        if words and len(labels):
            subjects = " ".join(f"<{URI.format(label)}>" for label in labels)
            lines.append(f"{' '.join(words)}\t{subjects}\n")
    disk.write(path, "".join(lines).encode())
    return len(lines)


def write_project(dataset: Dataset, place: Path) -> dict[str, int]:
    """Writes documents, the vocabulary and the projects; returns the numbers of documents."""
    from nltk.tokenize.punkt import PunktParameters, save_punkt_params

    assert dataset.test is not None, f"{dataset.name} has no test points"
    counts = {
        part: write_documents(points, place / f"{part}.tsv")
        for part, points in (("train", dataset.train), ("test", dataset.test))
    }
    names = range(dataset.train.num_labels)
    vocabulary = "".join(f"<{URI.format(label)}>\tsubject {label}\n" for label in names)
    disk.write(place / "vocabulary.tsv", vocabulary.encode())
    shared = {"language": "en", "analyzer": "simple", "vocab": "set", "limit": "100"}
    sections = []
    for name, own in BACKENDS.items():
        lines = [f"{key}={value}" for key, value in {"name": name, **shared, **own}.items()]
        sections.append("\n".join([f"[{name.replace(' ', '-')}]", *lines, ""]))
    disk.write(place / "projects.cfg", "\n".join(sections).encode())
    # Annif cuts texts into sentences first. These have none, so that no abbreviation matters.
    sentences = place / "nltk" / "tokenizers" / "punkt_tab" / "english"
    sentences.mkdir(parents=True)
    save_punkt_params(PunktParameters(), dir=str(sentences))
    return counts


def main(data: tyro.conf.Positional[tuple[Path, ...]], out: Path) -> None:
    """Trains and evaluates every backend on each set, and writes the results."""
    sets: list[dict[str, Any]] = []
    for folder in data:
        dataset = snm.load_data(folder)
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            counts = write_project(dataset, place)

            def annif(*words: str, place: Path = place) -> float:
                begin = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-m", "snm.annif", *words],
                    cwd=place,
                    check=True,
                    env={**os.environ, "NLTK_DATA": str(place / "nltk")},
                )
                return time.perf_counter() - begin

            annif("load-vocab", "--language", "en", "set", "vocabulary.tsv")
            about = {"data": dataset.name, "labels": dataset.train.num_labels, "documents": counts}
            sets.append({**about, "backends": {}})
            for backend in BACKENDS:
                project = backend.replace(" ", "-")
                seconds = {"train": annif("train", project, "train.tsv")}
                seconds["eval"] = annif("eval", "-M", "metrics.json", project, "test.tsv")
                figures = json.loads((place / "metrics.json").read_text())
                found = {metric: figures[metric] for metric in METRICS}
                sets[-1]["backends"][backend] = {**found, "seconds": seconds}
                print(dataset.name, backend, sets[-1]["backends"][backend], flush=True)
                peers = {"annif": version("annif"), "omikuji": version("omikuji")}
                write_json(out, {"versions": {**versions(), **peers}, "sets": sets})


if __name__ == "__main__":
    run_command(main)
