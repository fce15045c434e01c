"""Measures another package on a data set: `python -m snm.compare.peers.process NAME DATA OUT.json`.

The package gets the features with snm's weighting and predicts the test points. snm's metrics score
the predictions. The package has a process of its own, so that the peak memory is its own; jax is
not imported there.

Seconds are those of the package's own calls. They include reading its input file, but not our
writing it.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snm.compare.peers.protocol import Peer
from snm.compare.peers.table import PEERS
from snm.compare.processes import end_with_parent, run_tied
from snm.compare.records import read_record, write_record
from snm.data.dataset import Points
from snm.data.load import load
from snm.data.repository.registry import PROPENSITY
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.evaluation.filters import first_unfiltered, max_filtered, nonzero_pairs, remove_filtered
from snm.evaluation.metrics import KS, Metrics, propensities
from snm.machine.cores import num_cores
from snm.machine.ram import peak_ram, peak_ram_of_children, resident_ram
from snm.system.faults import describe_error
from snm.system.streams import print_error
from snm.text import nearest, one_line

__all__ = ["PeerOptions", "check", "main", "measure_peer", "run_peer"]

_MAX_EXTRA = 100  # predictions requested to replace dropped ones; packages rank few of the labels


@dataclasses.dataclass(frozen=True)
class PeerOptions:
    """How a package is measured.

    Attributes:
      weighting: weighting of the features, fitted on the training points: tfidf, l2 or none.
      seed: seed of the package and of the validation split.
      threads: number of threads; None means `num_cores`.
      validation_fraction: if above 0, this share of train is held out and scored instead of test.
      seen: `drop` removes labels that are among a point's own features from the predictions, as
        `Config.seen` does for snm.
      propensity: A and B of the model of propensities, as `Config.propensity_a` and `_b`.
    """

    weighting: str = "tfidf"
    seed: int = 0
    threads: int | None = None
    validation_fraction: float = 0.0
    seen: str = "keep"
    propensity: Sequence[float] = PROPENSITY


_DEFAULTS = PeerOptions()


def check(names: Iterable[str]) -> dict[str, str | None]:
    """Checks whether packages are installed, without importing them.

    Args:
      names: keys of `PEERS`, or MODULE:NAME for a key of the `PEERS` of another module.

    Returns:
      name -> None if it is installed, else a message.

    Raises:
      InputError: an unknown name.
    """
    found: dict[str, str | None] = {}
    for name in names:
        missing = _peer(name).missing()
        found[name] = None if missing is None else f"{missing[0]} ({missing[1]})"
    return found


def _peer(name: str) -> Peer:
    module, colon, key = name.rpartition(":")
    peers = _peers_of(module) if colon else PEERS
    if key not in peers:
        names = [f"{module}{colon}{known}" for known in peers]
        raise InputError("--peers", f"{name!r}", nearest(name, names, f"one of {', '.join(names)}"))
    return peers[key]


def _peers_of(module: str) -> dict[str, Peer]:
    """The table `PEERS` of a module outside of snm."""
    expected = "a module on PYTHONPATH with a table PEERS: MODULE:NAME"
    try:
        peers = importlib.import_module(module).PEERS
    except Exception as error:  # whatever the module raises
        raise InputError("--peers", f"{module!r}: {one_line(error)}", expected) from error
    if not isinstance(peers, dict) or not peers:
        raise InputError("--peers", f"{module!r}: PEERS is no table with a peer", expected)
    return peers


def measure_peer(name: str, data: str, options: PeerOptions = _DEFAULTS) -> dict[str, Any]:
    """Trains a package in this process and scores it.

    Args:
      name: as in `check`.
      data: folder of the data set, or `synthetic`.
      options: how to measure it.

    Returns:
      a dict with `name`; `package`, the name of the installed distribution; `version`; `settings`;
      `metrics` as in `snm.evaluation.evaluate.evaluate_points`; `seconds` of training and
      `predict_seconds`; `peak_memory_bytes` of this process, or of one that the package started
      if that is more; `memory_before_bytes` of this process before training; `data`, its name and
      SHA-256; `asked`, the arguments.

    Raises:
      InputError: an unknown or missing package, or data that cannot be used.
    """
    peer = _peer(name)
    if (missing := peer.missing()) is not None:
        raise InputError(f"--peers {name}", *missing)
    if options.threads is not None and options.threads < 1:
        raise InputError("--threads", f"{options.threads}", "1 or more")
    asked = _arguments(name, data, options)
    dataset = load(data)
    propensity_of_labels = propensities(
        dataset.label_frequency(), dataset.train.num_points, *options.propensity
    )
    data_description = {"name": dataset.name, "sha256": dataset.sha256}
    if options.validation_fraction:
        dataset = dataset.split(options.validation_fraction, options.seed)
    train, test = dataset.train, dataset.test
    if test is None:
        raise InputError(dataset.name, "no test points", "a test file beside the train file")
    ks = tuple(k for k in KS if k <= train.num_labels)
    extra = 0 if test.filter is None else max_filtered(test.filter)
    x, x_test, y = train.features, test.features, train.labels
    if peer.weighted:
        # It refuses other weightings itself.
        fitted = Weighting.fit(options.weighting, x)  # type: ignore[arg-type]
        x, x_test = fitted.apply(x), fitted.apply(x_test)
    own = nonzero_pairs(test.features) if options.seen == "drop" else np.zeros((0, 2), np.int64)
    num_wanted = max(ks) + extra
    num_answers = min(num_wanted + min(max_filtered(own), _MAX_EXTRA), y.shape[1])
    test = Points(x_test, test.labels, test.filter)
    del dataset, train  # so that they do not count as memory of the package

    before = resident_ram()
    with _native_output_discarded():
        answers, seconds, predict_seconds = peer.train_and_predict(
            x,
            y,
            x_test,
            k=num_answers,
            seed=options.seed,
            threads=options.threads or num_cores(),
        )
    peak = max(peak_ram(), peak_ram_of_children())
    if options.seen == "drop":
        answers, _ = first_unfiltered(answers, own, y.shape[1], min(num_wanted, y.shape[1]))
    package, version = peer.interpreter.version(peer.package)
    return {
        "name": name,
        "package": package,
        "version": version,
        "settings": peer.settings,
        "metrics": _scored(answers, test, propensity_of_labels, ks),
        "seconds": seconds,
        "predict_seconds": predict_seconds,
        "peak_memory_bytes": peak,
        "memory_before_bytes": before,
        "data": data_description,
        "asked": asked,
    }


@contextlib.contextmanager
def _native_output_discarded() -> Iterator[None]:
    """Sends the output of native code to /dev/null; errors still raise exceptions."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    saved = {number: os.dup(number) for number in (1, 2)}
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in saved:
            os.dup2(null, number)
        yield
    finally:
        for number, copy in saved.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(null)


def _arguments(name: str, data: str, options: PeerOptions) -> dict[str, Any]:
    return {
        "data": data,
        **dataclasses.asdict(options),
        "propensity": list(options.propensity),  # as it is read back from JSON
        "settings": _peer(name).settings,
    }


def _scored(
    answers: NDArray[np.int64],
    points: Points,
    propensity: NDArray,
    ks: tuple[int, ...],
) -> dict[str, float]:
    """The metrics of `snm.evaluation.evaluate.evaluate_points` for given predictions."""
    truth: Any = points.labels
    if points.filter is not None:
        answers, _ = first_unfiltered(answers, points.filter, points.num_labels, max(ks))
        truth = remove_filtered(truth, points.filter)
    start = Metrics.start(points.num_labels, ks=ks, propensity=propensity)
    return start.update(answers, truth).result()


# -- its process -------------------------------------------------------------------------------


def run_peer(
    name: str,
    data: str,
    out: Path,
    options: PeerOptions = _DEFAULTS,
    *,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Runs `measure_peer` in a process of its own.

    Args:
      name: as in `check`.
      data: see `measure_peer`.
      out: JSON file of the result. An existing file with the same arguments is returned as it is.
      options: see `measure_peer`.
      stop: called several times a second; True ends the process.

    Returns:
      the result of `measure_peer`; or `name` and `failed`, the reason in one line.

    Raises:
      InputError: an unknown name, or an output file that cannot be written.
      StoppedError: `stop` returned True.
    """
    reason = check([name])[name]
    asked = _arguments(name, data, options)
    if out.exists() and (found := read_record(out)).get("asked") == asked:
        return found
    if reason is not None:
        return {"name": name, "failed": reason}
    _make_parent(out)
    out.unlink(missing_ok=True)
    given = dataclasses.asdict(options)
    words = ["--propensity", *map(str, given.pop("propensity"))]
    words += [
        f"--{key.replace('_', '-')}={value}" for key, value in given.items() if value is not None
    ]
    errors, scratch = out.with_suffix(".stderr"), out.with_suffix(".scratch")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    command = [sys.executable, "-m", "snm.compare.peers.process", name, data, str(out)]
    try:
        reason = run_tied([*command, "--with-parent", *words], errors, stop, TMPDIR=str(scratch))
        return read_record(out) if reason is None else {"name": name, "failed": reason}
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _make_parent(out: Path) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(out), describe_error(error), "a file to write") from error
    if out.is_dir():
        raise InputError(str(out), "a folder", "a file to write")


def main(words: Sequence[str] | None = None) -> int:
    """Runs `measure_peer` from the command line; returns 2 for bad input, 1 if it fails."""
    parser = argparse.ArgumentParser(
        "python -m snm.compare.peers.process", description="Measures one package."
    )
    parser.add_argument("name", metavar="NAME", help=f"{', '.join(PEERS)}, or MODULE:NAME")
    parser.add_argument("data", metavar="DATA", help="folder of the data set, or `synthetic`")
    parser.add_argument("out", metavar="OUT.json", type=Path, help="file of the result")
    parser.add_argument("--weighting", help="tfidf, l2 or none")
    parser.add_argument("--seed", type=int)
    parser.add_argument(
        "--threads", type=int, help="as many as the cores that it may use by default"
    )
    parser.add_argument("--validation-fraction", type=float)
    parser.add_argument("--seen", choices=("keep", "drop"))
    parser.add_argument("--propensity", type=float, nargs=2)
    parser.add_argument("--with-parent", action="store_true", help="end when standard input does")
    parser.set_defaults(**dataclasses.asdict(_DEFAULTS))
    asked = vars(parser.parse_args(words))
    name, data, out = asked.pop("name"), asked.pop("data"), asked.pop("out")
    if asked.pop("with_parent"):
        end_with_parent()
    try:
        _make_parent(out)
        found = measure_peer(name, data, PeerOptions(**asked))
        write_record(out, found)
    except InputError as error:
        print_error(error.as_flags)
        return 2
    except Exception as error:  # report any exception of the package as the reason
        print_error(f"{name}: {one_line(error)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
