"""SIGHUP asks for something again, and a terminal that closes ends a process in order."""

import signal
import subprocess
import sys
import threading

import pytest

from snm.system.signals import reload_requested

# A process with a terminal of its own. Its status tells what it saw: 5 is asked again, 7 SIGTERM.
SCRIPT = """
import os, pty, signal, sys, time
from snm.system.signals import reload_requested

def process():
    signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
    # Not what the tests were started with, perhaps by nohup.
    signal.signal(signal.SIGHUP, signal.SIG_IGN if "nohup" in sys.argv else signal.SIG_DFL)
    with reload_requested() as asked:
        os.write(sender, b"%8d" % os.getpid())
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
    time.sleep(2.5)
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
