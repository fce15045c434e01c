"""Checks a data set for problems that make training fail or metrics misleading."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from snm.config.auto import auto_weighting
from snm.config.settings import Config
from snm.data.dataset import Dataset
from snm.data.formats.layouts import find_files
from snm.data.load import SYNTHETIC, fetched, load
from snm.data.repository.registry import read_registry
from snm.data.statistics import describe, dominant_feature, duplicate_rows
from snm.data.weighting import filled
from snm.doctor.environment import devices
from snm.doctor.findings import PERMIT, Finding
from snm.doctor.of_files import advice_on_files
from snm.doctor.text_scan import Scan, scan, sniff
from snm.errors import InputError, counted
from snm.runs.load import is_exported

__all__ = ["examine_data"]

_MANY = 0.01  # fraction of rows above which a note becomes a warning
# A and B of Jain, Prabhu and Varma (KDD 2016), by a word in the name of the data set. AmazonCat and
# Wiki10 have those of all others.
_PROPENSITIES = ((r"amazon(?!cat)", 0.6, 2.6), (r"wiki(?!10)", 0.5, 0.4))


def examine_data(source: str) -> tuple[list[Finding], dict[str, Any]]:
    """Checks a data set.

    Args:
      source: its folder, its name in the repository if it was fetched, or `synthetic`.

    Returns:
      The findings, in the order of the checks, and the result of `snm.data.statistics.describe`
      (empty if the data cannot be read).

    Raises:
      InputError: the folder does not exist.
    """
    source = str(fetched(source) or source)
    if source != SYNTHETIC and not Path(source).is_dir():
        found = "a file" if Path(source).exists() else "no such folder"
        raise InputError(source, found, "the folder of a data set or of a run")
    if is_exported(Path(source)):
        found = "files of `snm export`"
        raise InputError(source, found, "the folder of a data set or of a run")
    findings: list[Finding] = []
    of_points: list[Path] = []
    try:
        if source != SYNTHETIC:
            layout, train, test = find_files(Path(source))
            of_points = train + test
            files = ", ".join(file.name for file in of_points)
            findings.append(Finding("ok", "format", f"{layout}: {files}"))
        dataset = load(source)
    except InputError as error:
        advice = _advice(Path(source), of_points, error)
        findings.append(Finding("error", "reading", error.as_flags, advice))
        return findings, {}
    facts = describe(dataset)
    findings.append(Finding("ok", "reading", _sizes(facts)))
    findings += _rows(dataset, facts)
    findings += _labels(dataset, facts)
    findings += _filters(Path(source), dataset)
    findings += _propensities(dataset)
    findings += _memory(source, dataset)
    return findings, facts


def _sizes(facts: dict[str, Any]) -> str:
    return (
        f"{facts['train_points']:,} training and {facts['test_points']:,} test points, "
        f"{counted(facts['features'], 'feature')}, {counted(facts['labels'], 'label')}"
    )


# -- data that cannot be read ----------------------------------------------------------------


def _advice(folder: Path, of_points: list[Path], error: InputError) -> str:
    """Advice for data that cannot be read; of its files, those of points have a header."""
    if isinstance(error.__cause__, PermissionError):
        return PERMIT
    named = [path for path in of_points if error.where.startswith(str(path))]
    path = max(named, key=lambda one: len(str(one)), default=Path(error.where))
    if path.suffix in (".txt", ".gz") and path in of_points:
        seen = scan(path)
        if seen is not None and (advice := _advice_on_text(path, seen)):
            return advice
    if error.where == str(folder):
        return advice_on_files(folder)
    return f"correct it, so that it has {error.expected}"


def _advice_on_text(path: Path, seen: Scan) -> str:
    """Advice for a text file, from a scan of its header and ids; empty if nothing is wrong."""
    if len(seen.header) not in (2, 3):
        form = sniff(path)
        if form and not form.startswith("the repository"):
            return f"these look like {form}: bring them in with `snm data import`"
        return "the file needs a first line `points features labels`"
    widths = dict(zip(("entries", "labels"), seen.header[1:], strict=False))
    of_labels = path.name.removesuffix(".gz").endswith("X_Y.txt")
    if of_labels:
        widths = {"entries": seen.header[1]}
    wrong = []
    for what, noun in (("entries", "label" if of_labels else "feature"), ("labels", "label")):
        span, width = getattr(seen, what), widths.get(what)
        if span and width and span[1] >= width:
            if span[0] >= 1 and span[1] == width:
                wrong.append(
                    f"{noun} ids run from {span[0]} to {span[1]} under a header of {width}: they "
                    "start at 1; take 1 from each, or write the header one wider"
                )
            else:
                wrong.append(f"{noun} ids reach {span[1]}: the header needs at least {span[1] + 1}")
    if seen.whole and seen.rows != seen.header[0]:
        wrong.append(f"the header says {seen.header[0]} points, the file has {seen.rows} lines")
    return "; ".join(wrong)


# -- data that can ---------------------------------------------------------------------------


def _level(count: int, of: int) -> Any:
    return "warning" if count > _MANY * of else "note"


def _rows(dataset: Dataset, facts: dict[str, Any]) -> Iterator[Finding]:
    train, test = facts["train_points"], facts["test_points"]
    if test == 0:
        yield Finding("note", "test points", "there are none", "training will report no metrics")
    repeats = facts["duplicate_test_rows"]
    if repeats:
        yield Finding(
            _level(repeats, test),
            "repeated rows",
            f"{repeats:,} test points ({repeats / test:.1%}) repeat a training point's features",
            "metrics without them are reported beside the others",
        )
    elif test:
        yield Finding("ok", "repeated rows", "no test point repeats a training point")
    inside = int(np.count_nonzero(duplicate_rows(dataset.train.features)))
    if inside:
        yield Finding(
            "note",
            "repeated rows",
            f"{inside:,} training points ({inside / train:.1%}) repeat an earlier one",
        )
    features = dataset.train.features
    negative = int(np.count_nonzero(features.data < 0))
    standard = auto_weighting(filled(features), negative=negative > 0) == "standard"
    for part, points, what, then in (
        ("train", train, "labels", "left out of training"),
        ("train", train, "features", "only the biases of the labels train"),
        ("test", test, "labels", "metrics leave them out"),
        ("test", test, "features", "the answer is that of the biases"),
    ):
        if what == "features" and standard:  # zeros are values like others there
            continue
        count = facts[f"{part}_without_{what}"]
        if part == "train" and what == "labels" and count == train:
            yield Finding("error", "empty rows", "no training point has a label", "check the file")
        elif count:
            rows = counted(count, f"{part} point")
            found = f"{rows} {'has' if count == 1 else 'have'} no {what}: {then}"
            yield Finding(_level(count, points), "empty rows", found)
    unused = facts["empty_features"]
    if unused:
        found = f"{unused:,} of {facts['features']:,} features occur in no training point"
        yield Finding("note", "features", found)
    if negative:
        yield Finding(
            "note",
            "features",
            f"{counted(negative, 'value')} below 0, so that --weighting auto takes no TF-IDF",
        )
        if (hidden := dominant_feature(dataset.train.features)) is not None:
            found, _, advice = hidden.partition(": ")
            yield Finding("warning", "features", found, advice)


def _labels(dataset: Dataset, facts: dict[str, Any]) -> Iterator[Finding]:
    labels = facts["labels"]
    if labels < 2:
        yield Finding("error", "labels", f"{labels} label", "a classifier needs at least 2")
    never, only = facts["labels_never_in_train"], facts["labels_only_in_test"]
    if only:
        yield Finding(
            _level(only, labels),
            "labels",
            f"{counted(only, 'label')} of test points without a training point",
            "nothing can be learned of them; recall cannot reach 100%",
        )
    elif never:
        yield Finding("note", "labels", f"{counted(never, 'label')} without a training point")
    else:
        yield Finding("ok", "labels", "every label has a training point")
    frequency = dataset.label_frequency()
    if labels > 2 and not frequency[0] and not _in_test(dataset)[0] and frequency[-1]:
        yield Finding(
            "note",
            "index base",
            "label 0 occurs nowhere",
            "if the labels' ids start at 1, names and ids are off by one",
        )
    names = [name for name in dataset.label_names or () if name.strip()]
    if dataset.label_names is not None and (blank := labels - len(names)):
        advice = "answers have these labels by id alone; name them in the file of label names"
        yield Finding("warning", "names", f"{counted(blank, 'label')} without a name", advice)
    if len(set(names)) < len(names):
        again = len(names) - len(set(names))
        found = f"{counted(again, 'label')} with the name of another"
        yield Finding("warning", "names", found, "answers by name are ambiguous")


def _in_test(dataset: Dataset) -> Any:
    if dataset.test is None:
        return np.zeros(dataset.train.num_labels, int)
    return np.bincount(dataset.test.labels.indices, minlength=dataset.train.num_labels)


def _filters(folder: Path, dataset: Dataset) -> Iterator[Finding]:
    if dataset.test is not None and dataset.test.filter is not None:
        pairs = dataset.test.filter
        truth = dataset.test.labels
        hits = int(np.asarray(truth[pairs[:, 0], pairs[:, 1]]).sum()) if len(pairs) else 0
        found = f"filter_labels_test.txt has {len(pairs):,} pairs, {hits:,} of them true labels"
        yield Finding("ok", "filter", found)
    elif folder.is_dir():
        near = [p.name for p in folder.iterdir() if "filter" in p.name.lower()]
        near = [name for name in near if name.removesuffix(".gz") != "filter_labels_train.txt"]
        if near:
            yield Finding(
                "warning",
                "filter",
                f"{', '.join(sorted(near))} looks like a label filter and is not used",
                "the file that is read is called filter_labels_test.txt",
            )


def _propensities(dataset: Dataset) -> Iterator[Finding]:
    """Compares the default A and B with those of the data set, from the registry or its name."""
    name = dataset.name.lower()
    known = [
        e.propensity
        for e in sorted(read_registry(), key=lambda entry: -len(entry.name))
        if _letters(name).startswith(_letters(e.name)) or name in map(str.lower, e.aliases)
    ]
    known += [(a, b) for word, a, b in _PROPENSITIES if re.search(word, name)]
    default = Config()
    if known and known[0] != (default.propensity_a, default.propensity_b):
        a, b = known[0]
        yield Finding(
            "note",
            "propensities",
            f"data sets of this name use A = {a}, B = {b}; the default is {default.propensity_a}, "
            f"{default.propensity_b}",
            f"for comparable PSP, give --propensity-a {a} --propensity-b {b}",
        )


def _letters(name: str) -> str:
    """A name without case and punctuation, so that a folder `Wiki10-31K.bow` is found."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _memory(source: str, dataset: Dataset) -> Iterator[Finding]:
    """The memory that `snm plan` forecasts for a run with the default settings."""
    if isinstance(devices(), str):
        return  # JAX cannot start, which `examine_environment` reports
    from snm.config.resolve import resolve
    from snm.planning.byte_sizes import format_bytes
    from snm.planning.fit_check import check_memory

    try:
        expected = check_memory(dataset, resolve(Config(), dataset))
    except InputError:
        return  # the data cannot be trained on; other findings say why
    plan = f"snm plan {shlex.quote(source)}"
    found = (
        f"{format_bytes(expected.needed)} to train with the default settings, of "
        f"{format_bytes(expected.limit)}"
    )
    if expected.fits:
        yield Finding("ok", "memory", f"{found} (`{plan}` shows the parts, and the time)")
    else:
        yield Finding("error", "memory", found, f"{expected.advice}; see `{plan}`")
