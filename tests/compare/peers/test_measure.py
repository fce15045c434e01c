"""Scores of a package's answers, and what the package is given."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compare.peers.fake_peer import answering, of

from snm.compare.peers import process as peers
from snm.compare.peers.process import PeerOptions, measure_peer
from snm.compare.peers.protocol import Answers
from snm.data.load import load
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.evaluation.metrics import metric_names, propensities


def test_metrics_by_hand(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Point 0 has labels 0 and 5, and the package finds 0 first and 5 third; point 1 has label 1,
    # found third, before the padding of the package's answer.
    answering(monkeypatch, of([[0, 1, 5, 2, 3], [2, 3, 1, -1, -1]]))
    found = measure_peer("fake", data)
    metrics = found["metrics"]
    p = propensities(np.array([2, 1, 1, 1, 1, 0]), 4)
    expected = {
        "P@1": 100 * 1 / 2,
        "P@3": 100 * (2 + 1) / 6,
        "P@5": 100 * (2 + 1) / 10,
        "R@1": 100 * (1 / 2 + 0) / 2,
        "R@3": 100.0,
        "nDCG@3": 100 * ((1 + 1 / 2) / (1 + 1 / np.log2(3)) + 1 / 2) / 2,
        "PSP@1": 100 * (1 / p[0]) / (1 / min(p[0], p[5]) + 1 / p[1]),
        "PSP@3": 100.0,
        "coverage@1": 100 / 3,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)
    assert metrics["points"] == 2
    assert found["seconds"] == 2.5 and found["predict_seconds"] == 0.25
    assert found["settings"] == "made up"
    assert found["data"] == {"name": "tiny", "sha256": load(data).sha256}
    assert found["peak_memory_bytes"] >= found["memory_before_bytes"] > 1 << 20


def test_metrics_are_those_of_an_evaluation(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, of([[0, 1, 2, 3, 4]] * 2))
    found = measure_peer("fake", data)["metrics"]
    counts = {"points", "points_without_labels"}
    assert set(found) == {*metric_names(6), *counts}


def test_filtered_labels_are_neither_right_nor_wrong(
    data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path(data) / "filter_labels_test.txt").write_text("0 1\n")
    (Path(data) / "filter_labels_train.txt").write_text("")
    asked: list[int] = []

    def answer(x: Any, y: Any, x_test: Any, *, k: int, seed: int, threads: int) -> Answers:
        asked.append(k)
        return np.array([[1, 0, 2, 3, 4, 5], [1, 0, 2, 3, 4, 5]]), 0.0, 0.0

    answering(monkeypatch, answer)
    assert measure_peer("fake", data)["metrics"]["P@1"] == 100.0
    assert asked == [6]


def test_seen_labels_are_dropped_from_the_predictions(
    data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = load(data).test
    assert test is not None
    own = [test.features[row].indices.tolist() for row in range(2)]
    others = [[label for label in range(6) if label not in of_row] for of_row in own]
    asked: list[int] = []

    def answer(x: Any, y: Any, x_test: Any, *, k: int, seed: int, threads: int) -> Answers:
        asked.append(k)
        rows = [of_row + rest for of_row, rest in zip(own, others, strict=True)]
        return np.array([(row + [-1] * 6)[:6] for row in rows]), 0.0, 0.0

    answering(monkeypatch, answer)
    told: list[np.ndarray] = []
    scored = peers._scored
    monkeypatch.setattr(
        peers, "_scored", lambda found, *rest: told.append(found) or scored(found, *rest)
    )
    measure_peer("fake", data, PeerOptions(seen="drop"))
    measure_peer("fake", data)
    assert asked == [min(5 + max(map(len, own)), 6), 5]
    assert [row[row >= 0].tolist() for row in told[0]] == [rest[:5] for rest in others]
    assert told[1][:, 0].tolist() == [of_row[0] for of_row in own]


def test_arguments_of_a_package(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []

    def answer(x: Any, y: Any, x_test: Any, *, k: int, seed: int, threads: int) -> Answers:
        seen.append((x, y, x_test, k, seed, threads))
        return np.zeros((2, 5), np.int64) - 1, 0.0, 0.0

    raw = load(data)
    assert raw.test is not None
    fitted = Weighting.fit("tfidf", raw.train.features)
    answering(monkeypatch, answer)
    measure_peer("fake", data, PeerOptions(seed=3, threads=2))
    answering(monkeypatch, answer, weighted=False)
    measure_peer("fake", data)
    weighted, unweighted = seen
    assert weighted[3:] == (5, 3, 2)
    for given, points in ((weighted[0], raw.train), (weighted[2], raw.test)):
        np.testing.assert_array_equal(given.toarray(), fitted.apply(points.features).toarray())
    np.testing.assert_array_equal(unweighted[0].toarray(), [[3, 0, 0], [0, 1, 0], [1, 0, 2],
                                                            [0, 0, 1]])  # fmt: skip
    np.testing.assert_array_equal(unweighted[1].toarray(), raw.train.labels.toarray())


def test_a_held_out_part_is_scored_instead_of_test(
    data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = load(data).split(0.25, 1)
    assert held.test is not None
    first = held.test.labels.indices[0]
    others = [label for label in range(6) if label != first][:4]
    answering(monkeypatch, of([[first, *others]]))
    (Path(data) / "test.txt").unlink()
    metrics = measure_peer("fake", data, PeerOptions(validation_fraction=0.25, seed=1))["metrics"]
    assert metrics["points"] == 1 and metrics["P@1"] == 100.0
    with pytest.raises(InputError, match="no test points"):
        measure_peer("fake", data)


@pytest.mark.parametrize(
    ("options", "said"), [({"weighting": "idf"}, "one of none"), ({"threads": 0}, "1 or more")]
)
def test_bad_settings(
    options: dict[str, Any], said: str, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, of([]))
    with pytest.raises(InputError, match=said):
        measure_peer("fake", data, PeerOptions(**options))
