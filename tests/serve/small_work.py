"""What the processes of a service do in its tests; it is imported in each of them."""

import contextlib
import os
import signal
import threading
from pathlib import Path

from snm.errors import InputError
from snm.serve.reloading import Reload
from snm.system.signals import SignalEvent

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
    """It has one connection. At SIGTERM it accepts no more, and waits for the end of a request."""
    connection, _ = listening.accept()
    with connection:
        _wait_for_sigterm(context)
        listening.close()
        connection.sendall(connection.recv(100))


def leave_a_thread(listening, context):
    """At SIGTERM it ends, and one of its threads does not."""
    threading.Thread(target=threading.Event().wait).start()
    _wait_for_sigterm(context)


def _wait_for_sigterm(context):
    stopped = SignalEvent()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    context.on_ready()
    while not stopped.wait(60):
        pass


def serve_nothing(listening, context):
    """Ends as soon as it serves."""
    context.on_ready()


def fail(listening, context):
    """Ends before it answers."""
    raise SystemExit(3)


def fail_beside_another(listening, context):
    """The first process makes the file that the model is, and answers; all later ones end."""
    try:
        Path(context.newest_model()).touch(exist_ok=False)
    except FileExistsError:
        raise InputError("here", "another process", "none") from None
    answer(listening, context)


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
