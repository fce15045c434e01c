"""Answers with what their scores are sums of."""

import dataclasses
import threading

import httpx
import numpy as np
import pytest
import tiny
from scipy import sparse
from serve.served import WORDS, as_question, post, serving

import snm
from snm.memory.memory import Memory, MemorySettings
from snm.serve.engine import Engine


def total(parts):
    features = sum(part for _, part in parts["features"])
    return features + parts["other_features"] + parts["bias"] + parts["votes"]


def test_scores_are_explained(address, served, tiny_run):
    test = snm.load_data(tiny_run / "data").test.features[:3]
    body = {"features": as_question(test), "k": 2}
    plain = post(f"{address}/predict", json=body).json()["answers"]
    assert not any({"parts", "because"} & set(one) for one in plain)
    answers = post(f"{address}/predict", json={**body, "explain": True}).json()["answers"]
    for point, (one, before) in enumerate(zip(answers, plain, strict=True)):
        assert one["labels"] == before["labels"] and "because" not in one
        known = {WORDS[f] for f in test[point].indices}
        for parts, score in zip(one["parts"], one["scores"], strict=True):
            assert parts["features"] and {word for word, _ in parts["features"]} <= known
            assert total(parts) == pytest.approx(score, abs=1e-3)
    features, labels = (sparse.csr_matrix(np.eye(2, width, dtype=np.float32))
                        for width in (tiny.FEATURES, tiny.LABELS))  # fmt: skip
    memory = Memory(features, labels, None, np.arange(2), MemorySettings(2, 1.0, 1.0, 50.0))
    remembering = dataclasses.replace(served, memory=memory)
    with serving(remembering, max_k=15) as (address, _):
        body = {"texts": ["word1 word4"], "k": 2, "explain": True}
        (one,) = post(f"{address}/predict", json=body).json()["answers"]
        assert one["labels"][0] == 1 and one["parts"][0]["votes"] == 50
        voted = {
            "train_row": 1,
            "label_name": False,
            "similarity": pytest.approx(0.7071, abs=0.3),
            "shares": ["word1"],
        }
        assert one["because"] == [[voted], []]


def test_labels_that_are_not_shown_are_not_explained(address, monkeypatch):
    explained, reasons = [], Engine._reasons

    def seen(self, rows, labels):
        explained.append(labels.tolist())
        return reasons(self, rows, labels)

    monkeypatch.setattr(Engine, "_reasons", seen)
    body = {"texts": ["word1 word4", "word2"], "k": 2}
    plain = post(f"{address}/predict", json=body).json()["answers"]
    best = [one["labels"][:1] for one in plain]
    body |= {"exclude": best, "explain": True}
    answers = post(f"{address}/predict", json=body).json()["answers"]
    assert explained == [[one["labels"] for one in answers]]
    for one, without in zip(answers, best, strict=True):
        assert len(one["labels"]) == 2 and not set(without) & set(one["labels"])
        for parts, score in zip(one["parts"], one["scores"], strict=True):
            assert total(parts) == pytest.approx(score, abs=1e-3)


def test_explanations_wait_in_a_queue_and_not_for_clients_that_have_gone(served, monkeypatch):
    explained, begun, go, statuses = [], threading.Event(), threading.Event(), []
    reasons = Engine._reasons

    def slow(self, rows, labels):
        explained.append(rows.indices.tolist())
        begun.set()
        assert go.wait(120)
        return reasons(self, rows, labels)

    with serving(served, queue=1) as (address, _):

        def ask(word, explain=True, timeout=120):
            body = {"texts": [word], "explain": explain}
            return post(f"{address}/predict", json=body, timeout=timeout)

        assert ask("word0").status_code == 200
        monkeypatch.setattr(Engine, "_reasons", slow)
        first = threading.Thread(target=lambda: statuses.append(ask("word1").status_code))
        first.start()
        assert begun.wait(120)
        with pytest.raises(httpx.TimeoutException):
            ask("word2", timeout=1)
        refused = ask("word3")  # word2 waits
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert refused.json()["error"] == "1 request waiting for explanations already"
        assert ask("word3", explain=False).status_code == 200
        go.set()
        first.join(120)
        assert ask("word4").status_code == 200
    assert explained == [[1], [4]] and statuses == [200]
