"""A real server on a free port, in a thread, and a run whose model answers."""

import contextlib
import dataclasses
import threading
import time

import pytest
import tiny

import snm
from snm.data.vectorizer import Vectorizer
from snm.serve.app import make_app
from snm.serve.limits import Limits
from snm.serve.server import listen, make_server

WORDS = tuple(f"word{j}" for j in range(tiny.FEATURES))


@contextlib.contextmanager
def serving(predictor, hosts=(), **limits):
    """Yields the address and the server."""
    limits = Limits(**limits)
    server = make_server(make_app(predictor, limits, hosts), patience=limits.patience)
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


@pytest.fixture(scope="session")
def served_run(tmp_path_factory):
    """A run whose labels have names."""
    place = tmp_path_factory.mktemp("serve")
    tiny.write(place / "data", names=True)
    snm.train(place / "data", tiny.CONFIG, place / "run")
    return place / "run"


@pytest.fixture(scope="session")
def served(served_run):
    """Its predictor, which also reads texts of `WORDS`."""
    texts = Vectorizer("counts", tiny.FEATURES, vocabulary=WORDS)
    return dataclasses.replace(snm.load(served_run), vectorizer=texts)
