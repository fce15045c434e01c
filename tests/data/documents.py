"""Small texts with labels, in every format that `snm data import` reads."""

import csv
import gzip
import json

import numpy as np
from command_line import contents

import snm

TOPICS = {"fruit & nuts": "apple pear plum fig", "tools": "saw drill file plane", "ça": "été mer"}


def documents(count=60, seed=0):
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        names = sorted(rng.choice(list(TOPICS), rng.integers(1, 3), replace=False))
        words = [str(rng.choice(TOPICS[name].split())) for name in names for _ in range(3)]
        texts.append(" ".join(["the", *words]))
        labels.append(names)
    return texts, labels


TEXTS, LABELS = documents()


def write_jsonl(path, rows):
    """Writes JSON lines, and returns the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write(folder, form, texts=TEXTS, labels=LABELS):
    """Writes the documents in a format; returns the file and the options to import it."""
    folder.mkdir(exist_ok=True)
    pairs = list(zip(texts, labels, strict=True))
    if form == "jsonl":
        rows = ({"text": text, "labels": names} for text, names in pairs)
        return [write_jsonl(folder / "docs.jsonl", rows)]
    if form == "packed":
        (path,) = write(folder, "jsonl", texts, labels)
        packed = path.with_suffix(".jsonl.gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        return [packed]
    if form in ("csv", "tsv"):
        path = folder / f"docs.{form}"
        with path.open("w", encoding="utf-8", newline="") as stream:
            out = csv.writer(stream, delimiter="," if form == "csv" else "\t")
            out.writerow(["id", "head", "body", "tags"])
            out.writerows(["7", *text.split(" ", 1), ",".join(names)] for text, names in pairs)
        return [path, "--text", "head", "body", "--labels", "tags"]
    if form == "raw":
        path = folder / "trn.raw.txt"
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        names = "".join("|".join(names) + "\n" for names in labels)
        (folder / "Y.trn.txt").write_text(names, encoding="utf-8")
        return [path, "--label-file", folder / "Y.trn.txt", "--label-separator", "|"]
    assert form == "fasttext"
    path = folder / "docs.txt"
    words = [" ".join(f"__label__{n.replace(' ', '_')}" for n in names) for names in labels]
    path.write_text("".join(f"{front} {text}\n" for front, text in zip(words, texts, strict=True)))
    return [path]


def data_set(out):
    """The files of a data set, but for the places of its rows."""
    return {path.name: raw for path, raw in contents(out).items() if "_rows" not in path.name}


def read(out):
    """The data set of a folder, and the label names of its training points."""
    data = snm.load_data(out)
    names = np.array(data.label_names)
    rows = [sorted(names[data.train.labels[i].indices]) for i in range(data.train.num_points)]
    return data, rows
