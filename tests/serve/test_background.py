"""Functions that run in the background: result, exception, and that nobody waits for them."""

import gc
import threading
import weakref

import pytest

from snm.serve.background import has_background_work, run_in_background


class Big:
    """Something that should be freed."""


def test_results_errors_and_whether_it_goes_on():
    go = threading.Event()
    found = run_in_background(lambda: go.wait(30))
    assert has_background_work() and not found.cancel()
    assert all(one.daemon for one in threading.enumerate() if one.name == "snm-background")
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
        while has_background_work():
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
