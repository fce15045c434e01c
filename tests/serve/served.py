"""Real servers on free ports, in a thread and in a process, and a model that answers."""

import contextlib
import dataclasses
import functools
import re
import signal
import subprocess
import sys
import threading
import time

import httpx
import pytest
import tiny
from serve.small_work import NEVER

import snm
from snm.data.vectorizer import Vectorizer
from snm.serve.http.app import make_app
from snm.serve.http.server import listen, make_server
from snm.serve.limits import Limits

# The first answers wait for programs to be compiled, beside other tests.
get, post = (functools.partial(ask, timeout=120) for ask in (httpx.get, httpx.post))
# A client of many requests, each over a connection of its own. The server closes one after five
# seconds without a request: one that read an answer late would send the next into the close.
many = functools.partial(
    httpx.AsyncClient, timeout=120, limits=httpx.Limits(max_keepalive_connections=0)
)
WORDS = tuple(f"word{j}" for j in range(tiny.FEATURES))


@contextlib.contextmanager
def serving(predictor, hosts=(), reload=NEVER, **limits):
    """Yields the address and the server."""
    limits = Limits(**limits)
    server = make_server(make_app(predictor, limits, hosts, reload), patience=limits.patience)
    with listen("127.0.0.1", 0) as listening:
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


@contextlib.contextmanager
def started(run, *options, stderr=None):
    """`snm serve` in a process of its own, on a port that it chooses: (process, address)."""
    command = [sys.executable, "-m", "snm", "serve", str(run), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process:
        try:
            assert process.stdout.readline() == f"loading {run}\n"
            assert process.stdout.readline() == "compiling\n"
            yield process, re.search(r"http://127.0.0.1:\d+", process.stdout.readline())[0]
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(120)
    assert status == 0


@pytest.fixture(scope="session")
def served(tiny_run):
    """The predictor of a run, with names of its labels, which also reads texts of `WORDS`."""
    return dataclasses.replace(
        snm.load(tiny_run / "run"),
        label_names=tuple(f"name {label}" for label in range(tiny.LABELS)),
        vectorizer=Vectorizer("counts", tiny.FEATURES, vocabulary=WORDS),
    )


def as_question(rows):
    """The rows of a CSR as a request has them."""
    return [dict(zip(map(str, row.indices.tolist()), row.data.tolist(), strict=True))
            for row in rows]  # fmt: skip
