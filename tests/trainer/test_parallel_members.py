"""Members that train side by side: order, results, failures and stops."""

import itertools
import threading
import time
from collections.abc import Callable, Generator

import jax
import pytest
from small_runs import config, same

import snm
from snm.errors import StoppedError
from snm.runs.events import NonFinite, NonFiniteError
from snm.runs.stored_run import StoredRun
from snm.trainer import phase_run
from snm.trainer.parallel_members import run_members
from snm.trainer.steps.loop import run_steps
from snm.trainer.training import training

PATIENCE = 60  # seconds


def collected(events):
    """The events of a generator, and what it returns."""
    found = []
    while True:
        try:
            found.append(next(events))
        except StopIteration as end:
            return found, end.value


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_events_come_run_by_run(at_once):
    def begin(name: str, length: int) -> Callable:
        def run(stop) -> Generator[str, None, int]:
            for number in range(length):
                yield f"{name}{number}"
            return length

        return run

    events, results = collected(run_members([begin("a", 3), begin("b", 1), begin("c", 2)], at_once))
    assert events == ["a0", "a1", "a2", "b0", "c0", "c1"]
    assert results == [3, 1, 2]


def test_runs_are_side_by_side():
    meeting = threading.Barrier(3, timeout=PATIENCE)

    def run(stop) -> Generator[int, None, None]:
        yield meeting.wait()  # raises if the three are not there together

    events, _ = collected(run_members([run] * 3, 3))
    assert sorted(events) == [0, 1, 2]


def test_another_run_takes_the_place_of_the_first():
    meeting = threading.Barrier(2, timeout=PATIENCE)

    def first(stop) -> Generator[int, None, None]:
        yield 0

    def other(stop) -> Generator[int, None, None]:
        meeting.wait()  # raises if it is alone
        yield 1

    assert collected(run_members([first, other, other, other, other], 2))[0] == [0, 1, 1, 1, 1]


@pytest.mark.parametrize("at_once", [2, 3])
def test_no_more_run_than_may(at_once):
    lock, running, most = threading.Lock(), set(), []

    def run(stop) -> Generator[int, None, None]:
        me = object()
        with lock:
            running.add(me)
            most.append(len(running))
        for number in range(3):
            time.sleep(0.005)
            yield number
        with lock:
            running.remove(me)

    collected(run_members([run] * 7, at_once))
    assert max(most) <= at_once


def test_a_run_that_waits_for_its_place_is_not_begun_after_a_stop():
    begun = []

    def other(stop) -> Generator[int, None, None]:
        begun.append(1)
        yield from until_stopped(stop)

    with pytest.raises(StoppedError, match="step 7"):
        collected(run_members([until_stopped, other, other], 2, lambda: bool(begun)))
    assert len(begun) == 1


def until_stopped(stop) -> Generator[int, None, None]:
    """Runs until it is asked to end."""
    while not stop():
        yield 0
    raise StoppedError(7)


def failing(stop) -> Generator[int, None, None]:
    yield 1
    raise ValueError("the failure")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_failure_ends_the_others_and_is_raised(place):
    runs = [until_stopped] * 3
    runs[place] = failing
    with pytest.raises(ValueError, match="the failure"):
        collected(run_members(runs, 3))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("member")]


def test_a_stop_ends_all():
    wished = threading.Event()

    def asking(stop) -> Generator[int, None, None]:
        yield 1
        wished.set()
        yield from until_stopped(stop)

    with pytest.raises(StoppedError, match="step 7"):
        collected(run_members([until_stopped, asking, until_stopped], 2, wished.is_set))


def test_a_caller_who_leaves_ends_all():
    events = run_members([until_stopped] * 3, 2)
    next(events)
    events.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("member")]


# -- trainings ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def in_turns(data, tmp_path_factory):
    run = tmp_path_factory.mktemp("in-turns") / "run"
    return run, snm.train(data, config(members=3, members_at_once=1), run)


def states(run):
    return jax.tree.leaves([StoredRun.open(run).member(member) for member in (1, 2, 3)])


def test_a_result_does_not_depend_on_who_trains_beside(data, in_turns, tmp_path):
    run, expected = in_turns
    result = snm.train(data, config(members=3, members_at_once=3), tmp_path / "run")
    assert same(states(tmp_path / "run"), states(run))
    assert result["metrics"] == expected["metrics"]
    assert result["steps"] == expected["steps"]


def test_a_stopped_run_goes_on_with_any_number_at_once(data, in_turns, tmp_path):
    calls = itertools.count()
    settings = config(members=3, members_at_once=3)
    with pytest.raises(StoppedError):
        list(training(data, settings, tmp_path / "run", stop=lambda: next(calls) > 9))
    snm.train(data, config(members=3, members_at_once=2), tmp_path / "run")
    assert same(states(tmp_path / "run"), states(in_turns[0]))


def test_a_member_that_fails_beside_is_told(data, tmp_path, monkeypatch):
    def second_fails(*args, **options):
        for event in run_steps(*args, **options):
            yield event
            if threading.current_thread() is not threading.main_thread():
                raise NonFiniteError(2, NonFinite("the logits are", []), [0])

    monkeypatch.setattr(phase_run, "run_steps", second_fails)
    settings = config(members=2, members_at_once=2, epochs=1000)
    with pytest.raises(NonFiniteError, match="the logits are not finite"):
        snm.train(data, settings, tmp_path / "run")
    # The first member was stopped, with a checkpoint to go on from.
    assert StoredRun.open(tmp_path / "run").member(1)
