"""Runs `snm data import`: passes over the files, and a folder that is whole or not there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from scipy.sparse import csr_matrix

from snm.cli.data_import_command import Import
from snm.data.convert import Counts, Told, build, fit_vectorizer, index_base
from snm.data.formats.foreign import Row, detect, read_rows
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError
from snm.system.files import made_whole
from snm.system.terminal import console

__all__ = ["run_import"]

_MOST_WORDS, _PLACES = 200_000, 1 << 18


def run_import(command: Import) -> None:
    """Makes the folder and says what is in it.

    Raises:
      InputError: files or options that cannot be used; then there is no folder.
    """
    _check(command)
    out = command.out
    with made_whole("--out", out) as beside:
        beside.mkdir(parents=True)
        counts, vectorizer = _import(command, beside)
    _tell(command, counts, vectorizer)


def _check(command: Import) -> None:
    if command.out.exists():
        raise InputError(str(command.out), "a file or folder of that name", "a new folder")
    for path in (command.source, command.test, command.label_file, command.test_label_file):
        if path is not None and not path.is_file():
            found = "a folder" if path.is_dir() else "no such file"
            raise InputError(str(path), found, "a file of points")
    if command.test_fraction and command.test is not None:
        raise InputError("--test-fraction", "--test beside it", "one of them")
    if not 0 <= command.test_fraction < 1:
        raise InputError("--test-fraction", f"{command.test_fraction}", "0 to below 1")
    for flag, value in (("--features", command.features), ("--min-points", command.min_points)):
        if value is not None and value < 1:
            raise InputError(flag, f"{value}", "1 or more")
    first, last = command.ngrams
    if not 1 <= first <= last:
        raise InputError("--ngrams", f"{first} {last}", "the shortest and the longest, from 1")


def _import(command: Import, folder: Path) -> tuple[Counts, Vectorizer | None]:
    form = command.format
    if form == "auto":
        form = detect(command.source, command.label_file)  # type: ignore[assignment]
    draws = np.random.default_rng(command.seed).random

    def rows(part: str) -> Iterator[Row]:
        path, labels = command.source, command.label_file
        if part == "test":
            assert command.test is not None
            path, labels = command.test, command.test_label_file
        return read_rows(
            path,
            form,
            text=command.text,
            labels=command.labels,
            label_separator=command.label_separator,
            label_file=labels,
        )

    drawn = _Draws(draws, command.test_fraction)

    def part_of(part: str, number: int) -> str:
        return "test" if part == "test" or drawn.is_test(number) else "train"

    parts = ["train", *(["test"] if command.test is not None else [])]
    vectorizer = None
    with _bar() as passing:
        if form == "svmlight":
            read = (row for part in parts for row in rows(part))
            base, width = index_base(read, passing("reading ids"))
            features_of: Callable[[list[Row]], csr_matrix] = lambda chunk: _entries(  # noqa: E731
                chunk, base, width
            )
        else:
            training = (row for n, row in enumerate(rows("train")) if not drawn.is_test(n))
            vectorizer = _vectorizer(command, training, passing("reading words"))
            vectorizer.write(folder / "vectorizer.json")
            width, transform = vectorizer.num_features, vectorizer.transform
            features_of = lambda chunk: transform([row.text or "" for row in chunk])  # noqa: E731
        every: Iterable[tuple[str, Iterator[Row]]] = ((part, rows(part)) for part in parts)
        counts = build(folder, every, features_of, width, part_of, passing("writing points"))
    return counts, vectorizer


class _Draws:
    """Whether row n is a test point: the n-th number of a seeded stream, kept as bits."""

    def __init__(self, draw: Callable[[int], np.ndarray], fraction: float):
        self._draw, self._fraction = draw, fraction
        self._known = np.zeros(0, bool)

    def is_test(self, number: int) -> bool:
        if not self._fraction:
            return False
        while number >= len(self._known):
            new = self._draw(1 << 16) < self._fraction
            self._known = np.concatenate([self._known, new])
        return bool(self._known[number])


def _vectorizer(command: Import, rows: Iterable[Row], told: Told) -> Vectorizer:
    most = command.features or (_PLACES if command.vectorizer == "hashing" else _MOST_WORDS)
    return fit_vectorizer(
        rows,
        command.vectorizer,
        most=most,
        min_points=command.min_points,
        ngrams=command.ngrams,
        strip_accents=command.strip_accents,
        told=told,
    )


def _entries(rows: list[Row], base: int, width: int) -> csr_matrix:
    pairs = [row.entries for row in rows if row.entries is not None]
    starts = np.concatenate([[0], np.cumsum([len(ids) for ids, _ in pairs])]).astype(np.int64)
    ids = np.concatenate([ids for ids, _ in pairs]) - base
    values = np.concatenate([values for _, values in pairs])
    return csr_matrix((values, ids.astype(np.int32), starts), shape=(len(rows), width))


def _tell(command: Import, counts: Counts, vectorizer: Vectorizer | None) -> None:
    console.print(
        f"{counts.points['train']:,} training and {counts.points['test']:,} test points, "
        f"{counts.features:,} features, {counts.labels:,} labels in {command.out}",
        soft_wrap=True,
    )
    for what, count in (("label", counts.without_labels), ("feature", counts.without_features)):
        if count:
            console.print(f"{count:,} points have no {what}")
    flag = " --weighting l2" if vectorizer is not None and vectorizer.kind == "tfidf" else ""
    console.print(f"next: snm train {command.out} --run-dir RUN{flag}", soft_wrap=True)


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[str], Told]]:
    """Makes a counter for each pass; drawn on a terminal only."""
    columns = [SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()]
    quiet = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as bar:

        def passing(what: str) -> Told:
            task = bar.add_task(what)

            def told(count: int) -> None:
                if count % 512 == 0:
                    bar.update(task, description=f"{what}: {count:,}")

            return told

        yield passing
