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
from snm.data.formats.detection import recognize
from snm.data.formats.foreign import READERS
from snm.data.formats.layouts import find_files
from snm.data.formats.repository_text.errors import import_command
from snm.data.load import SYNTHETIC, fetched, load
from snm.data.names import case_variants
from snm.data.repository.registry import PROPENSITY, bare_name, propensity_of
from snm.data.statistics import describe, dominant_feature, duplicate_rows
from snm.doctor.findings import PERMIT, Finding
from snm.doctor.folder_advice import advice_on_files
from snm.doctor.text_scan import Scan, scan
from snm.errors import InputError
from snm.machine.platform import device_error
from snm.runs.stored_run import has_export_files
from snm.text import counted, format_bytes

__all__ = ["examine_data"]

_WHOLE = ("train.txt", "test.txt")  # with labels and features; other texts have one of the two
_MANY = 0.01  # fraction of rows above which a note becomes a warning
# A and B of Jain, Prabhu and Varma (KDD 2016), by a pattern in the name of a data set outside the
# registry. AmazonCat, Wiki10 and WikiSeeAlso use those of other data sets.
_PROPENSITIES = ((r"amazon(?!cat)", 0.6, 2.6), (r"wiki(?!10|seealso)", 0.5, 0.4))


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
    if has_export_files(Path(source)):
        found = "files of `snm export`"
        raise InputError(source, found, "the folder of a data set or of a run")
    findings: list[Finding] = []
    train: list[Path] = []
    test: list[Path] = []
    try:
        if source != SYNTHETIC:
            layout, train, test = find_files(Path(source))
            files = ", ".join(file.name for file in train + test)
            findings.append(Finding("ok", "format", f"{layout}: {files}"))
        dataset = load(source)
    except InputError as error:
        advice = _advice(Path(source), train, test, error)
        findings.append(Finding("error", "reading", error.as_flags, advice))
        return findings, {}
    statistics = describe(dataset)
    findings.append(Finding("ok", "reading", _sizes(statistics)))
    for check in (_check_repeats, _check_empty_rows, _check_features, _check_labels):
        findings += check(dataset, statistics)
    findings += _check_filters(Path(source), dataset)
    findings += _check_propensities(dataset)
    findings += _check_memory(source, dataset)
    return findings, statistics


def _sizes(statistics: dict[str, Any]) -> str:
    return (
        f"{statistics['train_points']:,} training and "
        f"{counted(statistics['test_points'], 'test point')}, "
        f"{counted(statistics['features'], 'feature')}, {counted(statistics['labels'], 'label')}"
    )


# -- data that cannot be read ----------------------------------------------------------------


def _advice(folder: Path, train: list[Path], test: list[Path], error: InputError) -> str:
    """Advice for data that cannot be read. Only the files of `train` and `test` have a header."""
    if isinstance(error.__cause__, PermissionError):
        return PERMIT
    matches = [path for path in train + test if error.where.startswith(str(path))]
    path = max(matches, key=lambda match: len(str(match)), default=Path(error.where))
    if path.suffix in (".txt", ".gz") and path in train + test:
        scanned = scan(path)
        if scanned is not None and (advice := _advice_on_text(path, scanned)):
            return advice
        if scanned is not None and path in test:
            of_train = train[test.index(path)]
            other = scan(of_train)
            if other is not None and (advice := _advice_on_widths(of_train, other, path, scanned)):
                return advice
    if error.where == str(folder):
        return advice_on_files(folder)
    return f"correct it, so that it has {error.expected}"


def _advice_on_text(path: Path, scanned: Scan) -> str:
    """Advice for a text file, from a scan of its header and ids; empty if nothing is wrong."""
    if len(scanned.header) not in (2, 3):
        if (command := import_command(path, scanned.first)) is not None:
            return f"write a first line `points features labels`, or bring it in with `{command}`"
        form = recognize(path, scanned.first.decode("utf-8", "replace"))
        if form is not None and path.name.removesuffix(".gz") in _WHOLE:
            title = READERS[form].title or form
            return f"these look like {title}: bring them in with `snm data import`"
        return "the file needs a first line `points features labels`"
    widths = dict(zip(("entries", "labels"), scanned.header[1:], strict=False))
    is_label_file = path.name.removesuffix(".gz").endswith("X_Y.txt")
    if is_label_file:
        widths = {"entries": scanned.header[1]}
    problems = []
    for what, noun in (("entries", "label" if is_label_file else "feature"), ("labels", "label")):
        span, width = getattr(scanned, what), widths.get(what)
        if span and width and span[1] >= width:
            if span[0] >= 1 and span[1] == width:
                problems.append(
                    f"{noun} ids run from {span[0]} to {span[1]} under a header of {width}: they "
                    "start at 1; take 1 from each, or write the header one wider"
                )
            else:
                problems.append(
                    f"{noun} ids reach {span[1]}: the header needs at least {span[1] + 1}"
                )
    if scanned.whole and scanned.rows != scanned.header[0]:
        problems.append(
            f"the header says {scanned.header[0]} points, the file has {scanned.rows} lines"
        )
    return "; ".join(problems)


def _advice_on_widths(train: Path, of_train: Scan, test: Path, of_test: Scan) -> str:
    """Advice where the headers of both parts have other widths; empty if they have the same."""
    widths = tuple(map(max, zip(of_train.header[1:], of_test.header[1:], strict=False)))
    wider = [
        f"`{' '.join(map(str, (scanned.header[0], *widths)))}` as the header of {path.name}"
        for path, scanned in ((train, of_train), (test, of_test))
        if scanned.header[1:] != widths
    ]
    if not wider:
        return ""
    return f"write {' and '.join(wider)}: both parts have the widths of the wider one"


# -- data that can be read -------------------------------------------------------------------


def _level(count: int, of: int) -> Any:
    return "warning" if count > _MANY * of else "note"


def _check_repeats(dataset: Dataset, statistics: dict[str, Any]) -> Iterator[Finding]:
    train, test = statistics["train_points"], statistics["test_points"]
    repeats = statistics["duplicate_test_rows"]
    if test == 0:
        yield Finding("note", "test points", "there are none", "training will report no metrics")
    elif repeats:
        yield Finding(
            _level(repeats, test),
            "repeated rows",
            f"{repeats:,} test points ({repeats / test:.1%}) repeat a training point's features",
            "metrics without them are reported beside the others",
        )
    else:
        yield Finding("ok", "repeated rows", "no test point repeats a training point")
    repeated = int(np.count_nonzero(duplicate_rows(dataset.train.features)))
    if repeated:
        found = f"{repeated:,} training points ({repeated / train:.1%}) repeat an earlier one"
        yield Finding("note", "repeated rows", found)


def _check_empty_rows(dataset: Dataset, statistics: dict[str, Any]) -> Iterator[Finding]:
    # `negative` decides between the other two.
    standard = auto_weighting(dataset.train.features, negative=False) == "standard"
    for part, what, effect in (
        ("train", "labels", "left out of training"),
        ("train", "features", "only the biases of the labels train"),
        ("test", "labels", "metrics leave them out"),
        ("test", "features", "the answer is that of the biases"),
    ):
        if what == "features" and standard:  # with standardized features, 0 is a value like others
            continue
        points, count = statistics[f"{part}_points"], statistics[f"{part}_without_{what}"]
        if part == "train" and what == "labels" and count == points:
            yield Finding("error", "empty rows", "no training point has a label", "check the file")
        elif count:
            rows = counted(count, f"{part} point")
            found = f"{rows} {'has' if count == 1 else 'have'} no {what}: {effect}"
            yield Finding(_level(count, points), "empty rows", found)


def _check_features(dataset: Dataset, statistics: dict[str, Any]) -> Iterator[Finding]:
    features, unused = dataset.train.features, statistics["empty_features"]
    if unused:
        found = f"{unused:,} of {statistics['features']:,} features occur in no training point"
        yield Finding("note", "features", found)
    if negative := int(np.count_nonzero(features.data < 0)):
        found = f"{counted(negative, 'value')} below 0, so that --weighting auto takes no TF-IDF"
        yield Finding("note", "features", found)
        divided = auto_weighting(features, negative=True) == "l2"  # else the scale is no matter
        if divided and (warning := dominant_feature(features)) is not None:
            found, _, advice = warning.partition(": ")
            yield Finding("warning", "features", found, advice)


def _check_labels(dataset: Dataset, statistics: dict[str, Any]) -> Iterator[Finding]:
    labels = statistics["labels"]
    if labels < 2:
        yield Finding("error", "labels", f"{labels} label", "a classifier needs at least 2")
    not_in_train, only_in_test = (
        statistics["labels_never_in_train"],
        statistics["labels_only_in_test"],
    )
    if only_in_test:
        yield Finding(
            _level(only_in_test, labels),
            "labels",
            f"{counted(only_in_test, 'label')} of test points without a training point",
            "nothing can be learned of them; recall cannot reach 100%",
        )
    elif not_in_train:
        yield Finding(
            "note", "labels", f"{counted(not_in_train, 'label')} without a training point"
        )
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
        num_repeated = len(names) - len(set(names))
        found = f"{counted(num_repeated, 'label')} with the name of another"
        yield Finding("warning", "names", found, "answers by name are ambiguous")
    if (found_variants := case_variants(names)) is not None:
        yield Finding("note", "names", found_variants, "each is a label of its own")


def _in_test(dataset: Dataset) -> Any:
    if dataset.test is None:
        return np.zeros(dataset.train.num_labels, int)
    return np.bincount(dataset.test.labels.indices, minlength=dataset.train.num_labels)


def _check_filters(folder: Path, dataset: Dataset) -> Iterator[Finding]:
    if dataset.test is not None and dataset.test.filter is not None:
        pairs = dataset.test.filter
        truth = dataset.test.labels
        hits = int(np.asarray(truth[pairs[:, 0], pairs[:, 1]]).sum()) if len(pairs) else 0
        found = f"filter_labels_test.txt has {len(pairs):,} pairs, {hits:,} of them true labels"
        yield Finding("ok", "filter", found)
    elif folder.is_dir():
        unused_filters = [p.name for p in folder.iterdir() if "filter" in p.name.lower()]
        unused_filters = [
            name for name in unused_filters if name.removesuffix(".gz") != "filter_labels_train.txt"
        ]
        if unused_filters:
            yield Finding(
                "warning",
                "filter",
                f"{', '.join(sorted(unused_filters))} looks like a label filter and is not used",
                "the file that is read is called filter_labels_test.txt",
            )


def _check_propensities(dataset: Dataset) -> Iterator[Finding]:
    """Compares A and B of `auto` with those of data sets whose names are alike."""
    if (own := propensity_of(dataset.name)) is not None:
        if own != PROPENSITY:
            found = f"A = {own[0]}, B = {own[1]}, those of the public data set of this name"
            yield Finding("ok", "propensities", found)
        return
    for word, a, b in _PROPENSITIES:
        if re.search(word, bare_name(dataset.name)):
            yield Finding(
                "note",
                "propensities",
                f"data sets of this name use A = {a}, B = {b}; the default is {PROPENSITY[0]}, "
                f"{PROPENSITY[1]}",
                f"for comparable PSP, give --propensity-a {a} --propensity-b {b}",
            )
            return


def _check_memory(source: str, dataset: Dataset) -> Iterator[Finding]:
    """The memory that `snm plan` forecasts for a run with the default settings."""
    if device_error() is not None:
        return  # JAX cannot start, which `examine_environment` reports
    from snm.config.resolve import resolve
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
        yield Finding("ok", "peak memory", f"{found} (`{plan}` shows the parts, and the time)")
    else:
        yield Finding("error", "peak memory", found, f"{expected.advice}; see `{plan}`")
