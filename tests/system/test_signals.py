"""SIGHUP asks for something again, a terminal that closes ends a process in order, and SIGTERM
ends the first process of a container.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from snm.system.signals import SignalEvent, reload_requested

# A process with a terminal of its own. Its status tells what it saw: 5 is asked again, 7 SIGTERM.
SCRIPT = """
import os, pty, signal, sys, threading, time
from snm.system.signals import reload_requested

def process():
    signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
    # Not what the tests were started with, perhaps by nohup.
    signal.signal(signal.SIGHUP, signal.SIG_IGN if "nohup" in sys.argv else signal.SIG_DFL)
    with reload_requested() as asked:
        os.write(sender, b"%8d" % os.getpid())
        if "later" in sys.argv:  # once the thread that watches has seen for a while that it is gone
            while any(thread.name == "terminal" for thread in threading.enumerate()):
                time.sleep(0.05)
            time.sleep(1.1)
            os.write(sender, b"   later")
        status = 5 if asked.wait(40) else 6
    os.write(sender, b"%8d" % status)
    os._exit(status)

receiver, sender = os.pipe()
leader, terminal = pty.fork()
if not leader:
    if "behind" not in sys.argv:
        process()
    if not os.fork():
        os.setpgid(0, 0)
        process()
    signal.pause()
number = int(os.read(receiver, 8))
if "exit" in sys.argv:  # of a shell, which leaves its jobs running
    os.kill(leader, signal.SIGKILL)
    os.waitpid(leader, 0)
if "close" in sys.argv:
    os.close(terminal)
if "later" in sys.argv:
    os.read(receiver, 8)
if "signal" in sys.argv:
    os.kill(number, signal.SIGHUP)
if "behind" in sys.argv:
    print(int(os.read(receiver, 8)))
else:
    print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))
"""


@pytest.mark.parametrize(
    ("what", "status"),
    [
        ("signal", 5),
        ("close", 7),  # as before: nothing is left behind a terminal
        ("nohup close later signal", 5),  # and only the signal that is sent to it asks
        ("behind exit later signal", 5),  # which the terminal left without a signal
    ],
)
def test_a_terminal_that_closes_asks_for_nothing(what, status):
    command = [sys.executable, "-c", SCRIPT, *what.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (f"{status}\n", "")


@pytest.mark.parametrize("method", ["clear", "is_set", "set", "wait"])
def test_a_handler_may_set_an_event_at_any_moment(method):
    """Also within its methods, at each of their lines; a `threading.Event` would never return."""
    event, returned = SignalEvent(), []

    def handle(*_):
        event.set()
        return handle

    def interrupted():
        sys.settrace(handle)
        getattr(event, method)(*[60] * (method == "wait"))
        sys.settrace(None)
        returned.append(event.is_set())

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(30)
    assert returned == [True]  # also where it came at the end of `clear`


def test_an_event_is_waited_for_as_long_as_asked():
    event = SignalEvent()
    assert not event.wait(0) and not event.wait(0.01)
    event.set()
    assert event.wait(60) and event.is_set()
    event.clear()
    assert not event.is_set()


def test_sighup_is_what_it_was_afterwards():
    before = signal.getsignal(signal.SIGHUP)
    with reload_requested() as asked:
        assert not asked.is_set()
        signal.raise_signal(signal.SIGHUP)
        assert asked.is_set()
    assert signal.getsignal(signal.SIGHUP) == before


def test_another_thread_is_never_asked():
    seen = []

    def look():
        with reload_requested() as asked:
            seen.append((asked.is_set(), signal.getsignal(signal.SIGHUP)))

    thread = threading.Thread(target=look)
    before = signal.getsignal(signal.SIGHUP)
    thread.start()
    thread.join()
    assert seen == [(False, before)]


# The first process of a namespace, while compiled code runs; one writes a file, one serves.
FIRST = """
import ctypes, sys
import snm.cli.main as command_line
from snm.system.signals import SIGNALS, SignalEvent, sigterm_raises_exit, signal_handlers

def blocked():
    print("ready", flush=True)
    ctypes.CDLL(None).sleep(30)

def run(words):
    if words == ["writes"]:
        with sigterm_raises_exit():
            try:
                blocked()
            finally:
                print("removed")
    elif words == ["serves"]:
        # Another thread may get the signal; Python then calls the handler between two waits.
        stopped = SignalEvent()
        with signal_handlers(lambda *_: stopped.set(), *SIGNALS):
            print("ready", flush=True)
            while not stopped.wait(0.05):
                pass
        print("finished")
    else:
        blocked()

command_line._run = run
command_line.main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("what", "status", "said"),
    [("waits", 143, ""), ("writes", 143, "removed\n"), ("serves", 0, "finished\n")],
)
def test_sigterm_ends_the_first_process_of_a_container(what, status, said):
    """The kernel keeps a signal without a handler from it."""
    unshare = ["unshare", "--pid", "--fork", "--kill-child"]
    try:
        allowed = subprocess.run([*unshare, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare")
    if allowed.returncode:
        pytest.skip("a namespace of processes is not permitted")
    command = [*unshare, sys.executable, "-c", FIRST, what]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        (first,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(first), signal.SIGTERM)
        assert process.wait(20) == status
        assert process.stdout.read() == said
