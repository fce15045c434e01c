"""The blocks of code of a page: run as they stand, or read by the command line."""

import collections
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from command_line import call

from snm.cli.main import parse

ROOT = Path(__file__).resolve().parents[1]
# A comment before a block that does not run: nobody sees it, and every renderer knows the fence.
_FENCE = re.compile(r"^(<!-- no-run -->\n)?```(\w+)([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# A page that goes on where another ends says so in its first line.
_BUILDS_ON = re.compile(r"<!-- builds on: (\S+) -->")


class Block(NamedTuple):
    """A block: its language, what stands behind that, the text, and whether it runs."""

    kind: str
    info: str
    text: str
    runs: bool


def blocks(path: Path) -> list[Block]:
    return [Block(kind, info.strip(), text, runs=not mark) for mark, kind, info, text in
            _FENCE.findall(path.read_text(encoding="utf-8"))]  # fmt: skip


def chain(path: Path) -> list[Path]:
    """The page, after those that it builds on."""
    found = _BUILDS_ON.match(path.read_text(encoding="utf-8"))
    return [*(chain(path.with_name(found[1])) if found else []), path]


def commands(text: str) -> Iterator[list[str]]:
    """The words of each line of a shell block; comments and empty lines are none."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield words


def run(path: Path, scope: dict[str, Any]) -> collections.Counter[str]:
    """Runs a page's blocks in their order, in this process and folder; counts them by kind."""
    ran: collections.Counter[str] = collections.Counter()
    for block in blocks(path):
        if not block.runs:
            continue
        if block.kind == "python":
            exec(compile(block.text, path.name, "exec"), scope)
        elif block.kind == "sh":
            for program, *words in commands(block.text):
                assert program == "snm", f"{path.name}: {program} {words}"
                call(*words)
        elif title := re.fullmatch(r'title="([\w.-]+)"', block.info):
            Path(title[1]).write_text(block.text, encoding="utf-8")
        else:
            continue
        ran[block.kind] += 1
    return ran


def read_commands(path: Path) -> int:
    """Lets the command line read every `snm` of a page, run or not; counts them."""
    count = 0
    for block in blocks(path):
        for program, *words in commands(block.text) if block.kind == "sh" else ():
            if program == "snm" and not any(
                word.startswith(("--tyro", "--help", "--version")) for word in words
            ):
                assert parse(words), words
                count += 1
    return count
