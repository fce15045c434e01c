"""`snm data fetch` against a local server that drops connections, redirects and lies."""

import hashlib
import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import tiny
from command_line import call, refused
from data.repository.archives import FILES, GOOD, SIZES, said, texts, zipped

import snm
from snm.data.repository import registry
from snm.data.repository.download import fetch_archive
from snm.data.repository.fetch import fetch, git_blob_id
from snm.data.repository.registry import Entry, Mirror, find
from snm.errors import InputError
from snm.system.files.cache_folder import cache_folder


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        path = self.path.removeprefix("http://sets.invalid")  # what a proxy is asked for
        server.asked.append((path, self.headers.get("Range"), self.headers.get("If-Range")))
        visits = sum(1 for asked, *_ in server.asked if asked == path)
        if path == "/moved.zip":
            self._answer(302, b"", Location="/good.zip")
        elif path == "/page.zip":
            self._answer(200, b"<html>gone</html>", **{"Content-Type": "text/html; charset=utf-8"})
        elif path in server.files:
            body, cut = server.files[path], server.cuts.get(path, [])
            tag = server.tags.get(path, ['"one"'])
            etag = tag[min(visits, len(tag)) - 1]
            self._file(body, etag, cut[visits - 1] if visits <= len(cut) else None)
        else:
            self._answer(404, b"")

    def _answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _file(self, body, etag, cut):
        """Sends the file or the requested range; `cut` drops the connection after some bytes."""
        first, status = 0, 200
        wanted = self.headers.get("Range")
        if wanted and self.headers.get("If-Range") == etag:
            first, status = int(wanted.removeprefix("bytes=").rstrip("-")), 206
        part = body[first:]
        headers = {"ETag": etag, "Content-Type": "application/zip"}
        if status == 206:
            headers["Content-Range"] = f"bytes {first}-{len(body) - 1}/{len(body)}"
        self.send_response(status)
        for name, value in {"Content-Length": str(len(part)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(part if cut is None else part[:cut])
        if cut is not None:
            self.wfile.flush()
            self.close_connection = True
            self.connection.close()


@pytest.fixture
def quick_gdown(monkeypatch):
    """gdown pauses for a random time before it tries again, and keeps whole chunks only."""
    pytest.importorskip("gdown")
    monkeypatch.setattr("random.uniform", lambda *_: 0.0)
    monkeypatch.setattr(sys.modules["gdown.download"], "CHUNK_SIZE", 500)


@pytest.fixture
def server(monkeypatch, quick_gdown):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("HTTP_PROXY", "http_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.files, server.cuts, server.tags, server.asked = {"/good.zip": GOOD}, {}, {}, []
    server.handle_error = lambda *_: None  # dropped connections are what is tested
    server.root = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def entry(server, *paths, **options):
    mirrors = tuple(Mirror(url=server.root + path, files=FILES, **options) for path in paths)
    return Entry("Tiny-20", mirrors, statistics=dict(SIZES))


def same_as_tiny(folder, tmp_path):
    expected = snm.load_data(tiny.write(tmp_path / "expected"), cache=None)
    data = snm.load_data(folder, cache=None)
    for part in ("train", "test"):
        mine, theirs = getattr(data, part), getattr(expected, part)
        assert (mine.features != theirs.features).nnz == (mine.labels != theirs.labels).nnz == 0
    assert sorted(path.name for path in folder.iterdir()) == ["test.txt", "train.txt"]


def left_beside(folder):
    return sorted(path.name for path in folder.parent.iterdir() if path.name != "expected")


def test_fetch_from_a_working_mirror(server, tmp_path):
    heard = []
    digest = "sha256:" + hashlib.sha256(GOOD).hexdigest()
    out = tmp_path / "sets" / "Tiny-20"
    facts = fetch(entry(server, "/good.zip", hash=digest), out, lambda *said: heard.append(said))
    assert {name: facts[name] for name in SIZES} == SIZES
    same_as_tiny(out, tmp_path)
    assert heard[-1] == (len(GOOD), len(GOOD))
    assert left_beside(out) == ["Tiny-20"]


def test_a_dropped_download_is_resumed(server, tmp_path):
    server.cuts["/good.zip"] = [1000, 500]
    fetch(entry(server, "/good.zip"), tmp_path / "a", said)
    same_as_tiny(tmp_path / "a", tmp_path)
    assert server.asked == [
        ("/good.zip", None, None),
        ("/good.zip", "bytes=1000-", '"one"'),
        ("/good.zip", "bytes=1500-", '"one"'),
    ]


def test_a_later_call_resumes_a_partial_download(server, tmp_path):
    server.cuts["/good.zip"] = [1000, 0, 0, 0]
    told = (
        r"no mirror that works \(.*: Download is incomplete: received 1000 bytes but .*\d bytes\)"
    )
    with pytest.raises(InputError, match=told):
        fetch(entry(server, "/good.zip"), tmp_path / "a", said)
    assert not (tmp_path / "a").exists()
    server.cuts.clear()
    server.asked.clear()
    fetch(entry(server, "/good.zip"), tmp_path / "a", said)
    assert server.asked == [("/good.zip", None, None), ("/good.zip", "bytes=1000-", '"one"')]
    same_as_tiny(tmp_path / "a", tmp_path)


@pytest.mark.parametrize(
    ("hashed", "told"), [(True, "the hash is not sha256:"), (False, "found damage")]
)
def test_parts_of_two_versions_are_refused(server, tmp_path, hashed, told):
    """The first bytes are of a version that the server had before; the next call starts over."""
    server.files["/good.zip"] = GOOD[:500] + bytes(500) + GOOD[1000:]
    server.cuts["/good.zip"] = [1000, 0, 0, 0]
    digest = f"sha256:{hashlib.sha256(GOOD).hexdigest()}"
    wanted = entry(server, "/good.zip", hash=digest if hashed else None)
    with pytest.raises(InputError, match="no mirror that works"):
        fetch(wanted, tmp_path / "a", said)
    server.files["/good.zip"] = GOOD
    server.cuts.clear()
    with pytest.raises(InputError, match=told):
        fetch(wanted, tmp_path / "a", said)
    fetch(wanted, tmp_path / "a", said)
    same_as_tiny(tmp_path / "a", tmp_path)


def test_a_redirect_and_a_dead_mirror(server, tmp_path):
    fetch(entry(server, "/gone.zip", "/moved.zip"), tmp_path / "a", said)
    asked = [path for path, *_ in server.asked]
    assert asked == ["/gone.zip", "/moved.zip", "/good.zip"]
    same_as_tiny(tmp_path / "a", tmp_path)


def test_every_mirror_is_named_when_none_works(server, tmp_path):
    digest = "sha256:" + "0" * 64
    wanted = entry(server, "/gone.zip", "/page.zip", "/good.zip", hash=digest)
    with pytest.raises(InputError) as error:
        fetch(wanted, tmp_path / "a", said)
    message = str(error.value)
    assert "/gone.zip: HTTP 404" in message
    assert f"/page.zip: the hash is not {digest}" in message
    assert f"/good.zip: the hash is not {digest}" in message
    assert message.endswith("expected a working mirror, or from_file ARCHIVE")
    # Bytes with a wrong hash are not kept: the next call starts over.
    kept = {path.name for path in (tmp_path / ".downloads").rglob("*") if path.is_file()}
    assert not any(name.endswith(".part") for name in kept)


def test_an_unreachable_mirror_gives_a_readable_error(tmp_path, quick_gdown):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/x.zip"
        wanted = Entry("Tiny-20", (Mirror(url=url, files=FILES),))
        with pytest.raises(InputError, match=rf"\({url}: cannot be reached\)"):
            fetch(wanted, tmp_path / "a", said)


def test_a_proxy_from_the_environment(server, tmp_path, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", server.root)
    wanted = Entry("Tiny-20", (Mirror(url="http://sets.invalid/good.zip", files=FILES),))
    fetch(wanted, tmp_path / "a", said)
    assert server.asked == [("/good.zip", None, None)]


def test_google_drive_goes_through_gdown(tmp_path, monkeypatch):
    gdown = pytest.importorskip("gdown")
    asked = []

    def download(*, url, id, output, quiet, resume, progress, timeout, retries):
        asked.append((url, id, resume))
        with open(output, "wb") as stream:  # noqa: PTH123
            stream.write(GOOD)
        progress(len(GOOD), None)

    monkeypatch.setattr(gdown, "download", download)
    wanted = Entry("Tiny-20", (Mirror(drive="abc", files=FILES),))
    fetch(wanted, tmp_path / "a", said)
    assert asked == [(None, "abc", True)]

    def refuse(**_):
        raise gdown.exceptions.DownloadError("too many\nusers")

    monkeypatch.setattr(gdown, "download", refuse)
    with pytest.raises(InputError, match="Google Drive abc: too many users"):
        fetch_archive(wanted, tmp_path, said)


def test_other_sizes_than_the_registrys(server, tmp_path):
    wanted = Entry(
        "Tiny-20", entry(server, "/good.zip").mirrors, statistics={**SIZES, "labels": 21}
    )
    with pytest.raises(InputError) as error:
        fetch(wanted, tmp_path / "a", said)
    assert "features 30, labels 20, train points 60, test points 20, expected" in str(error.value)
    assert not (tmp_path / "a").exists()
    fetch(wanted, tmp_path / "a", said, any_statistics=True)
    same_as_tiny(tmp_path / "a", tmp_path)


def test_git_blob_ids(tmp_path):
    archive = tmp_path / "x.zip"
    archive.write_bytes(GOOD)
    text = texts()["Tiny/tiny_train.txt"].encode()
    right = hashlib.sha1(f"blob {len(text)}\0".encode() + text).hexdigest()
    for blob in (right, "0" * 40):
        mirror = Mirror(url="http://x", files=FILES, git_blobs={"train.txt": blob})
        wanted = Entry("Tiny-20", (mirror,))
        if blob == right:
            fetch(wanted, tmp_path / "a", said, archive=archive)
        else:
            with pytest.raises(InputError, match=f"train.txt with git blob id {right}"):
                fetch(wanted, tmp_path / "b", said, archive=archive)
    assert not (tmp_path / "b").exists()


def test_one_file_of_points_with_splits(tmp_path):
    """Row numbers count from 1 and stand in the first column; compared with rows picked by hand."""
    rows = tiny.rows(5, 0)
    members = {
        "S/S_data.txt": f"5 {tiny.FEATURES} {tiny.LABELS}\n" + "\n".join(rows) + "\n",
        "S/s_trSplit.txt": "5 1\n1 2\n3 3\n",
        "S/s_tstSplit.txt": "2 4\n4 5\n",
    }
    archive = tmp_path / "s.zip"
    archive.write_bytes(zipped(members))
    split = {"points": "S/S_data.txt", "train": "S/s_trSplit.txt", "test": "S/s_tstSplit.txt"}
    wanted = Entry("S", (Mirror(url="http://x", split=split),))
    fetch(wanted, tmp_path / "a", said, archive=archive)
    lines = (tmp_path / "a" / "train.txt").read_text().splitlines()
    assert lines == [f"3 {tiny.FEATURES} {tiny.LABELS}", rows[4], rows[0], rows[2]]
    lines = (tmp_path / "a" / "test.txt").read_text().splitlines()
    assert lines[1:] == [rows[1], rows[3]]
    for bad in ("0 1\n", "6 1\n", "x\n"):
        archive.write_bytes(zipped({**members, "S/s_trSplit.txt": bad}))
        with pytest.raises(InputError, match=r"^S/s_trSplit.txt:1: found .* a row from 1"):
            fetch(wanted, tmp_path / "b", said, archive=archive)


# -- the command line ------------------------------------------------------------------------


def test_git_blob_ids_equal_those_of_git(tmp_path):
    """As `git hash-object` says of five letters and a newline; EUR-Lex-4K's were published."""
    path = tmp_path / "hello"
    path.write_bytes(b"hello\n")
    assert git_blob_id(path) == "ce013625030ba8dba906f756967f9e9ca394464a"
    for mirror in find("EURLex-4K").mirrors:
        assert mirror.git_blobs == {
            "train.txt": "002fcbb4dfe516224f91c311f4940a8be9215188",
            "test.txt": "57aa8c3f73c1f53fe99d147651e87ecb5ba8ad8f",
        }


def test_by_name_on_the_command_line(server, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SNM_CACHE", str(tmp_path / "cache"))
    good, other = entry(server, "/good.zip"), entry(server, "/gone.zip")
    entries = (good, Entry("Other", other.mirrors, propensity=(0.6, 2.6)))
    monkeypatch.setattr(registry, "read_registry", lambda: entries)
    call("data", "fetch", "tiny-20")
    shown = capsys.readouterr().out
    place = cache_folder() / "datasets" / "Tiny-20"
    assert f"Tiny-20 is in {place}" in shown and "next: snm train Tiny-20 --run-dir RUN" in shown
    call("data", "fetch", "Tiny-20")
    assert "is already in" in capsys.readouterr().out
    call("data", "fetch", "Tiny-20", "--from-file", "other.zip")
    assert "is already in" in (told := capsys.readouterr().out) and "other.zip was not" in told
    # From now on the name loads the data.
    assert snm.load_data("Tiny-20").train.num_points == 60
    call("data", "stats", "tiny-20", "--json")
    assert json.loads(capsys.readouterr().out)["labels"] == 20
    call("train", "Tiny-20", "--run-dir", tmp_path / "run", *tiny.FLAGS)
    call("evaluate", tmp_path / "run")
    capsys.readouterr()
    call("data", "list")
    shown = capsys.readouterr().out
    assert "Tiny-20" in shown and "verified" in shown
    call("data", "list", "--json")
    assert json.loads(capsys.readouterr().out)[0]["mirrors"][0]["verified"] is False

    archive = tmp_path / "here.zip"
    archive.write_bytes(GOOD)
    capsys.readouterr()
    for name, flags in (("other", ""), ("mine", " --propensity-a 0.6 --propensity-b 2.6")):
        out = tmp_path / name
        call("data", "fetch", "Other", "--from-file", archive, "--out", out)
        assert capsys.readouterr().out.endswith(f"next: snm train {out} --run-dir RUN{flags}\n")
    same_as_tiny(tmp_path / "mine", tmp_path)
    assert "HTTP 404" in refused(capsys, "data", "fetch", "Other")
    assert "no such file" in refused(capsys, "data", "fetch", "Other", "--from-file", "none.zip")
    assert "for example Other" in refused(capsys, "data", "fetch", "othr")
    odd = Entry("Odd", good.mirrors, statistics={"labels": 7})
    monkeypatch.setattr(registry, "read_registry", lambda: (odd,))
    call("data", "fetch", "Odd", status=2)
    done = capsys.readouterr()
    assert "registry" in done.out and "found" in done.out  # both tables
    assert "labels 7 (--any-statistics" in done.err


@pytest.mark.parametrize("more", [[], ["--from-file=archive.zip"]])
def test_a_folder_that_cannot_be_created(more, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("file.txt", "archive.zip"):
        (tmp_path / name).touch()
    told = refused(capsys, "data", "fetch", "Bibtex", "--out", "file.txt/x", *more)
    assert told.startswith("--out file.txt/x: found ")
    assert "expected a folder that can be created" in told


def test_the_list_needs_no_cache(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SNM_CACHE", str(tmp_path / "open"))
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)  # where others may write, nothing is read from
    assert "write" in refused(capsys, "data", "fetch", "EURLex-4K")
    call("data", "list")
    assert "EURLex-4K" in capsys.readouterr().out


def test_the_hash_of_a_local_archive_selects_the_mirror(tmp_path):
    archive = tmp_path / "x.zip"
    archive.write_bytes(GOOD)
    right = Mirror(url="http://a", files=FILES, hash="md5:" + hashlib.md5(GOOD).hexdigest())
    wrong = Mirror(url="http://b", files={"train.txt": "none"}, hash="sha256:" + "0" * 64)
    fetch(Entry("Tiny-20", (wrong, right)), tmp_path / "a", said, archive=archive)
    with pytest.raises(InputError, match="an archive with sha256:0000"):
        fetch(Entry("Tiny-20", (wrong,)), tmp_path / "b", said, archive=archive)
