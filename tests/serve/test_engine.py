"""Tests the engine: a full queue, errors of the model, and the sizes that it compiles."""

import asyncio
import threading
import time

import numpy as np
import pytest
from serve.served import WORDS, get, post, serving

import snm
from snm.serve import engine as engines
from snm.system import timing


class _Slow:
    """A model that blocks until it is released."""

    def __init__(self, model):
        self._model = model
        self.go = threading.Event()
        self.asked = threading.Semaphore(0)

    def predict(self, rows, k, labels=None):
        self.asked.release()
        assert self.go.wait(120)
        return self._model.predict(rows, k, labels)


def test_a_full_queue_and_shutdown(served, monkeypatch):
    slow = _Slow(served)
    monkeypatch.setattr(engines, "_with_batch_size", lambda *_: slow)
    monkeypatch.setattr(engines.Engine, "warm_up", lambda _: None)
    monkeypatch.setattr(engines.Engine, "_compile", lambda *_: None)  # only requests are `asked`
    with serving(served, queue=2) as (address, server):
        answers = []

        def ask():
            answers.append(post(f"{address}/predict", json={"texts": ["word1"]}))

        threads = [threading.Thread(target=ask) for _ in range(3)]
        threads[0].start()
        assert slow.asked.acquire(timeout=120)  # it is being answered; two more may wait
        for thread in threads[1:]:
            thread.start()
        deadline = time.monotonic() + 120
        while "snm_waiting_requests 2.0" not in get(f"{address}/metrics").text:
            assert time.monotonic() < deadline
        refused_one = post(f"{address}/predict", json={"texts": ["word1"]})
        assert refused_one.status_code == 503
        assert refused_one.headers["Retry-After"] == "1"
        assert refused_one.json()["error"] == "2 requests wait already"
        server.should_exit = True  # what SIGTERM does
        time.sleep(0.2)
        slow.go.set()
        for thread in threads:
            thread.join(120)
        assert [answer.status_code for answer in answers] == [200, 200, 200]


def test_an_error_of_the_model_is_a_500_and_the_service_continues(served, monkeypatch):
    real = engines._with_batch_size

    class Broken:
        fail = True

        def predict(self, rows, k, labels=None):
            if Broken.fail:
                Broken.fail = False
                raise RuntimeError("device lost")
            return real(served, 8).predict(rows, k, labels)

    monkeypatch.setattr(engines, "_with_batch_size", lambda *_: Broken())
    monkeypatch.setattr(engines.Engine, "warm_up", lambda _: None)
    monkeypatch.setattr(engines.Engine, "_compile", lambda *_: None)
    with serving(served) as (address, _):
        answer = post(f"{address}/predict", json={"texts": ["word1"]})
        assert answer.status_code == 500 and "internal error" in answer.json()["error"]
        assert post(f"{address}/predict", json={"texts": ["word1"]}).status_code == 200


def test_every_compiled_size_answers_the_same(served, tiny_run, monkeypatch):
    """Also before those of more than one point are compiled."""
    monkeypatch.setattr(engines, "_BATCH_SIZES", (1, 8))
    features = snm.load_data(tiny_run / "data").test.features
    labels, _ = served.predict(features, k=3)

    used = []
    real = engines._with_batch_size

    def recorded(predictor, size):
        class Recorded:
            def predict(self, rows, k, labels=None):
                used.append(size)
                return real(predictor, size).predict(rows, k, labels)

        return Recorded()

    monkeypatch.setattr(engines, "_with_batch_size", recorded)

    async def ask(engine, *counts):
        return [(await engine.answer(features[:n], 3))[0] for n in counts]

    async def before_and_after():
        engine = engines.Engine(served, max_k=15, queue=9)
        engine.warm_up()
        assert used == [1, 1]  # for few labels and for most
        compiling = engine._compile
        monkeypatch.setattr(engine, "_compile", lambda *_: None)
        engine.start()
        early = await ask(engine, 1, 11)
        monkeypatch.setattr(engine, "_compile", compiling)
        engine._compile(8, 10, 0)
        del used[:]
        late = await ask(engine, 1, 8, 11)
        assert used == [1, 8, 8]
        await engine.stop()
        with pytest.raises(engines.FullError, match="stopping"):
            await engine.answer(features[:1], 1)
        return early + late

    for found in asyncio.run(before_and_after()):
        np.testing.assert_array_equal(found, labels[: len(found)])


def test_the_first_requests_compile_nothing(served):
    """Whatever a point has: no, one, or all features."""
    engine = engines.Engine(served, max_k=15, queue=9)
    engine.warm_up()
    timing.restart()  # it hears this thread alone: other servers may still compile in theirs
    with timing.part("answers"):
        for text in ("", "word1", " ".join(WORDS)):
            for k in (1, 10, 15):
                engine._answer(served.as_rows([text]), k)
    assert timing.times().programs == {}
