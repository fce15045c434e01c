"""Fuzzes the readers of files with coverage guidance by atheris (`pip install atheris`).

    python -m benchmarks.trust.fuzz --inputs 1000000 --out benchmarks/results/fuzz.json

Each input must be read correctly, or refused with an error of one line (`fuzz_targets`), within 10
seconds and 2 GiB of memory. Otherwise the fuzzer stops, and saves and names the input. Each format
has its own process and its share of the inputs. Inputs that reached new code are kept in `--corpus`
for the next time, and the smallest of them as text in `--keep`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.command_line import make_parser, write_results
from snm.system.files.atomic import write_atomic

_INSTRUMENTED = [
    "snm.data",
    "snm.config.settings",
    "snm.runs",
    "snm.checkpoints.manifest",
    "snm.checkpoints.store",
    "snm.memory.store",
    "snm.system.files.checksums",
]
_MOST_BYTES = 4096
_LIMITS = ["-timeout=10", "-rss_limit_mb=2048", f"-max_len={_MOST_BYTES}"]
_KEPT = 12  # inputs of a format that are kept as text
_KEPT_BYTES = 200  # of one of them


def fuzz_one(name: str, options: list[str]) -> None:
    """Runs the fuzzer in this process, which it ends; `options` are those of libFuzzer."""
    import atheris

    with atheris.instrument_imports(include=_INSTRUMENTED):
        from benchmarks.trust.fuzz_targets import TARGETS

    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as place:
        target = TARGETS[name]
        atheris.Setup([sys.argv[0], *options], lambda raw: target(Path(place), raw))
        atheris.Fuzz()


def fuzz_target(name: str, inputs: int, corpus: Path) -> dict[str, Any]:
    """Fuzzes one target with `inputs` inputs, in a separate process.

    Returns:
      the number of inputs and of failures, seconds, and the input of a failure as hexadecimal.
    """
    from benchmarks.trust.fuzz_targets import seeds

    folder = corpus / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "seed").write_bytes(seeds()[name])
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        found = subprocess.run(
            [sys.executable, "-m", "benchmarks.trust.fuzz", "--only", name, str(folder), *_LIMITS,
             f"-runs={inputs}", f"-artifact_prefix={place}/"],
            capture_output=True, text=True, errors="replace",
        )  # fmt: skip
        bad = [path.read_bytes().hex() for path in Path(place).iterdir()]
    runs = re.findall(r"^#(\d+)\s", found.stderr, re.MULTILINE)
    assert runs, found.stderr[-2000:]
    row = {"format": name, "inputs": int(runs[-1]), "failed": int(found.returncode != 0),
           "seconds": round(time.monotonic() - begun),
           "corpus": sum(1 for _ in folder.iterdir())}  # fmt: skip
    if found.returncode:
        row |= {"input": bad[:1], "said": found.stderr[:2000]}
    return row


def keep(corpus: Path, file: Path) -> None:
    """Writes the smallest inputs of each target, which reached different code, as lines of text."""
    lines = []
    for folder in sorted(path for path in corpus.iterdir() if path.is_dir()):
        small = sorted((path.read_bytes() for path in folder.iterdir()), key=len)
        small = [raw for raw in small if 0 < len(raw) <= _KEPT_BYTES]
        step = max(1, len(small) // _KEPT)  # of all sizes up to the limit
        lines += [f"{folder.name} {raw.hex()}\n" for raw in small[::step][:_KEPT]]
    write_atomic(file, "".join(lines))


def main() -> None:
    """Fuzzes each target in turn, and prints and writes the results."""
    if sys.argv[1:2] == ["--only"]:  # the process of one target
        fuzz_one(sys.argv[2], sys.argv[3:])
        return
    from benchmarks.trust.fuzz_targets import TARGETS

    parser = make_parser(__doc__)
    parser.add_argument("formats", nargs="*", default=[], help="targets; by default all")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="of all formats together")
    parser.add_argument("--seconds", type=float, help="begin no further round after that")
    parser.add_argument("--corpus", type=Path, help="a folder of inputs; by default a new one")
    parser.add_argument("--keep", type=Path, help="a file for the smallest inputs")
    args = parser.parse_args()
    chosen, begun = args.formats or list(TARGETS), time.monotonic()
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        corpus = args.corpus or Path(name)
        rounds = 4  # so that all formats have their share wherever it ends
        share = -(-args.inputs // (len(chosen) * rounds))
        for number in range(rounds * len(chosen)):
            late = args.seconds is not None and time.monotonic() - begun > args.seconds
            one = chosen[number % len(chosen)]
            if rows.get(one, {}).get("failed") or late:
                continue
            row = fuzz_target(one, share, corpus)
            before = rows.get(one, {"inputs": 0, "seconds": 0})
            rows[one] = row | {name: before[name] + row[name] for name in before.keys() & {
                "inputs", "seconds"}}  # fmt: skip
            print(json.dumps(row), flush=True)
            found = {"inputs": sum(one["inputs"] for one in rows.values()),
                     "failed": sum(one["failed"] for one in rows.values()),
                     "seconds": round(time.monotonic() - begun),
                     "formats": list(rows.values())}  # fmt: skip
            write_results(args.out, found)
        if args.keep is not None:
            keep(corpus, args.keep)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
