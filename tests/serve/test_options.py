"""Options of `snm serve` reach the server."""

import os
import signal
import socket
import threading
from pathlib import Path

import pytest
from command_line import call

from snm.export import index
from snm.serve import cli, workers
from snm.serve.http import app, server
from snm.serve.limits import Limits
from snm.serve.workers import WorkerContext
from snm.system import streams


def test_options_of_the_command_reach_the_server(tiny_run, tmp_path, monkeypatch):
    told, real = {}, server.make_server
    monkeypatch.setattr(app, "make_app", lambda *words: told.update(app=words) or (lambda: None))
    monkeypatch.setattr(server, "make_server", lambda *words, **how: real(*words, **how))
    monkeypatch.setattr(server, "run", lambda server, _: told.update(server=server))
    patient = []
    protocol = server._protocol
    monkeypatch.setattr(
        server, "_protocol", lambda seconds: patient.append(seconds) or protocol(seconds)
    )
    monkeypatch.setattr(index, "with_index", lambda predictor, folder: folder)
    call("serve", tiny_run / "run", "--port=0", "--index", tmp_path, "--allowed-host", "me.org",
         "--max-k=7", "--max-points=8", "--max-bytes=9", "--queue=10", "--patience=11",
         "--grace=12")  # fmt: skip
    *told_app, reload = told["app"]
    assert told_app == [tmp_path, Limits(7, 8, 9, 10, 11), ("127.0.0.1", "me.org")]
    assert reload.open() == tmp_path and not reload.requested.is_set()
    assert told["server"].config.timeout_graceful_shutdown == 12
    assert patient == [12]  # a second after a slow body is refused


def context_of(sent):
    """With a worker, of which the newest model is the last that was sent."""
    return WorkerContext(lambda: sent[-1], threading.Event(), lambda: None)


def test_workers_open_exactly_the_model_that_was_compared(tmp_path, monkeypatch):
    """Whatever a link leads to while it is being compared, and afterwards."""
    live, opened, given, apps = tmp_path / "live", [], [], []
    folders = [tmp_path / name for name in ("first", "second", "damaged")]
    for folder in folders:
        folder.mkdir()
        (folder / "settings.toml").touch()  # an export has one

    def point_to(folder):
        live.unlink(missing_ok=True)
        live.symlink_to(folder)

    def load(options):
        opened.append(options)
        point_to(folders[-1])

    monkeypatch.setattr(cli, "_load", load)
    monkeypatch.setattr(cli, "_app", lambda *words: apps.append(words))
    monkeypatch.setattr(cli, "_serve", lambda *words: None)
    monkeypatch.setattr(
        workers, "supervise", lambda *words, reload, **_: given.append((*words, reload))
    )
    point_to(folders[0])
    call("serve", live, "--port=0", "--workers=2")
    ((work, model, count, listening, reload),) = given
    point_to(folders[1])
    sent = [model, reload.open()]
    assert count == 2 and [one.run for one in sent] == folders[:2]
    assert [(one.run, one.verify) for one in opened] == [(folders[0], True), (folders[1], True)]
    opened.clear()
    context = context_of(sent[:1])
    work(listening, context)
    ((_, _, again),) = apps
    assert again.requested is context.reload_requested and again.on_success is context.on_ready
    context = context_of(sent)
    work(listening, context)
    apps[1][-1].open()
    assert [(one.run, one.verify) for one in opened] == [
        (folders[0], False),
        (folders[1], False),
        (folders[1], False),
    ]


def test_a_worker_whose_new_model_does_not_open_makes_room_for_another(
    tmp_path, capsys, monkeypatch
):
    """Also where nobody hears why."""
    apps, signals = [], []
    monkeypatch.setattr(cli, "_load", lambda options: None)
    monkeypatch.setattr(cli, "_app", lambda *words: apps.append(words))
    monkeypatch.setattr(cli, "_serve", lambda *words: None)
    monkeypatch.setattr(os, "kill", lambda *words: signals.append(words))
    with socket.socket() as listening:
        cli._run_worker(listening, context_of([cli.Serve(tmp_path)]))
    ((*_, reload),) = apps
    reload.on_failure(MemoryError())
    assert signals == [(os.getpid(), signal.SIGTERM)]
    said = "snm: a worker ends, as the new model does not open beside its old: out of memory"
    assert capsys.readouterr().err.startswith(said)
    monkeypatch.setattr(streams, "print_note", lambda line: (_ for _ in ()).throw(OSError(line)))
    with socket.socket() as listening:
        cli._run_worker(listening, context_of([cli.Serve(tmp_path)]))
    with pytest.raises(OSError, match="a worker ends"):
        apps[1][-1].on_failure(MemoryError())
    assert len(signals) == 2


def test_an_address_is_no_link():
    assert cli._resolve_links(cli.Serve(Path("gs://bucket/run"))).run == Path("gs://bucket/run")
