"""Imports, trains and predicts on data several times the memory that a process may have.

    python -m benchmarks.larger_than_memory --out benchmarks/results/larger-than-memory.json

It writes a CSV of generated texts, `--times` as large as the limit. Then it runs the usual commands
on the CSV, each in a process whose data segment is limited (`ulimit -d`). The limit counts memory
that the process allocates, but not mapped files, whose pages the system drops if it needs them. A
command that held all data in memory would fail. The limit includes Python, jax and compiled
programs, some 400 MiB. The memory of a process is read from the kernel four times a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command_line import make_parser, print_and_write
from snm.data.formats.layouts import find_files
from snm.machine.versions import machine_record

_TOPICS, _PHRASES, _WORDS = 1000, 12, 12  # labels; phrases of a topic; words of a phrase
_VOCABULARY = 20_000
_ROW = 40  # phrases of a text
_CHUNK = 1000  # rows written at once
_STACK = 1 << 20  # bytes


def main() -> None:
    """Prints the results, and writes them as JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--limit", type=int, default=768, help="MiB of the data segment")
    parser.add_argument("--times", type=float, default=4, help="size of the CSV over the limit")
    parser.add_argument("--folder", type=Path, help="for the data, which are removed; has room")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        found = measure(Path(folder), args.limit << 20, args.times)
    print_and_write(args.out, found)


def measure(folder: Path, limit: int, times: float, *flags: str) -> dict[str, Any]:
    """Runs the commands.

    Args:
      folder: empty, with room for some eight times the limit.
      limit: bytes of the data segment of each command.
      times: bytes of the CSV over the limit.
      *flags: more of the training.

    Raises:
      CalledProcessError: a command failed.
    """
    texts, data, run = folder / "texts.csv", folder / "data", folder / "run"
    points = write_texts(texts, int(times * limit))
    commands = {
        "import": ("data", "import", texts, "--out", data, "--vectorizer", "hashing",
                   "--features", 1 << 16, "--test-fraction", min(0.5, 2000 / points)),
        "train": ("train", data, "--run-dir", run, "--preset", "fast", "--dim", 64, *flags),
        "predict": ("predict", run, texts, "--k", 1, "--out", folder / "answers.jsonl"),
    }  # fmt: skip
    measured = {name: run_limited(command, limit, folder) for name, command in commands.items()}
    with (folder / "answers.jsonl").open(encoding="utf-8") as answers:
        right = sum(_is_right(line) for line in answers)
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    _, train, test = find_files(data)
    return {
        "limit": limit,
        "csv": texts.stat().st_size,
        "text of the data": sum(file.stat().st_size for file in (*train, *test)),
        "cache": sum(file.stat().st_size for file in (folder / "cache").rglob("*.npy")),
        "points": points,
        "labels": _TOPICS,
        "commands": measured,
        "P@1": result["metrics"]["P@1"],
        "right": right / points,
        "machine": machine_record(),
    }


def write_texts(path: Path, size: int) -> int:
    """Writes a CSV of at least `size` bytes; returns its number of rows.

    A text is about a topic, its label, from which half of its phrases are; the first column has it
    too, so that answers can be compared.
    """
    rng = np.random.default_rng(0)
    words = np.array([f"w{rank:x}" for rank in range(_VOCABULARY)])
    ranks = (_VOCABULARY ** rng.random((_TOPICS * _PHRASES, _WORDS))).astype(int)
    phrases = np.array([" ".join(row) for row in words[ranks]])
    rows = 0
    with path.open("w", encoding="utf-8") as out:
        out.write("topic,text,labels\n")
        while out.tell() < size:
            topics = rng.integers(_TOPICS, size=_CHUNK)
            own = topics[:, None] * _PHRASES + rng.integers(_PHRASES, size=(_CHUNK, _ROW // 2))
            other = rng.integers(len(phrases), size=(_CHUNK, _ROW // 2))
            texts = map(" ".join, phrases[np.concatenate([own, other], axis=1)])
            lines = zip(topics, texts, strict=True)
            out.writelines(f"{topic},{text},topic{topic}\n" for topic, text in lines)
            rows += _CHUNK
    return rows


def with_limit(limit: int, words: list[str]) -> list[str]:
    """A shell command that runs another one with a limited data segment, in bytes.

    Stacks of threads count as a whole and by default have 8 MiB each, so they are limited, too.
    """
    held = f"ulimit -s {_STACK >> 10} && ulimit -d {limit >> 10}"
    return ["/bin/sh", "-c", f'{held} && exec "$@"', "sh", *words]


def run_limited(command: tuple[Any, ...], limit: int, folder: Path) -> dict[str, Any]:
    """Runs `snm` with a limit; returns its seconds and the peak bytes that the kernel counted.

    Raises:
      CalledProcessError: it failed.
    """
    words = with_limit(limit, [sys.executable, "-m", "snm", *map(str, command)])
    about = {**os.environ, "SNM_CACHE": str(folder / "cache")}
    most = dict.fromkeys(("VmData", "RssAnon"), 0)
    begun = time.perf_counter()
    with (folder / "said.txt").open("w") as said:
        process = subprocess.Popen(words, env=about, stdout=said, stderr=said)
        while process.poll() is None:
            for field in most:
                most[field] = max(most[field], _counted(process.pid, field))
            time.sleep(0.25)
    if process.returncode:
        raise subprocess.CalledProcessError(
            process.returncode, words, (folder / "said.txt").read_text()
        )
    return {
        "seconds": time.perf_counter() - begun,
        "data segment": most["VmData"],
        "anonymous": most["RssAnon"],
    }


def _counted(process: int, field: str) -> int:
    """Bytes of a field of the kernel's status of a process; 0 if it is gone."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    found = [line for line in status.splitlines() if line.startswith(f"{field}:")]
    return int(found[0].split()[1]) * 1024 if found else 0


def _is_right(line: str) -> bool:
    answer = json.loads(line)
    return answer["names"] == [f"topic{answer['fields']['topic']}"]


if __name__ == "__main__":
    main()
