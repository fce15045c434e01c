"""Functions that run in the background: result, exception, and that nobody waits for them."""

import gc
import threading
import weakref

import pytest

from snm.serve.background import run_in_background


def background_threads():
    return [thread for thread in threading.enumerate() if thread.name == "snm-background"]


class Big:
    """Something that should be freed."""


def test_results_errors_and_that_nobody_waits():
    go = threading.Event()
    found = run_in_background(lambda: go.wait(30))
    assert not found.done() and not found.cancel()
    assert all(one.daemon for one in background_threads()) and background_threads()
    go.set()
    assert found.result(30) is True
    with pytest.raises(SystemExit):
        run_in_background(lambda: (_ for _ in ()).throw(SystemExit(1))).result(30)


def test_nothing_is_kept_of_work_that_failed():
    left = []

    def work():
        big = Big()
        left.append(weakref.ref(big))
        raise ValueError("no")

    gc.disable()
    try:
        assert str(run_in_background(work).exception(30)) == "no"
        while background_threads():
            pass
        assert left[0]() is None
    finally:
        gc.enable()


def test_no_room_for_a_thread(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="new thread"):
        run_in_background(lambda: None).result(1)
