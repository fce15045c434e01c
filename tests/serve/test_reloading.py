"""A newer model takes the place of the old one while requests are answered: SIGHUP."""

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
import tiny
from command_line import call
from serve import small_work
from serve.served import WORDS, as_question, get, many, post, serving, started
from serve.test_workers import ask, asked_until, supervised, wait_until

import snm
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError
from snm.serve import cli
from snm.serve.engine import Engine
from snm.serve.reloading import Reload, why_not_opened
from snm.system import terminal


@pytest.fixture(scope="module")
def other(tiny_run, tmp_path_factory):
    """A run whose answers are others."""
    run = tmp_path_factory.mktemp("other") / "run"
    snm.train(tiny_run / "data", dataclasses.replace(tiny.CONFIG, seed=9), run)
    return run


class Told:
    """A reload by hand: what it opens next, and what it told.

    Args:
      fails: what it raises whenever it told something.
    """

    def __init__(self, fails=None):
        self.requested, self.next, self.events, self.fails = threading.Event(), [], [], fails
        self.opening, self.go = threading.Event(), threading.Event()
        self.go.set()
        self.reload = Reload(self.requested, self.open, lambda: self.tell("renewed"), self.failed)

    def open(self):
        self.opening.set()
        assert self.go.wait(600)
        found = self.next.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def failed(self, error):
        self.tell(why_not_opened(error))

    def tell(self, what):
        self.events.append(what)
        if self.fails is not None:
            raise self.fails

    def wish(self, found):
        """Returns what was told of it."""
        before = len(self.events)
        self.next.append(found)
        self.requested.set()
        wait_until(lambda: len(self.events) > before)
        return self.events[before:]


def scores_of(predictor, point):
    return np.round(predictor.predict(point, k=5)[1][0], 4).tolist()


def test_no_request_notices_another_model(served, other, tiny_run):
    """16 clients: each answer is of one of the two models; if asked once told, of the new one."""
    new, told = snm.load(other), Told()
    point = snm.load_data(tiny_run / "data").test.features[:1]
    body = {"features": as_question(point)}
    old_scores, new_scores = scores_of(served, point), scores_of(new, point)
    assert old_scores != new_scores
    seen, late, over = [], [], threading.Event()

    async def client(address):
        async with many() as session:
            while not over.is_set():
                into = late if told.events else seen
                answer = await session.post(f"{address}/predict", json=body)
                assert answer.status_code == 200, answer.text
                into.append(np.round(answer.json()["answers"][0]["scores"], 4).tolist())

    async def everyone(address):
        await asyncio.gather(*(client(address) for _ in range(16)))

    with serving(served, reload=told.reload) as (address, _):
        failed = []

        def load():
            try:
                asyncio.run(everyone(address))
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=load)
        thread.start()
        before = get(f"{address}/health").json()
        try:
            wait_until(lambda: len(seen) > 50 or failed)
            assert told.wish(new) == ["renewed"]
            wait_until(lambda: len(late) > 50 or failed)
        finally:
            over.set()
            thread.join()
        assert not failed, failed
        after = get(f"{address}/health").json()
    assert after["opened"] > before["opened"] and not after["label_names"]
    of_old, of_new = (pytest.approx(scores, abs=2e-4) for scores in (old_scores, new_scores))
    assert of_old in seen and all(one in (of_old, of_new) for one in seen)
    assert all(one == of_new for one in late)


def test_a_model_that_does_not_open_changes_nothing(served, monkeypatch):
    told = Told()
    with serving(served, reload=told.reload) as (address, _):
        ask = {"texts": ["word1"]}
        before = post(f"{address}/predict", json=ask).json()
        opened = get(f"{address}/health").json()["opened"]
        assert told.wish(InputError("x/run", "nothing", "a run")) == [
            "x/run: found nothing, expected a run"
        ]
        room = "out of memory or of threads: see `ulimit -v` and `ulimit -u`"
        assert told.wish(MemoryError()) == [room]
        assert told.wish(OSError("a line\nand another")) == ["OSError: a line"]
        with monkeypatch.context() as patch:
            patch.setattr(Engine, "start", lambda _: (_ for _ in ()).throw(RuntimeError("no")))
            assert told.wish(served) == ["RuntimeError: no"]
        assert post(f"{address}/predict", json=ask).json() == before
        assert get(f"{address}/health").json()["opened"] == opened


def test_nothing_is_left_of_a_model_that_was_replaced(served, collect):
    told = Told()
    with serving(served, reload=told.reload) as (address, _):
        left, threads = [], []
        for _ in range(4):
            words = Vectorizer("counts", tiny.FEATURES, vocabulary=WORDS)
            left.append(weakref.ref(words))
            assert told.wish(dataclasses.replace(served, vectorizer=words)) == ["renewed"]
            del words
            for explain in (False, True):
                body = {"texts": ["word1"], "labels": ["name 3"], "explain": explain}
                assert post(f"{address}/predict", json=body).status_code == 200
            threads.append(threading.active_count())
        # A thread may still be about to end, and to let go of what it had.
        wait_until(lambda: threading.active_count() <= threads[1])
        wait_until(lambda: collect() >= 0 and all(one() is None for one in left[:3]))
        assert left[3]() is not None


def test_an_open_request_is_answered_by_its_model(served, monkeypatch):
    """The old model ends after the last of its requests, also of one that is being explained."""
    told, begun, go, answers = Told(), threading.Event(), threading.Event(), []
    reasons = Engine._reasons

    def slow(self, rows, labels):
        begun.set()
        assert go.wait(120)
        return reasons(self, rows, labels)

    with serving(served, reload=told.reload) as (address, _):
        ask = {"texts": ["word1"], "explain": True}
        expected = post(f"{address}/predict", json=ask).json()
        monkeypatch.setattr(Engine, "_reasons", slow)
        first = threading.Thread(
            target=lambda: answers.append(post(f"{address}/predict", json=ask).json())
        )
        first.start()
        assert begun.wait(120)
        told.next.append(dataclasses.replace(served, label_names=None))
        told.requested.set()
        wait_until(lambda: not get(f"{address}/health").json()["label_names"])
        assert told.events == []
        go.set()
        first.join(120)
        wait_until(lambda: told.events == ["renewed"])
    assert answers == [expected] and expected["answers"][0]["names"]


GONE = [SystemExit(1), OSError("the terminal is gone")]


@pytest.mark.parametrize("fails", GONE)
def test_the_server_goes_on_where_nobody_hears_it(served, fails):
    told = Told(fails)
    with serving(served, reload=told.reload) as (address, _):
        for _ in range(2):
            assert told.wish(MemoryError())[0].startswith("out of memory")
            assert told.wish(dataclasses.replace(served, label_names=None)) == ["renewed"]
            assert not get(f"{address}/health").json()["label_names"]


def test_a_server_that_stops_does_not_wait_for_a_model_that_is_being_opened(served):
    told = Told()
    told.go.clear()
    try:
        with serving(served, reload=told.reload):
            told.requested.set()
            assert told.opening.wait(120)
            begun = time.monotonic()
        assert time.monotonic() - begun < 300 and told.events == []
    finally:
        told.next.append(served)
        told.go.set()


def test_workers_are_replaced_and_stopped_while_a_model_is_being_opened():
    told = Told()
    told.go.clear()

    def client(port, events):
        old = asked_until(port, lambda found: len(found) == 2)
        told.requested.set()
        assert told.opening.wait(120)
        killed = min(old)
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: len(events) == 4)
        assert killed not in asked_until(port, lambda found: len(found) == 2)

    try:
        supervised(small_work.answer, 2, client, told.reload)
        assert not told.go.is_set() and told.events == []
    finally:
        told.next.append("second")
        told.go.set()


@pytest.mark.parametrize(("ends", "fails"), [(False, GONE[0]), (True, None)])
def test_workers_are_told_and_one_that_ends_instead_is_replaced(ends, fails):
    """Each has exactly the model that was opened for it."""
    told = Told(fails)

    def client(port, events):
        old = asked_until(port, lambda found: len(found) == 2)
        wait_until(lambda: len(events) == 2)
        assert told.wish(InputError("here", "nothing", "a model")) == [
            "here: found nothing, expected a model"
        ]
        assert told.wish("second") == ["renewed"]
        assert {ask(port)[1] for _ in range(10)} == {"second"}
        new = asked_until(port, lambda found: len(found) == 2, model="second")
        assert new.isdisjoint(old) if ends else new == old
        assert {one for one, _ in events[2:]} == ({*old, "ready"} if ends else set())
        assert told.wish("third") == ["renewed"]
        third = asked_until(port, lambda found: len(found) == 2, model="third")
        assert third.isdisjoint(new) if ends else third == new

    work = small_work.answer_once if ends else small_work.answer
    supervised(work, 2, client, told.reload)


def test_the_command_frees_its_first_model(tiny_run, monkeypatch, collect):
    """Nothing that goes on beside the server holds it, as a frame of the command would."""
    opened, said, failed = [], [], []
    real = cli._open_model

    def kept_weakly(options):
        found = real(options)
        opened.append(weakref.ref(found))
        return found

    def client():
        try:
            wait_until(lambda: any(line.startswith("serving") for line in said))
            for count in (1, 2):
                os.kill(os.getpid(), signal.SIGHUP)
                wait_until(lambda count=count: sum("again" in line for line in said) == count)
            # The thread that opened a model may still be about to let go of it.
            wait_until(lambda: collect() >= 0 and all(one() is None for one in opened[:2]))
            assert opened[2]() is not None
        except BaseException as error:
            failed.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(cli, "_open_model", kept_weakly)
    monkeypatch.setattr(terminal, "say", said.append)
    thread = threading.Thread(target=client)
    thread.start()
    call("serve", tiny_run / "run", "--port=0")
    thread.join()
    assert not failed, failed


# The command, but a second model takes ten minutes to open.
SLOW = """
import sys, time
from snm.cli.main import main
from snm.serve import cli

real, seen = cli._open_model, []

def opened(options):
    seen.append(options)
    if len(seen) > 1:
        print("opening", flush=True)
        time.sleep(600)
    return real(options)

cli._open_model = opened
if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_the_command_ends_at_once_while_it_opens_a_model(tiny_run, tmp_path, workers):
    run, script = tiny_run / "run", tmp_path / "slow.py"
    script.write_text(SLOW)
    if workers > 1:
        call("export", run, "--to", "npy", "--out", run := tmp_path / "model")
    command = [sys.executable, script, "serve", run, "--port=0", f"--workers={workers}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            lines_until(process.stdout, "2 workers answer" if workers > 1 else "serving")
            process.send_signal(signal.SIGHUP)
            lines_until(process.stdout, "opening")
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
        finally:
            process.kill()


def lines_until(stream, said):
    for line in stream:
        if said in line:
            return line
    raise AssertionError(said)


def pointed(link, target):
    """Lets a link point to another folder, at once."""
    new = link.with_suffix(".new")
    new.symlink_to(target)
    new.replace(link)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_the_command_at_sighup(tiny_run, other, tmp_path, workers):
    folders = [tiny_run / "run", other]
    if workers > 1:
        for number, run in enumerate(folders):
            folders[number] = tmp_path / f"model{number}"
            call("export", run, "--to", "npy", "--out", folders[number])
    point = {"features": [{"3": 1, "5": 2}]}
    live = tmp_path / "live"
    live.symlink_to(folders[0])
    with started(live, "--workers", str(workers), stderr=subprocess.PIPE) as (process, address):
        if workers > 1:
            lines_until(process.stdout, "2 workers answer")

        def answers():
            found = [post(f"{address}/predict", json=point).json() for _ in range(10)]
            assert all(one == found[0] for one in found)
            return found[0]["answers"][0]["scores"]

        old = answers()
        pointed(live, tmp_path / "nothing")
        process.send_signal(signal.SIGHUP)
        line = lines_until(process.stderr, "the old model stays")
        assert line.startswith("snm: the old model stays, as the new one does not open: ")
        assert "nothing" in line and answers() == old
        pointed(live, folders[1])
        process.send_signal(signal.SIGHUP)
        assert lines_until(process.stdout, "again") == f"serving {live}, opened again\n"
        new = answers()
        assert new != old
        pointed(live, folders[0])
        process.send_signal(signal.SIGHUP)
        lines_until(process.stdout, "again")
        assert answers() == old
