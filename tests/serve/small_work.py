"""What the processes of a service do in its tests; it is imported in each of them."""

import contextlib
import os
import signal
import socket

from snm.errors import InputError


def answer(listening, ready):
    """Tells every connection the id of this process."""
    ready()
    while True:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(str(os.getpid()).encode())


def answer_anew(listening, ready):
    """The same, and tells that it answers anew at each SIGHUP."""
    signal.signal(signal.SIGHUP, lambda *_: ready())
    answer(listening, ready)


def answer_once(listening, ready):
    """The same until SIGHUP, at which it ends."""
    signal.signal(signal.SIGHUP, lambda *_: os._exit(0))
    answer(listening, ready)


def fail(listening, ready):
    """Ends before it answers."""
    raise SystemExit(3)


def fail_beside_another(listening, ready):
    """The first process answers, and all later ones end."""
    with socket.create_connection(listening.getsockname(), timeout=2) as connection:
        try:
            connection.recv(16)
        except TimeoutError:  # it waits to be accepted, by nobody
            connection.close()
            answer(listening, ready)
    raise InputError("here", "another process", "none")


def serve_two(port_of):
    """A service of two processes, in a process of its own; tells its port through a file."""
    from snm.serve.server import listen
    from snm.serve.workers import supervise

    with listen("127.0.0.1", 0) as listening:
        port_of.write_text(str(listening.getsockname()[1]))
        supervise(
            answer, 2, listening, grace=1, on_ready=lambda count: None, on_end=lambda *_: None
        )
