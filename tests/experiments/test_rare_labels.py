"""Copies of labels beside the labels."""

import snm
from experiments.rules import rare_labels
from snm.config import auto
from snm.config.resolve import resolve
from snm.data.formats.repository_text.writer import write_text
from snm.runs.folder import read_json


def test_both_runs_treat_names_and_items_alike(tmp_path, monkeypatch):
    """As many features as labels: `auto` would drop seen items, except where copies are labels."""
    made = snm.generate(points=60, test_points=20, features=30, labels=30, seed=0)
    for name, points in (("train", made.train), ("test", made.test)):
        write_text(tmp_path / f"{name}.txt", points.features, points.labels)
    monkeypatch.setattr(auto, "auto_drops_seen", lambda *_, **__: True)
    taken = []

    def train(parts, config, folder):
        taken.append(resolve(config, parts))
        metrics = dict.fromkeys(rare_labels.KEYS, 1.0)
        return {"metrics": metrics, "memory": {"used": False, "adjustment": None}}

    monkeypatch.setattr(snm, "train", train)
    monkeypatch.setattr(snm, "load", lambda *_, **__: None)
    monkeypatch.setattr(rare_labels, "metrics_on_test", lambda *_: {})
    rare_labels.main([str(tmp_path)], tmp_path / "out.json")
    assert [row["labels"] for row in read_json(tmp_path / "out.json")["rows"]] == [30, 106]
    assert [(one.seen, one.item_splits, one.label_text) for one in taken] == [
        ("keep", 0, "off")
    ] * 2
