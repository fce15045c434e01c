"""Work beside other work: its result, what it raises, and that nobody waits for it."""

import gc
import threading
import weakref

import pytest

from snm.serve.aside import aside, busy


class Big:
    """Something that should be freed."""


def test_results_errors_and_whether_it_goes_on():
    go = threading.Event()
    found = aside(lambda: go.wait(30))
    assert busy() and not found.cancel()
    assert all(one.daemon for one in threading.enumerate() if one.name == "snm-aside")
    go.set()
    assert found.result(30) is True
    with pytest.raises(SystemExit):
        aside(lambda: (_ for _ in ()).throw(SystemExit(1))).result(30)


def test_nothing_is_kept_of_work_that_failed():
    left = []

    def work():
        big = Big()
        left.append(weakref.ref(big))
        raise ValueError("no")

    gc.disable()
    try:
        assert str(aside(work).exception(30)) == "no"
        while busy():
            pass
        assert left[0]() is None
    finally:
        gc.enable()


def test_no_room_for_a_thread(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="new thread"):
        aside(lambda: None).result(1)
