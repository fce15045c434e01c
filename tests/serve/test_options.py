"""Options of `snm serve` reach the server."""

import os
import signal
import socket
from pathlib import Path

from command_line import call

from snm.export.index import IndexedPredictor
from snm.serve import app, cli, server
from snm.serve.limits import Limits


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
    monkeypatch.setattr(IndexedPredictor, "open", lambda folder, predictor: folder)
    call("serve", tiny_run / "run", "--port=0", "--index", tmp_path, "--allowed-host", "me.org",
         "--max-k=7", "--max-points=8", "--max-bytes=9", "--queue=10", "--patience=11",
         "--grace=12")  # fmt: skip
    *told_app, renewal = told["app"]
    assert told_app == [tmp_path, Limits(7, 8, 9, 10, 11), ("127.0.0.1", "me.org")]
    assert renewal.open() == tmp_path and not renewal.wished.is_set()
    assert told["server"].config.timeout_graceful_shutdown == 12
    assert patient == [12]  # a second after a slow body is refused


def test_a_worker_whose_new_model_does_not_open_makes_room_for_another(
    tmp_path, capsys, monkeypatch
):
    """It begins with the model that was compared, and then opens what a link leads to by then."""
    opened, served, signals = [], [], []
    monkeypatch.setattr(cli, "_load", opened.append)
    monkeypatch.setattr(cli, "_serve", lambda *words: served.append(words))
    monkeypatch.setattr(os, "kill", lambda *words: signals.append(words))
    (tmp_path / "live").symlink_to(tmp_path / "first")
    options = cli.Serve(tmp_path / "live")
    now = cli._followed(options)
    (tmp_path / "live").unlink()
    (tmp_path / "live").symlink_to(tmp_path / "second")
    with socket.socket() as listening:
        cli._work(options, now, listening, lambda: None)
    ((*_, renewal),) = served
    renewal.open()
    assert [one.run for one in opened] == [tmp_path / "first", tmp_path / "second"]
    assert not any(one.verify for one in opened)
    renewal.on_kept(MemoryError())
    assert signals == [(os.getpid(), signal.SIGTERM)]
    said = "snm: a worker ends, as the new model does not open beside its old: out of memory"
    assert capsys.readouterr().err.startswith(said)
    assert cli._followed(cli.Serve(Path("gs://bucket/run"))).run == Path("gs://bucket/run")
