"""Other packages on the same split: `python -m snm.compare.peer_process NAME DATA OUT.json`.

Each is what somebody without snm would take. It gets the features as snm weights them, answers the
test points, and snm's metrics score the answers. It has a process to itself, so that the peak of
memory is its own; jax is imported there only after everything is measured.

Seconds are those of the package's own calls: reading its input file counts, our writing it does
not.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snm.compare.peer_packages import PEERS, Peer
from snm.data.dataset import Points
from snm.data.load import load
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.evaluation.filters import apply_filter, kept_first, most_filtered, pairs_of
from snm.evaluation.metrics import Metrics, propensities
from snm.system.memory import peak_memory, resident_memory

__all__ = ["PEERS", "Peer", "check", "main", "measure", "run_peer"]

KS = (1, 3, 5)
"""As `snm.evaluation.evaluate.KS`, which would bring jax."""
_INSTALL = "pip install 'snm[peers]'"
_MOST_SEEN = 100  # answers asked for beyond those that count; packages rank few of the labels


def check(names: Iterable[str]) -> dict[str, str | None]:
    """Whether packages can be compared with here; imports none of them.

    Args:
      names: of `PEERS`.

    Returns:
      For each name None, or why not.

    Raises:
      InputError: an unknown name.
    """
    found: dict[str, str | None] = {}
    for name in names:
        if name not in PEERS:
            near = difflib.get_close_matches(name, PEERS, n=1, cutoff=0.0)[0]
            raise InputError("--peers", f"{name!r}", f"for example {near}")
        missing = importlib.util.find_spec(PEERS[name].package) is None
        found[name] = f"the package is not installed ({_INSTALL})" if missing else None
    return found


def measure(
    name: str,
    data: str,
    *,
    weighting: str = "tfidf",
    seed: int = 0,
    threads: int | None = None,
    validation_fraction: float = 0.0,
    seen: str = "keep",
) -> dict[str, Any]:
    """Trains a package in this process and scores it.

    Args:
      name: of `PEERS`.
      data: folder of the data set, or `synthetic`.
      weighting: of the features, fitted on the training points: tfidf, l2 or none.
      seed: of the package, and of the split.
      threads: None takes all processors.
      validation_fraction: above 0, this part of train is held out and scored instead of test.
      seen: drop takes labels that are among a point's own features out of the answers, as
        `Config.seen` does out of ours.

    Returns:
      `name`, `package` (what was installed), `version`, `settings`; `metrics` as in
      `snm.evaluation.evaluate.evaluate_points`; `seconds` of training, `predict_seconds`;
      `peak_memory_bytes` of this process, `memory_before_bytes` just before training; `data`, its
      name and SHA-256; `asked`, the arguments.

    Raises:
      InputError: an unknown or missing package, or data that cannot be used.
    """
    if check([name])[name] is not None:
        raise InputError(f"--peers {name}", "no such package installed", _INSTALL)
    if threads is not None and threads < 1:
        raise InputError("--threads", f"{threads}", "1 or more")
    peer = PEERS[name]
    asked = _asked(name, data, weighting, seed, threads, validation_fraction, seen)
    dataset = load(data)
    frequency, num_train = dataset.label_frequency(), dataset.train.num_points
    about = {"name": dataset.name, "sha256": dataset.sha256}
    if validation_fraction:
        dataset = dataset.split(validation_fraction, seed)
    train, test = dataset.train, dataset.test
    if test is None:
        raise InputError(dataset.name, "no test points", "a test file beside the train file")
    ks = tuple(k for k in KS if k <= train.num_labels)
    extra = 0 if test.filter is None else most_filtered(test.filter)
    x, x_test, y = train.features, test.features, train.labels
    if peer.weighted:
        fitted = Weighting.fit(weighting, x)  # type: ignore[arg-type]  # it refuses others itself
        x, x_test = fitted.apply(x), fitted.apply(x_test)
    own = pairs_of(test.features) if seen == "drop" else np.zeros((0, 2), np.int64)
    wanted = max(ks) + extra
    most_answers = min(wanted + min(most_filtered(own), _MOST_SEEN), y.shape[1])
    test = Points(x_test, test.labels, test.filter)
    del dataset, train  # what the package does not need is not to count as its memory

    before = resident_memory()
    with _quiet():
        answers, seconds, predict_seconds = peer.train_and_predict(
            x,
            y,
            x_test,
            k=most_answers,
            seed=seed,
            threads=threads or os.cpu_count() or 1,
        )
    peak = peak_memory()
    if seen == "drop":
        answers, _ = kept_first(answers, own, y.shape[1], min(wanted, y.shape[1]))
    package = metadata.packages_distributions().get(peer.package, [peer.package])[0]
    return {
        "name": name,
        "package": package,
        "version": _version(package),
        "settings": peer.settings,
        "metrics": _scored(answers, test, frequency, num_train, ks),
        "seconds": seconds,
        "predict_seconds": predict_seconds,
        "peak_memory_bytes": peak,
        "memory_before_bytes": before,
        "data": about,
        "asked": asked,
    }


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Logs and progress of native code go nowhere: what went wrong is in the exception."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in kept:
            os.dup2(nowhere, number)
        yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(nowhere)


def _asked(name: str, *arguments: Any) -> dict[str, Any]:
    keys = ("data", "weighting", "seed", "threads", "validation_fraction", "seen")
    given = dict(zip(keys, arguments, strict=True))
    return {**given, "settings": PEERS[name].settings}


def _scored(
    answers: NDArray[np.int64],
    points: Points,
    label_frequency: NDArray[np.int64],
    num_train: int,
    ks: tuple[int, ...],
) -> dict[str, float]:
    """The metrics of `snm.evaluation.evaluate.evaluate_points` of given answers."""
    truth: Any = points.labels
    if points.filter is not None:
        answers, truth = apply_filter(answers, truth, points.filter, max(ks))
    start = Metrics.start(
        points.num_labels, ks=ks, propensity=propensities(label_frequency, num_train)
    )
    return start.update(answers, truth).result()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


# -- its process -------------------------------------------------------------------------------


def run_peer(
    name: str,
    data: str,
    out: Path,
    *,
    weighting: str = "tfidf",
    seed: int = 0,
    threads: int | None = None,
    validation_fraction: float = 0.0,
    seen: str = "keep",
) -> dict[str, Any]:
    """`measure` in a process of its own.

    Args:
      name: of `PEERS`.
      data: as the others in `measure`.
      out: the JSON file of the result. One that is there and was made with the same arguments is
        taken as it is.
      weighting: as there.
      seed: as there.
      threads: as there.
      validation_fraction: as there.
      seen: as there.

    Returns:
      What `measure` does; or `name` and `failed`, the reason in one line.

    Raises:
      InputError: an unknown name, or a place that cannot be written to.
    """
    from snm.runs.folder import read_json

    reason = check([name])[name]
    asked = _asked(name, data, weighting, seed, threads, validation_fraction, seen)
    if out.exists() and (found := read_json(out)).get("asked") == asked:
        return found
    if reason is not None:
        return {"name": name, "failed": reason}
    _make_place(out)
    out.unlink(missing_ok=True)
    options = {"weighting": weighting, "seed": seed, "threads": threads,
               "validation-fraction": validation_fraction, "seen": seen}  # fmt: skip
    words = [f"--{key}={value}" for key, value in options.items() if value is not None]
    errors, scratch = out.with_suffix(".stderr"), out.with_suffix(".scratch")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    command = [
        sys.executable,
        "-m",
        "snm.compare.peer_process",
        name,
        data,
        str(out),
        "--with-parent",
        *words,
    ]
    try:
        with errors.open("wb") as stderr, subprocess.Popen(
            command,
            # The process reads it to its end, which comes when this one is gone, however.
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env={**os.environ, "TMPDIR": str(scratch)},
        ) as process:  # fmt: skip
            try:
                status = process.wait()
            except BaseException:
                process.kill()
                raise
        if status == 0:
            return read_json(out)
        return {"name": name, "failed": _reason(errors, status)}
    finally:
        errors.unlink(missing_ok=True)
        shutil.rmtree(scratch, ignore_errors=True)


def _reason(errors: Path, status: int) -> str:
    if status < 0:
        reason = f"ended by {signal.Signals(-status).name}"
        return reason + (", often for want of memory" if status == -signal.SIGKILL else "")
    lines = [line for line in errors.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("snm: error: ") if lines else f"exit status {status}"


def _make_place(out: Path) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(out), (error.strerror or "").lower(), "a file to write") from error
    if out.is_dir():
        raise InputError(str(out), "a folder", "a file to write")


def _end_with_parent() -> None:
    # Not by `sys.stdin`: waiting there at the end of the process would abort it.
    while os.read(0, 4096):
        pass
    os._exit(3)


def main(words: Sequence[str] | None = None) -> int:
    """The process; its exit status: 2 for bad input, 1 where the package fails."""
    parser = argparse.ArgumentParser(
        "python -m snm.compare.peer_process", description="Measures one package."
    )
    parser.add_argument("name", metavar="NAME", help=", ".join(PEERS))
    parser.add_argument("data", metavar="DATA", help="folder of the data set, or `synthetic`")
    parser.add_argument("out", metavar="OUT.json", type=Path, help="file of the result")
    parser.add_argument("--weighting", default="tfidf", help="tfidf, l2 or none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="all processors by default")
    parser.add_argument("--validation-fraction", type=float, default=0.0)
    parser.add_argument("--seen", choices=("keep", "drop"), default="keep")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input does")
    asked = vars(parser.parse_args(words))
    name, out = asked["name"], asked.pop("out")
    if asked.pop("with_parent"):
        threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _make_place(out)
        found = measure(**asked)
        from snm.runs.folder import write_json

        write_json(out, found)
    except InputError as error:
        print(f"snm: error: {error}", file=sys.stderr)
        return 2
    except Exception as error:  # whatever a package raises is the reason to tell
        text = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"snm: error: {name}: {text}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
