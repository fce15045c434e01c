"""Options of `snm serve` reach the server."""

from command_line import call

from snm.export.index import IndexedPredictor
from snm.serve import app, server
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
    assert told["app"] == (tmp_path, Limits(7, 8, 9, 10, 11), ("127.0.0.1", "me.org"))
    assert told["server"].config.timeout_graceful_shutdown == 12
    assert patient == [12]  # a second after a slow body is refused
