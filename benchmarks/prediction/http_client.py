"""A client of `snm serve` on plain sockets: a library would use more CPU time than the server."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess

from scipy.sparse import csr_matrix

__all__ = ["bodies_of", "port_of", "request"]


def bodies_of(points: csr_matrix) -> list[bytes]:
    """The content of a request for each point."""
    rows = (dict(zip(p.indices.tolist(), p.data.tolist(), strict=True)) for p in points)
    return [json.dumps({"features": [row]}).encode() for row in rows]


def port_of(server: subprocess.Popen[str]) -> int:
    """The port of a server that has just been started, as its output says."""
    assert server.stdout is not None
    line = next(line for line in server.stdout if "http://" in line)
    found = re.search(r"http://[^\s/]*:(\d+)", line)
    assert found is not None
    return int(found[1])


async def request(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    line: bytes,
    host: bytes,
    body: bytes,
    headers: bytes = b"",
) -> tuple[int, bytes]:
    r"""Sends a request over an open connection and takes its answer.

    Args:
      reader: of the connection.
      writer: of the connection, which stays open.
      line: method and path, such as `POST /predict`.
      host: the header of that name.
      body: the content.
      headers: further headers, each with `\r\n` at its end.

    Returns:
      The status, and the content of the answer.
    """
    head = b"%s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n" % (
        line, host, headers, len(body)
    )  # fmt: skip
    writer.write(head + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    found = re.search(rb"(?i)content-length: (\d+)", answer)
    assert found is not None
    return int(answer.split(b" ", 2)[1]), await reader.readexactly(int(found[1]))
