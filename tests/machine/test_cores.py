"""Work in threads: results in order, failures told, and no thread where there is one core."""

import threading

import pytest

from snm.machine import cores


@pytest.mark.parametrize("count", [0, 1, 2, 50])
@pytest.mark.parametrize("number", [1, 3])
def test_results_are_in_the_order_of_the_items(count, number, monkeypatch):
    monkeypatch.setattr(cores, "num_cores", lambda: number)
    assert cores.on_all_cores(lambda x: x * x, range(count)) == [x * x for x in range(count)]


def test_several_items_are_worked_on_at_once(monkeypatch):
    monkeypatch.setattr(cores, "num_cores", lambda: 2)
    both = threading.Barrier(2, timeout=30)
    assert sorted(cores.on_all_cores(lambda _: both.wait(), [0, 1])) == [0, 1]


def test_one_core_has_no_threads(monkeypatch):
    monkeypatch.setattr(cores, "num_cores", lambda: 1)
    here = threading.current_thread()
    assert cores.on_all_cores(lambda _: threading.current_thread(), [0, 1]) == [here, here]


def test_the_first_failure_is_told(monkeypatch):
    monkeypatch.setattr(cores, "num_cores", lambda: 2)
    with pytest.raises(ZeroDivisionError):
        cores.on_all_cores(lambda x: 1 // x, [1, 0, 2])


@pytest.mark.parametrize(("count", "least", "share"), [(0, 1, 1), (7, 1, 3), (7, 5, 5), (9, 1, 3)])
def test_the_share_of_a_core(count, least, share, monkeypatch):
    monkeypatch.setattr(cores, "num_cores", lambda: 3)
    assert cores.share_of_core(count, least) == share
