"""A local stand-in for the Hugging Face Hub: the few endpoints that push and pull need."""

import base64
import contextlib
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


class Hub:
    """Repositories of models.

    Attributes:
      commits: repository -> its commits, oldest first, each name -> content.
      asked: the method and path of each request.
      down: answer all with status 503.
    """

    def __init__(self):
        self.commits, self.private, self.asked, self.down = {}, set(), [], False

    def files(self, repository, revision):
        """The files of a commit, and its id; None if there is no such one."""
        every = self.commits.get(repository, [{}])
        ids = [hashlib.sha1(f"{repository} {n}".encode()).hexdigest() for n in range(len(every))]
        at = len(every) - 1 if revision == "main" else next(
            (n for n, one in enumerate(ids) if one == revision), None)  # fmt: skip
        return None if repository not in self.commits or at is None else (every[at], ids[at])

    def commit(self, repository, lines):
        """A new commit, from the JSON lines that the client sends."""
        new = dict(self.commits[repository][-1])
        for line in map(json.loads, lines):
            value = line["value"]
            if line["key"] == "file":
                assert value["encoding"] == "base64"
                new[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "deletedFile":
                del new[value["path"]]
        self.commits[repository].append(new)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _answer(self, status, value=b"", **headers):
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def do_POST(self):
        raw = self._body()
        hub, path = self.server.hub, unquote(urlsplit(self.path).path)
        hub.asked.append(f"POST {path}")
        root = f"http://127.0.0.1:{self.server.server_port}"
        if hub.down:
            self._answer(503)
        elif path == "/api/repos/create":
            asked = json.loads(raw)
            repository = f"{asked.get('organization') or 'me'}/{asked['name']}"
            there = repository in hub.commits
            hub.commits.setdefault(repository, [{".gitattributes": b""}])
            if asked.get("private") or asked.get("visibility") == "private":
                hub.private.add(repository)
            self._answer(409 if there else 200, {"url": f"{root}/{repository}"})
        elif path == "/api/validate-yaml":
            self._answer(200, {"errors": [], "warnings": []})
        elif found := re.fullmatch(r"/api/models/(.+/.+)/(preupload|commit)/main", path):
            if found[2] == "preupload":
                files = json.loads(raw)["files"]
                told = [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False}
                        for one in files]  # fmt: skip
                self._answer(200, {"files": told})
                return
            hub.commit(found[1], raw.decode().splitlines())
            sha = hub.files(found[1], "main")[1]
            url = f"{root}/{found[1]}/commit/{sha}"
            self._answer(200, {"commitUrl": url, "commitOid": sha, "success": True})
        else:
            self._answer(404, {"error": "Not Found"})

    def do_GET(self):
        hub, path = self.server.hub, unquote(urlsplit(self.path).path)
        hub.asked.append(f"{self.command} {path}")
        whole = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?/?", path)
        one = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        if hub.down:
            self._answer(503)
        elif (m := whole or one) is None or hub.files(
            m[1], (m[3] if whole else m[2]) or "main"
        ) is None:
            self._answer(404, {"error": "Not Found"}, X_Error_Code="RepoNotFound")
        elif whole:
            files, sha = hub.files(m[1], m[3] or "main")
            told = [
                {"type": "file", "path": name, "rfilename": name, "size": len(raw), "oid": sha}
                for name, raw in files.items()
            ]
            about = {"id": m[1], "modelId": m[1], "sha": sha, "private": False, "tags": [],
                     "siblings": told, "downloads": 0, "likes": 0}  # fmt: skip
            self._answer(200, told if m[2] == "tree" else about)
        else:
            files, sha = hub.files(m[1], m[2])
            tag = f'"{hashlib.sha1(files[m[3]]).hexdigest()}"'
            self._answer(200, files[m[3]], ETag=tag, X_Repo_Commit=sha)

    do_HEAD = do_GET  # noqa: N815

    def _body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)


@contextlib.contextmanager
def running():
    """A server, whose `hub` is the `Hub` that it answers from, and its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
