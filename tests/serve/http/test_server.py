"""Tests the server under the application: names of hosts, slow clients, its start and its end."""

import asyncio
import contextlib
import itertools
import json
import resource
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from command_line import call, refused
from serve.served import get, many, post, serving, started
from serve.small_work import NEVER

from snm.errors import InputError
from snm.serve.engine import Engine
from snm.serve.http import server as servers
from snm.serve.http.middleware import HostMiddleware
from snm.serve.http.server import listen


@pytest.fixture(scope="module")
def impatient(served):
    with serving(served, patience=2) as (address, _):
        yield address


@contextlib.contextmanager
def connected(address):
    url = httpx.URL(address)
    with socket.create_connection((url.host, url.port), timeout=30) as connection:
        yield connection


def read_all(connection):
    """What comes until the server closes the connection."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            found += piece
    return found


def test_names_of_hosts():
    usual, named, any_name = (
        HostMiddleware(None),
        HostMiddleware(None, ["me.org"]),
        HostMiddleware(None, "*"),
    )
    for host in ("localhost", "localhost:8080", "LOCALHOST.", "127.0.0.1:8080", "[::1]:8080",
                 "192.168.0.7", "[2001:db8::1]"):  # fmt: skip
        assert usual._allows(host), host
    for host in ("evil.example", "evil.example:8080", "localhost.evil.example", "a@localhost",
                 "127.0.0.1.evil.example", "[::1", "", "me.org"):  # fmt: skip
        assert not usual._allows(host), host
        assert any_name._allows(host)
    assert named._allows("me.org:80") and named._allows("Me.Org.")
    assert not named._allows("not-me.org") and named._allows("localhost")


def test_another_host_is_refused(address):
    """As the browser sends it once an attacker's name points to this machine."""
    for path in ("predict", "health", "", "docs"):
        answer = get(f"{address}/{path}", headers={"Host": "evil.example:8080"})
        assert answer.status_code == 421
        said = "Host: found evil.example:8080, expected a name that --allowed-host lists"
        assert answer.json() == {"error": said}
    assert get(f"{address}/health", headers={"Host": "localhost"}).status_code == 200
    with connected(address) as connection:  # a check of health by HTTP/1.0 names no host
        connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert b" 200 OK" in read_all(connection)


NO_HTTP = {
    "a line of text": b"hello\r\n\r\n",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "a header without a colon": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX\r\n\r\n",
    "a path of other letters": "GET /\u00e9 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
    "a body without a length": b"POST /predict HTTP/1.1\r\nHost: localhost\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "the begin of TLS": b"\x16\x03\x01\x02\x00\x01\x00\r\n",
}


@pytest.mark.parametrize("what", NO_HTTP)
def test_what_is_no_http_gets_an_error_like_all_others(address, what):
    with connected(address) as connection:
        connection.sendall(NO_HTTP[what])
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"content-type: application/json" in head and b"connection: close" in head
    expected = "HTTP/1.1: a request line, headers and a body"
    assert json.loads(body) == {"error": f"request: found no valid HTTP, expected {expected}"}
    assert get(f"{address}/health").status_code == 200


def test_no_http_behind_an_answer_ends_the_connection(address):
    """The answer is whole, and one error follows; also where the answer came before the body."""
    with connected(address) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nrubbish\r\n\r\n")
        found = read_all(connection)
    assert found.count(b"HTTP/1.1 200 OK") == found.count(b"HTTP/1.1 400 Bad Request") == 1
    with connected(address) as connection:
        head = b"POST /predict HTTP/1.1\r\nHost: another\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 421")
        with contextlib.suppress(OSError):
            connection.sendall(b"zz\r\n")
        assert b"HTTP" not in read_all(connection)


@pytest.mark.parametrize("head", [b"", b"Expect: 100-continue\r\n"])
def test_too_large_a_body_is_refused_before_it_is_sent(address, head):
    """One of more than a server drops, and one of a client that waits to be told to go on."""
    size = b"10001" if head else b"%d" % (1 << 40)
    head = b"Host: localhost\r\nContent-Length: " + size + b"\r\n" + head
    with connected(address) as connection:
        connection.sendall(b"POST /predict HTTP/1.1\r\n" + head + b"\r\n")
        found = read_all(connection)
    assert found.startswith(b"HTTP/1.1 413") and b"connection: close\r\n" in found


HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 21\r\n\r\n"
SLOW = {  # what is sent, and how the answer begins
    "nothing": (b"", b""),
    "half a head": (HEAD[:30], b""),
    "half a body": (HEAD + b'{"texts": [', b"HTTP/1.1 408"),
}


def test_slow_clients_are_dropped_and_a_connection_in_use_is_kept(impatient):
    """Those that are slow in one way or another, beside one that asks again and again."""

    def waited(sent):
        begun = time.monotonic()
        with connected(impatient) as connection:
            connection.sendall(sent)
            return read_all(connection), time.monotonic() - begun

    with ThreadPoolExecutor() as threads:
        in_use = threads.submit(ask_for_a_while, impatient)
        slow = [threads.submit(waited, sent) for sent, _ in SLOW.values()]
        for (what, (_, answer)), one in zip(SLOW.items(), slow, strict=True):
            found, seconds = one.result()
            assert found.startswith(answer) and bool(found) == bool(answer), what
            assert 1.9 < seconds < 15, what  # after 2 to 4 seconds; the machine may be busy
            assert b"error" in found or not answer, what
        in_use.result()


def ask_for_a_while(impatient):
    """Also for longer than a single request may take, which is two seconds.

    Where the machine stood still for so long that the connection was rightly dropped, once more.
    """
    for _ in range(5):
        stalled, asked = False, time.monotonic()
        with httpx.Client(timeout=60) as client:
            first = client.get(f"{impatient}/health").extensions["network_stream"]
            end = time.monotonic() + 4.4
            while not stalled and time.monotonic() < end:
                time.sleep(0.2)
                before, kept = asked, None
                asked = time.monotonic()
                with contextlib.suppress(httpx.TransportError):
                    kept = client.get(f"{impatient}/health").extensions["network_stream"]
                stalled = time.monotonic() - before > 2.5
                assert kept is first or stalled
        if not stalled:
            return
    raise AssertionError("the machine stood still in all of five tries")


def test_a_client_that_does_not_read_is_dropped(impatient):
    """Its answers fill the buffers of the machine, and then those of the server."""
    with connected(impatient) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        ask = b"GET /static-offline-docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with contextlib.suppress(OSError):
            connection.sendall(ask * 100)
        deadline = time.monotonic() + 60
        while True:  # the server resets the connection
            assert time.monotonic() < deadline
            time.sleep(0.2)
            try:
                connection.send(b"G")
            except OSError:
                break
    assert get(f"{impatient}/health").status_code == 200


@pytest.mark.parametrize("step", ["warm_up", "start"])
def test_a_start_without_memory_or_threads_is_one_line(tiny_run, capsys, monkeypatch, step):
    def lacks(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Engine, step, lacks)
    call("serve", tiny_run / "run", "--port", "0", status=1)
    said = capsys.readouterr().err
    assert said.endswith(
        "snm: error: out of memory or of threads: see `ulimit -v` and `ulimit -u`\n"
    )
    assert "Traceback" not in said and "startup failed" not in said


def test_a_package_that_the_start_lacks_is_one_line(tiny_run, capsys, monkeypatch):
    def lacks(self):
        raise InputError("texts", "no scikit-learn", "pip install -e '.[sklearn]'")

    monkeypatch.setattr(Engine, "warm_up", lacks)
    call("serve", tiny_run / "run", "--port", "0", status=2)
    said = capsys.readouterr().err
    assert said.endswith(
        "snm: error: texts: found no scikit-learn, expected pip install -e '.[sklearn]'\n"
    )
    assert "Traceback" not in said


def test_an_address_is_taken_from_the_start():
    """Also before the server accepts: two sockets may be bound to one until one listens."""
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(InputError, match="a free address"):
            listen("127.0.0.1", port)


def test_the_end_under_load(served):
    """Every request that the server took is answered in full; later ones find nobody."""
    counts = {"answered": 0, "refused": 0, "nobody": 0}

    async def client(address, number):
        async with httpx.AsyncClient(timeout=120) as session:
            while True:
                try:
                    answer = await session.post(f"{address}/predict", json={"texts": ["word1"]})
                except (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError) as error:
                    # A kept connection may be closed between two requests, but no answer is cut.
                    assert "incomplete" not in str(error), error
                    counts["nobody"] += 1
                    return
                assert answer.status_code in (200, 503)
                counts["answered" if answer.status_code == 200 else "refused"] += 1
                if answer.status_code == 200:
                    assert len(answer.json()["answers"][0]["labels"]) == 5

    async def load(address, server):
        clients = [asyncio.create_task(client(address, number)) for number in range(16)]
        while counts["answered"] < 32 and not any(one.done() for one in clients):
            await asyncio.sleep(0.01)
        server.should_exit = True  # what SIGTERM does
        await asyncio.wait_for(asyncio.gather(*clients), 60)

    with serving(served) as (address, server):
        asyncio.run(load(address, server))
    assert counts["nobody"] == 16 and counts["answered"] >= 32


def test_the_last_answer_of_a_connection_says_so(served):
    """So that a client with kept connections sends its next request over another."""
    body = b'{"texts": ["word1"], "k": 1}'
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    with serving(served) as (address, server), connected(address) as connection:
        assert "connection" not in get(f"{address}/health").headers
        while server.server_state.tasks:  # the one of that answer
            time.sleep(0.01)
        connection.sendall(head + body[:5])
        while not server.server_state.tasks:
            time.sleep(0.01)
        server.should_exit = True  # what SIGTERM does
        connection.sendall(body[5:])
        found = read_all(connection)
    assert found.startswith(b"HTTP/1.1 200 OK\r\n") and found.endswith(b"}]}")
    assert found.count(b"\r\nconnection: close\r\n") == 1


def test_the_end_of_the_command(served):
    """`run` returns when a signal ends it, and puts the handlers of before back."""
    from snm.serve.http.app import make_app
    from snm.serve.limits import Limits

    before = signal.getsignal(signal.SIGTERM)
    said = []

    def ready():
        host, port = listening.getsockname()
        # The address is told when it answers, and not before.
        said.append(threading.Thread(target=ask, args=(f"http://{host}:{port}/health",)))
        said[0].start()

    def ask(address):
        try:
            statuses.append(get(address).status_code)
        finally:
            signal.raise_signal(signal.SIGTERM)

    statuses = []
    server = servers.make_server(make_app(served, Limits(), (), NEVER), patience=30, ready=ready)
    with servers.listen("127.0.0.1", 0) as listening:
        servers.run(server, listening)
    said[0].join()
    assert statuses == [200] and len(said) == 1
    assert signal.getsignal(signal.SIGTERM) == before


def test_invalid_options_of_the_command(tiny_run, tmp_path, capsys, monkeypatch):
    run = tiny_run / "run"
    assert "no config.toml" in refused(capsys, "serve", tmp_path)
    for port in ("99999", "-1"):  # of which the system takes what is left modulo 65536
        told = refused(capsys, "serve", run, f"--port={port}")
        assert f"--port: found {port}, expected 0 to 65535" in told and "loading" not in told
    assert "--queue: found 0, expected 1 or more" in refused(capsys, "serve", run, "--queue=0")
    said = refused(capsys, "serve", run, "--host=203.0.113.1", "--port=0")
    assert said.startswith("--host 203.0.113.1 --port 0: found") and "a free address of" in said
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "snm.serve.http.server")
    assert "pip install -e '.[serve]' -c constraints.txt" in refused(capsys, "serve", run)


@pytest.mark.slow
def test_the_command_itself_and_sigterm(tiny_run):
    with started(tiny_run / "run", "--allowed-host", "models.example") as (_, address):
        # It answers as soon as it says so.
        for host, status in (("models.example", 200), ("other.example", 421)):
            answer = get(f"{address}/health", headers={"Host": host})
            assert answer.status_code == status
        answer = post(f"{address}/predict", json={"features": [{"3": 1}]})
        assert answer.status_code == 200 and len(answer.json()["answers"][0]["labels"]) == 5
        assert post(f"{address}/predict", json={"texts": ["a"]}).status_code == 400


@pytest.mark.slow
def test_memory_is_flat_over_many_requests(tiny_run):
    """Good and bad requests, each of another kind, over 8 connections.

    What fills once (pools, caches, the allocator's arenas) grows by steps and stops. What is kept
    of every request grows in every round, so that the smallest growth of four rounds tells.
    """

    async def client(address, number, requests):
        async with many() as session:
            for i in range(requests):
                if i % 2:
                    found = {str(i % 30): 1}
                    answer = await session.post(f"{address}/predict", json={"features": [found]})
                    assert answer.status_code == 200
                elif i % 4:
                    answer = await session.get(f"{address}/path{number}/{i}?{i}")
                    assert answer.status_code == 404
                else:
                    body = f'{{"x{number}-{i}": 1}}'
                    answer = await session.post(f"{address}/predict", content=body)
                    assert answer.status_code == 400

    async def load(address, requests):
        await asyncio.gather(*(client(address, number, requests // 8) for number in range(8)))

    def used(process):
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 2**20

    with started(tiny_run / "run") as (process, address):
        asyncio.run(load(address, 6_000))
        sizes = [used(process)]
        for _ in range(4):
            asyncio.run(load(address, 4_000))
            sizes.append(used(process))
    grown = [after - before for before, after in itertools.pairwise(sizes)]
    assert min(grown) < 0.25, f"MiB in 4,000 requests each: {grown}"
