"""What the processes of a service do in its tests; it is imported in each of them."""

import contextlib
import os
import signal
import socket
import threading
import time

from snm.errors import InputError
from snm.serve.reloading import Reload

NEVER = Reload(threading.Event(), lambda: None, lambda: None, lambda error: None)
"""No reload: none is requested."""


def answer(listening, context):
    """Tells every connection the id of this process, and the model that it has."""
    models = [context.newest_model()]

    def follow():
        while context.reload_requested.wait():
            context.reload_requested.clear()
            models.append(context.newest_model())
            context.on_ready()

    threading.Thread(target=follow, daemon=True).start()
    _answer(listening, context, models)


def answer_once(listening, context):
    """The same until there is another model, at which it ends without ever having served it."""

    def end():
        context.reload_requested.wait()
        os._exit(0)

    models = [context.newest_model()]
    threading.Thread(target=end, daemon=True).start()
    _answer(listening, context, models)


def _answer(listening, context, models):
    context.on_ready()
    while True:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(f"{os.getpid()} {models[-1]}".encode())


def finish_slowly(listening, context):
    """At SIGTERM it accepts no more connections, and has an open request to finish."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    context.on_ready()
    stopped.wait()
    listening.close()
    time.sleep(3)


def leave_a_thread(listening, context):
    """At SIGTERM it ends, and one of its threads does not."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    threading.Thread(target=threading.Event().wait).start()
    context.on_ready()
    stopped.wait()


def fail(listening, context):
    """Ends before it answers."""
    raise SystemExit(3)


def fail_beside_another(listening, context):
    """The first process answers, and all later ones end."""
    with socket.create_connection(listening.getsockname(), timeout=2) as connection:
        try:
            connection.recv(16)
        except TimeoutError:  # it waits to be accepted, by nobody
            connection.close()
            answer(listening, context)
    raise InputError("here", "another process", "none")


def serve_two(port_of):
    """A service of two processes, in a process of its own; tells its port through a file."""
    from snm.serve.http.server import listen
    from snm.serve.workers import supervise

    with listen("127.0.0.1", 0) as listening:
        port_of.write_text(str(listening.getsockname()[1]))
        supervise(
            answer,
            "a model",
            2,
            listening,
            grace=1,
            on_ready=lambda count: None,
            on_end=lambda *_: None,
            reload=NEVER,
        )
