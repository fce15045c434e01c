"""Where the time of a process goes: parts are exclusive, and compiling counts apart."""

import threading

import jax
import jax.numpy as jnp
import pytest

from snm.system import timing


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    fake = Clock()
    monkeypatch.setattr(timing.time, "perf_counter", fake)
    timing.restart()
    yield fake
    monkeypatch.undo()
    timing.restart()


def test_parts_within_parts_count_once(clock):
    with timing.part("outer"):
        clock.now += 1
        with timing.part("inner"):
            clock.now += 10
        with timing.part("inner"):
            clock.now += 20
        clock.now += 2
    clock.now += 4
    found = timing.times()
    assert found.parts == {"outer": 3, "inner": 30} and found.whole == 37 and found.rest == 4


def test_a_part_that_raises_is_counted(clock):
    with pytest.raises(KeyError), timing.part("reading"):
        clock.now += 5
        raise KeyError
    with timing.part("reading"):
        clock.now += 1
    assert timing.times().parts == {"reading": 6}


def test_what_came_before_the_restart_is_a_part(clock):
    timing.restart(90.0, "starting")
    assert timing.times() == (10.0, {"starting": 10.0}, {})


def test_compiling_counts_apart_and_nested_intervals_once(clock):
    trace, build = "/jax/core/compile/jaxpr_trace_duration", "/jax/core/compile/backend_compile"
    with timing.part("steps"):
        clock.now += 3
        timing._compiled(trace, 1.0, fun_name="inner")  # 102 to 103
        clock.now += 1
        timing._compiled(trace, 3.5, fun_name="outer")  # 100.5 to 104, inner within
        clock.now += 2
        timing._compiled(build, 2.0, fun_name="outer")
        timing._compiled("/jax/another/event", 50.0)
        clock.now += 4
    found = timing.times()
    assert found.programs == {"inner": 1.0, "outer": 4.5}
    assert found.parts == {"steps": 4.5, timing.COMPILING: 5.5} and found.rest == 0


def test_other_threads_are_not_counted(clock):
    def elsewhere():
        with timing.part("batches"):
            clock.now += 1

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert timing.times().parts == {}


def test_generators_that_are_advanced_in_turns_are_measured_apart(clock):
    def events(name, seconds):
        for _ in range(2):
            with timing.part(name):
                clock.now += seconds
            yield None
        with timing.part("closing"):
            yield timing.times()

    with timing.part("outside"):
        first, second = (
            timing.timed_separately(events("a", 1)),
            timing.timed_separately(events("b", 10)),
        )
        next(first)
        next(second)
        clock.now += 100
        *_, of_first = first
        *_, of_second = second
    assert (of_first.whole, of_first.parts) == (112, {"a": 2, "closing": 0})
    assert (of_second.whole, of_second.parts) == (121, {"b": 20, "closing": 0})
    assert timing.times().parts == {"outside": 122}


def test_a_generator_that_is_measured_apart_is_closed():
    closed = []

    def events():
        try:
            yield 1
        finally:
            closed.append(timing.times().parts)

    measured = timing.timed_separately(events())
    assert next(measured) == 1
    with timing.part("outside"):
        measured.close()
    assert closed == [{}]


def test_jax_tells_what_it_compiles():
    timing.restart()
    with timing.part("steps"):
        jax.jit(lambda x: jnp.sort(x) * 3)(jnp.arange(7.0)).block_until_ready()
    whole, parts, programs = timing.times()
    assert 0 < parts[timing.COMPILING] <= whole and parts["steps"] > 0
    assert any("lambda" in name for name in programs)
    assert sum(programs.values()) == pytest.approx(parts[timing.COMPILING])


def test_the_process_began_before_now():
    import time

    assert 0 < time.perf_counter() - timing.process_started() < 24 * 3600
