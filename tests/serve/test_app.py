"""Tests the HTTP service: concurrent requests, error statuses, and shutdown."""

import asyncio
import contextlib
import dataclasses
import re
import signal
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pytest
import tiny
import uvicorn
from command_line import call, refused

import snm
from snm.data.vectorizer import Vectorizer
from snm.serve import engine as engines
from snm.serve.app import make_app
from snm.serve.limits import Limits

WORDS = tuple(f"word{j}" for j in range(tiny.FEATURES))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("serve")
    tiny.write(place / "data", names=True)
    snm.train(place / "data", tiny.CONFIG, place / "run")
    return place / "run"


@pytest.fixture(scope="module", autouse=True)
def one_size():
    """Compiles one batch size only, which is enough for most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "_SIZES", (8,))
        yield


@contextlib.contextmanager
def serving(predictor, run, **options):
    """Runs a real server on a free port in a thread; yields its address and the server."""
    from snm.serve.cli import _listen

    app = make_app(predictor, Limits(**options))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    with _listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", server
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def predictor(run):
    texts = Vectorizer("counts", tiny.FEATURES, vocabulary=WORDS)
    return dataclasses.replace(snm.load(run), vectorizer=texts)


@pytest.fixture(scope="module")
def address(predictor, run):
    with serving(predictor, run, max_points=20, max_bytes=10_000, max_k=15) as (address, _):
        yield address


def as_question(rows):
    return [dict(zip(map(str, row.indices.tolist()), row.data.tolist(), strict=True))
            for row in rows]  # fmt: skip


def test_answers_are_those_of_the_model(address, predictor, run):
    test = snm.load_data(run.parent / "data").test.features
    labels, scores = predictor.predict(test, k=7)
    found = httpx.post(f"{address}/predict", json={"features": as_question(test), "k": 7})
    assert found.status_code == 200
    answers = found.json()["answers"]
    assert [answer["labels"] for answer in answers] == labels.tolist()
    assert answers[0]["names"] == [f"name {label}" for label in labels[0]]
    np.testing.assert_allclose([a["scores"] for a in answers], scores, rtol=1e-5)
    text = " ".join(f"{WORDS[j]} " * int(v) for j, v in zip(test[0].indices, test[0].data,
                                                            strict=True))  # fmt: skip
    found = httpx.post(f"{address}/predict", json={"texts": [text, text]}).json()["answers"]
    assert found[0] == found[1] and found[0]["labels"] == labels[0, :5].tolist()


def test_concurrent_requests_get_their_own_answers(address, predictor, run):
    """64 concurrent clients with different points, several requests each."""
    features = snm.load_data(run.parent / "data").train.features
    labels, _ = predictor.predict(features, k=5)
    questions = as_question(features)

    async def client(session, number):
        rng = np.random.default_rng(number)
        for _ in range(4):
            chosen = rng.integers(0, len(questions), rng.integers(1, 4))
            body = {"features": [questions[i] for i in chosen]}
            answer = await session.post(f"{address}/predict", json=body)
            assert answer.status_code == 200, answer.text
            got = [one["labels"] for one in answer.json()["answers"]]
            assert got == labels[chosen].tolist()

    async def everyone():
        limits = httpx.Limits(max_connections=64)
        async with httpx.AsyncClient(limits=limits, timeout=60) as session:
            await asyncio.gather(*(client(session, number) for number in range(64)))

    asyncio.run(everyone())
    told = httpx.get(f"{address}/metrics").text
    batches = float(re.search(r"snm_batch_points_count (\S+)", told)[1])
    points = float(re.search(r"snm_batch_points_sum (\S+)", told)[1])
    assert points > 1.5 * batches  # they were answered together


BAD = {
    "no JSON": (b"{", 400, "JSON"),
    "nothing": (b"{}", 400, "both or neither of texts and features, expected one of them"),
    "both": (b'{"texts": ["a"], "features": [{}]}', 400, "both or neither"),
    "an unknown key": (b'{"text": ["a"]}', 400, "text: Extra inputs"),
    "no points": (b'{"texts": []}', 400, "no point, expected at least one"),
    "k of 0": (b'{"texts": ["a"], "k": 0}', 400, "k: Input should be greater"),
    "a large k": (b'{"texts": ["a"], "k": 16}', 400, "k: found 16, expected 1 to 15"),
    "an id": (b'{"features": [{}, {"30": 1}]}', 400, "features.1: found feature 30, expected an"),
    "a negative id": (b'{"features": [{"-1": 1}]}', 400, "feature -1, expected an id from 0 to 29"),
    "a word": (b'{"features": [{"x": 1}]}', 400, "features.0.x"),
    "an overflow": (b'{"features": [{"1": 1e300}]}', 400, "a value that is not finite"),
    "a negative value": (b'{"features": [{"1": -1}]}', 400, "a negative value"),
    "many points": (b'{"texts": [' + b'"a",' * 20 + b'"a"]}', 413, "21 points, where"),
    "many bytes": (b'{"texts": ["' + b"a" * 10_000 + b'"]}', 413, "a body of over 10000 bytes"),
}


@pytest.mark.parametrize("what", BAD)
def test_invalid_requests(address, what):
    body, status, said = BAD[what]
    answer = httpx.post(f"{address}/predict", content=body,
                        headers={"Content-Type": "application/json"})  # fmt: skip
    assert answer.status_code == status, answer.text
    assert said in answer.json()["error"]
    assert httpx.post(f"{address}/predict", json={"texts": ["word1"]}).status_code == 200


def test_a_large_body_without_a_content_length_is_refused(address):
    def pieces():
        for _ in range(100):
            yield b"x" * 1000

    answer = httpx.post(f"{address}/predict", content=pieces())
    assert answer.status_code == 413


def test_health_metrics_and_page(address):
    health = httpx.get(f"{address}/health").json()
    assert health["status"] == "ok" and health["labels"] == tiny.LABELS
    assert health["texts"] and health["search"] == "exact" and health["max_k"] == 15
    page = httpx.get(address)
    assert page.status_code == 200 and "<textarea" in page.text
    assert "/predict" in httpx.get(f"{address}/openapi.json").json()["paths"]
    assert httpx.get(f"{address}/docs").status_code == 200
    assert httpx.get(f"{address}/nothing").status_code == 404
    told = httpx.get(f"{address}/metrics").text
    assert 'snm_requests_total{path="/health",status="200"}' in told
    assert "snm_request_seconds_bucket" in told and "snm_waiting_requests" in told


class _Slow:
    """A model that blocks until it is released."""

    def __init__(self, predictor):
        self._predictor = predictor
        self.go = threading.Event()
        self.asked = threading.Semaphore(0)

    def predict(self, rows, k):
        self.asked.release()
        assert self.go.wait(30)
        return self._predictor.predict(rows, k)


def test_a_full_queue_and_shutdown(predictor, run, monkeypatch):
    slow = _Slow(predictor)
    monkeypatch.setattr(engines, "_sized", lambda *_: slow)
    monkeypatch.setattr(engines.Engine, "warm", lambda _: None)
    with serving(predictor, run, queue=2) as (address, server):
        answers = []

        def ask():
            answers.append(httpx.post(f"{address}/predict", json={"texts": ["word1"]}, timeout=60))

        threads = [threading.Thread(target=ask) for _ in range(3)]
        threads[0].start()
        assert slow.asked.acquire(timeout=30)  # it is being answered; two more may wait
        for thread in threads[1:]:
            thread.start()
        deadline = time.monotonic() + 30
        while "snm_waiting_requests 2.0" not in httpx.get(f"{address}/metrics").text:
            assert time.monotonic() < deadline
        refused_one = httpx.post(f"{address}/predict", json={"texts": ["word1"]})
        assert refused_one.status_code == 503
        assert refused_one.headers["Retry-After"] == "1"
        assert refused_one.json()["error"] == "2 requests wait already"
        server.should_exit = True  # what SIGTERM does
        time.sleep(0.2)
        slow.go.set()
        for thread in threads:
            thread.join(30)
        assert [answer.status_code for answer in answers] == [200, 200, 200]


def test_an_error_of_the_model_is_a_500_and_the_service_continues(predictor, run, monkeypatch):
    real = engines._sized

    class Broken:
        fail = True

        def predict(self, rows, k):
            if Broken.fail:
                Broken.fail = False
                raise RuntimeError("device lost")
            return real(predictor, 8).predict(rows, k)

    monkeypatch.setattr(engines, "_sized", lambda *_: Broken())
    monkeypatch.setattr(engines.Engine, "warm", lambda _: None)
    with serving(predictor, run) as (address, _):
        assert httpx.post(f"{address}/predict", json={"texts": ["word1"]}).status_code == 500
        assert httpx.post(f"{address}/predict", json={"texts": ["word1"]}).status_code == 200


def test_every_compiled_size_answers_the_same(predictor, run, monkeypatch):
    monkeypatch.setattr(engines, "_SIZES", (1, 4))
    features = snm.load_data(run.parent / "data").test.features
    labels, _ = predictor.predict(features, k=3)

    async def ask():
        engine = engines.Engine(predictor, most=15, queue=9)
        engine.start()
        found = [(await engine.answer(features[:n], 3))[0] for n in (1, 2, 4, 11)]
        await engine.stop()
        with pytest.raises(engines.FullError, match="stopping"):
            await engine.answer(features[:1], 1)
        return found

    for found in asyncio.run(ask()):
        np.testing.assert_array_equal(found, labels[: len(found)])


def test_predictions_by_an_index(run, predictor, tmp_path):
    from snm.export.index import IndexedPredictor

    call("export", run, "--to", "hnswlib", "--output", tmp_path / "index")
    searched = IndexedPredictor.open(tmp_path / "index", predictor)
    features = snm.load_data(run.parent / "data").test.features
    with serving(searched, run) as (address, _):
        found = httpx.post(f"{address}/predict", json={"features": as_question(features)}).json()
        labels, _ = predictor.predict(features, k=5)
        assert [one["labels"] for one in found["answers"]] == labels.tolist()
        assert httpx.get(f"{address}/health").json()["search"] == "index"


def test_invalid_options_of_the_command(run, tmp_path, capsys, monkeypatch):
    assert "no config.toml" in refused(capsys, "serve", tmp_path)
    assert "--queue: found 0, expected 1 or more" in refused(capsys, "serve", run, "--queue=0")
    said = refused(capsys, "serve", run, "--host=203.0.113.1", "--port=0")
    assert said.startswith("--host 203.0.113.1 --port 0: found") and "a free address of" in said
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "pip install 'snm[serve]'" in refused(capsys, "serve", run)


@pytest.mark.slow
def test_the_command_itself_and_sigterm(run):
    """Runs in a separate process, on a port that it chooses; SIGTERM ends it with status 0."""
    command = [sys.executable, "-m", "snm", "serve", str(run), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        address = re.search(r"http://\S+", line)[0]
        assert "127.0.0.1" in address
        deadline = time.monotonic() + 120
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{address}/health").status_code == 200:
                    break
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.2)
        answer = httpx.post(f"{address}/predict", json={"features": [{"3": 1}]})
        assert answer.status_code == 200 and len(answer.json()["answers"][0]["labels"]) == 5
        assert httpx.post(f"{address}/predict", json={"texts": ["a"]}).status_code == 400
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)


@pytest.mark.slow
def test_the_page_in_a_browser(address, predictor):
    """A headless browser sends a text and shows the label names; it also shows an error."""
    playwright = pytest.importorskip("playwright.sync_api")
    import shutil

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        problems = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(address)
        page.wait_for_function("document.getElementById('about').textContent !== ''")
        page.fill("#input", "word3 word5")
        page.fill("#k", "4")
        page.click("button")
        page.wait_for_selector("#answers tr")
        labels, scores = predictor.predict(["word3 word5"], k=4)
        rows = [row.split("\t") for row in page.inner_text("#answers").splitlines()]
        assert [row[1] for row in rows] == [f"name {label}" for label in labels[0]]
        assert [row[2] for row in rows] == [f"{score:.3f}" for score in scores[0]]
        page.evaluate("document.getElementById('k').removeAttribute('max')")
        page.fill("#k", "99")
        page.click("button")
        page.wait_for_function("document.getElementById('error').textContent !== ''")
        assert "k: found 99, expected 1 to 15" in page.inner_text("#error")
        assert problems == []
        browser.close()
