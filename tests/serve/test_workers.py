"""Several processes behind one socket: all answer, one that ends is replaced, none is left."""

import contextlib
import multiprocessing
import os
import signal
import socket
import threading
import time

import httpx
import pytest
from command_line import call, refused
from serve import small_work
from serve.served import started

from snm.errors import InputError
from snm.serve import cli, workers
from snm.serve.http.server import listen
from snm.serve.workers import supervise

PATIENCE = 300  # seconds, after which a test fails


def ask(port):
    """The id of the process that answers, and its model."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        number, model = connection.recv(100).decode().split(maxsplit=1)
        return int(number), model


def asked_until(port, wanted, model="first"):
    """The ids of the processes that answered with a model, once they fit."""
    end, found = time.monotonic() + PATIENCE, set()
    while not wanted(found):
        assert time.monotonic() < end, found
        with contextlib.suppress(OSError, ValueError):
            number, its = ask(port)
            found |= {number} if its == model else set()
        time.sleep(0.01)
    return found


def gone(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    return False


def wait_until(fits):
    end = time.monotonic() + PATIENCE
    while not fits():
        assert time.monotonic() < end
        time.sleep(0.02)


def supervised(work, count, client, reload=small_work.NEVER, model="first", grace=5):
    """Runs `client(port, events)` beside a service that it ends with SIGTERM."""
    events, failed, over = [], [], threading.Event()
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]

        def run_client():
            try:
                client(port, events)
            except BaseException as error:
                failed.append(error)
            finally:
                if not over.is_set():
                    os.kill(os.getpid(), signal.SIGTERM)

        thread = threading.Thread(target=run_client)
        thread.start()
        try:
            supervise(work, model, count, listening, grace=grace,
                      on_ready=lambda number: events.append(("ready", number)),
                      on_end=lambda number, status: events.append((number, status)),
                      reload=reload)  # fmt: skip
        finally:
            over.set()
        thread.join()
    assert not failed, failed
    return events


def test_all_answer_and_one_that_ends_is_replaced():
    before = signal.getsignal(signal.SIGTERM)
    seen = set()

    def client(port, events):
        both = asked_until(port, lambda found: len(found) == 2)
        wait_until(lambda: len(events) == 2)
        assert events == [("ready", 1), ("ready", 2)]
        killed = min(both)
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: ("ready", 2) in events[2:])
        assert events[2:] == [(killed, -signal.SIGKILL), ("ready", 2)]
        new = asked_until(port, lambda found: len(found) == 2)
        assert killed not in new and len(new & both) == 1
        seen.update(new)

    supervised(small_work.answer, 2, client)
    assert len(seen) == 2 and all(map(gone, seen))
    assert signal.getsignal(signal.SIGTERM) == before
    assert "PROMETHEUS_MULTIPROC_DIR" not in os.environ


def test_no_connection_waits_while_open_requests_are_finished():
    """Refused at once, and not only when the last process has ended."""

    def refused(port):
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
            return False
        return True

    def client(port, events):
        with contextlib.ExitStack() as stack:
            each = [  # of the two processes has one
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
                for _ in range(2)
            ]
            wait_until(lambda: ("ready", 2) in events)
            assert not refused(port)
            os.kill(os.getpid(), signal.SIGTERM)
            wait_until(lambda: refused(port))
            for connection in each:
                connection.sendall(b"the end")
                assert connection.recv(100) == b"the end"

    supervised(small_work.finish_slowly, 2, client, grace=120)


def test_a_process_that_was_stopped_waits_for_no_thread():
    """The shutdown of the interpreter would wait for this one, and seconds for JAX."""
    stopped = []

    def client(port, events):
        wait_until(lambda: ("ready", 1) in events)
        stopped.append(time.monotonic())

    supervised(small_work.leave_a_thread, 1, client, grace=60)
    assert time.monotonic() - stopped[0] < 60  # at 65 it would have been killed


def test_a_process_that_ends_before_it_answers(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(workers, "_RESTART_DELAY", 0.1)
    with listen("127.0.0.1", 0) as listening, pytest.raises(InputError, match="status 3"):
        supervise(small_work.fail, "a model", 2, listening, grace=1, on_ready=print, on_end=print,
                  reload=small_work.NEVER)  # fmt: skip

    def client(port, events):  # the others go on answering, and it is tried again
        wait_until(lambda: [status for _, status in events].count(2) >= 2)
        assert events[0] == ("ready", 1) and ask(port)

    supervised(small_work.fail_beside_another, 2, client, model=str(tmp_path / "first"))
    assert set(capfd.readouterr().err.splitlines()) == {
        "snm: error: here: found another process, expected none"
    }


def test_a_process_that_ends_once_it_serves_is_replaced(monkeypatch):
    """Also where it does both after its pipe was looked at, and before its end is."""
    poll_ready = workers._Worker.poll_ready

    def slowly(self):
        found = poll_ready(self)
        self.process.join(PATIENCE)
        return found

    monkeypatch.setattr(workers._Worker, "poll_ready", slowly)

    def client(port, events):
        wait_until(lambda: len(events) >= 4)

    events = supervised(small_work.serve_nothing, 1, client)
    assert events[0] == events[2] == ("ready", 1)
    assert [status for _, status in (events[1], events[3])] == [0, 0]


def test_no_process_outlives_a_service_that_was_killed(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    service = spawn.Process(target=small_work.serve_two, args=(tmp_path / "port",))
    service.start()
    try:
        wait_until(lambda: (tmp_path / "port").exists() and (tmp_path / "port").read_text())
        port = int((tmp_path / "port").read_text())
        both = asked_until(port, lambda found: len(found) == 2, model="a model")
    finally:
        service.kill()
        service.join()
    wait_until(lambda: all(map(gone, both)))


def test_workers_are_of_an_export(tiny_run, capsys):
    run = tiny_run / "run"
    assert "--workers: found 0, expected 1 or more" in refused(capsys, "serve", run, "--workers=0")
    said = refused(capsys, "serve", run, "--workers=2")
    assert said == (
        "--workers 2: found a run, expected its export, which they share: snm export RUN --to npy"
    )


def test_the_address_is_told_once(tmp_path, capsys, monkeypatch):
    """Also where all processes ended and others took their place.

    That is told on standard error, where who watches the service looks for what went wrong.
    """

    def supervise(*_, on_ready, on_end, **how):
        for count in (1, 2):
            on_ready(count)
        for number in (7, 8):
            on_end(number, -signal.SIGKILL)
        for count in (1, 2):
            on_ready(count)

    (tmp_path / "settings.toml").touch()  # an export has one
    monkeypatch.setattr(cli, "_load", lambda options: None)
    monkeypatch.setattr(workers, "supervise", supervise)
    call("serve", tmp_path, "--workers", "2", "--port", "0")
    said = capsys.readouterr()
    assert said.out.count("serving ") == 1 and said.out.count("2 workers answer\n") == 2
    ended = "snm: worker {} ended with status -9: another one starts\n"
    assert said.err == ended.format(7) + ended.format(8)


@pytest.mark.slow
def test_the_command(tiny_run, tmp_path):
    """Two workers answer as the model does; `/metrics` of either has the requests of both."""
    out = tmp_path / "model"
    call("export", tiny_run / "run", "--to", "npy", "--out", out)
    with started(out, "--workers", "2") as (process, address):
        assert httpx.get(f"{address}/health").status_code == 200
        assert process.stdout.readline() == "2 workers answer\n"
        answers = [httpx.post(f"{address}/predict", json={"features": [{"3": 1}]}).json()
                   for _ in range(20)]  # fmt: skip
        assert all(answer == answers[0] for answer in answers)
        counted = 'snm_requests_total{path="/predict",status="200"} 20.0'

        def told():
            return [httpx.get(f"{address}/metrics").text for _ in range(4)]

        # A worker counts a request after its answer, when another may be asked already.
        wait_until(lambda: all(counted in one for one in told()))
        assert all("snm_waiting_requests 0.0" in one for one in told())
