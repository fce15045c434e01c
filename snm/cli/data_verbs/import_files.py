"""`snm data import`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, cast

from tyro.conf import Positional, arg

from snm.data.formats.foreign import READERS, ReadOptions, Row, detect, read_rows
from snm.errors import InputError, counted

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_matrix

    from snm.data.convert import Counts, OnProgress
    from snm.data.vectorizer import Kind, Vectorizer

__all__ = ["Import"]

if TYPE_CHECKING:
    Format = str
else:
    Format = Literal["auto", *READERS]

_MOST_WORDS, _PLACES = 200_000, 1 << 18


@dataclasses.dataclass
class Import:
    """Convert texts or svmlight files to a data set, in chunks that fit in memory.

    JSON lines and CSV hold a text and its labels. fastText lines start with `__label__NAME`. Raw
    text is one text per line, with the labels in a second file. The data set stores word counts,
    which training weights (TF-IDF by default). It also stores the vectorizer, as does each run, so
    that `snm predict` and `snm.load(RUN).predict(texts)` accept texts.

    For example:

      snm data import articles.jsonl --out data/articles --test-fraction 0.2
      snm data import train.csv --test test.csv --out data/mine --text title body --labels tags
      snm data import trn.raw.txt --label-file Y.trn.txt --out data/raw
      snm data import train.fasttext.gz --out data/tags --vectorizer hashing
      snm data import names.csv --out data/names --analyzer char_wb --ngrams 2 4 --min-points 2
      snm data import train.svm --test test.svm --out data/multi
      snm data import february.csv --out data/february --like runs/articles
    """

    source: Annotated[Positional[Path], arg(metavar="FILE")]
    """Training points; may be a .gz file."""
    out: Path
    """Folder to create; must not exist."""
    test: Path | None = None
    """Test points, in the same format."""
    test_fraction: float = 0.0
    """Share of the points to draw at random as test points, instead of --test."""
    seed: int = 0
    """Random seed of --test-fraction."""
    format: Format = "auto"
    """Format of the files; auto decides by the name and the first line."""
    text: tuple[str, ...] = ()
    """Fields of JSON lines, or columns of CSV, that hold the text; several texts are joined. By
    default `text`, or those of --like."""
    labels: str = "labels"
    """Field or column that holds the labels."""
    weight_column: str | None = None
    """Field or column with the weights of training points, by which training multiplies their
    losses; 0 leaves a point out of training."""
    label_separator: str | None = None
    """Separator of labels; by default a comma in CSV and white space in raw text."""
    min_label_count: int = 1
    """Minimum number of training points of a label; rarer labels are left out of their points."""
    label_file: Path | None = None
    """Labels of raw text: one line per text."""
    test_label_file: Path | None = None
    """Labels of the test points of raw text."""
    vectorizer: Literal[
        "counts", "tfidf", "hashing", "CountVectorizer", "TfidfVectorizer", "HashingVectorizer"
    ] = "counts"
    """Features of a text: word counts, TF-IDF, or hashed word counts; or the name of that class in
    scikit-learn."""
    features: int | None = None
    """Maximum number of words, the most frequent first (default 200000), or number of hash buckets
    (default 262144)."""
    min_points: int = 1
    """Minimum number of texts that contain a word; rarer words are dropped."""
    max_share: float = 1.0
    """Maximum share of the texts that contain a word; more frequent words are dropped."""
    analyzer: Literal["word", "char", "char_wb"] = "word"
    """What n-grams consist of: words, characters, or characters inside words."""
    ngrams: tuple[int, int] = (1, 1)
    """Shortest and longest n-gram."""
    stop_words: str | None = None
    """Words to leave out: `english` (scikit-learn's list), or a file with one word per line."""
    strip_accents: bool = False
    """Remove accents from letters."""
    token_pattern: str | None = None
    r"""Regular expression of a word, such as '\S+' for code or tags; by default two or more
    letters, digits or underscores."""
    lowercase: bool = True
    """Make texts lower case first."""
    binary: bool = False
    """Count a word once that a text has several times."""
    like: str | None = None
    """Folder of a run, or a data set: take its vectorizer and its label ids, so that the run can be
    evaluated on the new data, trained on it, or grown."""
    new_labels: Literal["refuse", "append", "drop"] = "refuse"
    """Labels that --like does not have: refuse the file, number them after the others, or leave
    them out of their points."""

    def __call__(self) -> None:
        """Runs the verb."""
        _run(self)


def _run(command: Import) -> None:
    """Creates the folder and says what is in it.

    Raises:
      InputError: files or options that cannot be used; then no folder is left.
    """
    from snm.cli.data_verbs.import_checks import check
    from snm.cli.data_verbs.import_summary import tell
    from snm.system.files import made_whole

    check(command)
    out = command.out
    with made_whole("--out", out) as beside:
        counts, vectorizer = _import(command, beside)
    tell(command, counts, vectorizer)


def _import(command: Import, folder: Path) -> tuple[Counts, Vectorizer | None]:
    import numpy as np

    from snm.cli.data_verbs.import_checks import check_format
    from snm.data.convert import build, entries_of, frequent_labels, index_base

    form = command.format
    if form == "auto":
        form = detect(command.source, command.label_file)
    check_format(command, form)
    weight = command.weight_column
    ids = None if command.like is None else _ids_of(command.like)
    if ids is not None and READERS[form].entries:
        raise InputError(str(command.source), f"features ({form})", "texts, for --like")
    text = command.text or (ids and ids.vectorizer.columns) or ("text",)
    draws = np.random.default_rng(command.seed).random

    def rows(part: str) -> Iterator[Row]:
        path, labels = command.source, command.label_file
        if part == "test":
            assert command.test is not None
            path, labels = command.test, command.test_label_file
        options = ReadOptions(
            text=text,
            labels=command.labels,
            label_separator=command.label_separator,
            label_file=labels,
            weight=weight if part == "train" else None,
        )
        return read_rows(path, form, options)

    drawn = _Draws(draws, command.test_fraction)

    def part_of(part: str, number: int) -> str:
        return "test" if part == "test" or drawn.is_test(number) else "train"

    def training() -> Iterator[Row]:
        return (row for number, row in enumerate(rows("train")) if not drawn.is_test(number))

    parts = ["train", *(["test"] if command.test is not None else [])]
    vectorizer, least, rare = None, command.min_label_count, 0
    with _bar() as passing:
        labelled = rows
        if least > 1:
            kept, rare = frequent_labels(training(), least, passing("counting labels"))
            labelled = lambda part: _with_labels(rows(part), kept)  # noqa: E731
        if READERS[form].entries:
            read = (row for part in parts for row in rows(part))
            base, width = index_base(read, passing("reading ids"))
            features_of: Callable[[list[Row]], csr_matrix] = lambda chunk: entries_of(  # noqa: E731
                chunk, base, width
            )
        else:
            if ids is None:
                vectorizer = _vectorizer(command, training(), passing("reading words"))
                if READERS[form].fields:
                    vectorizer = dataclasses.replace(vectorizer, columns=text)
            else:
                vectorizer = ids.vectorizer
            vectorizer.write(folder / "vectorizer.json")
            width, transform = vectorizer.num_features, vectorizer.transform
            features_of = lambda chunk: transform([row.text or "" for row in chunk])  # noqa: E731
        every: Iterable[tuple[str, Iterator[Row]]] = ((part, labelled(part)) for part in parts)
        counts = build(
            folder, every, features_of, width, part_of, passing("writing points"),
            known=() if ids is None else ids.names,
            new_labels="drop" if command.new_labels == "drop" else "append",
            weighted=weight is not None, source=str(command.source),
        )  # fmt: skip
    counts.rare_labels = rare
    if not READERS[form].separated or command.label_separator is not None:
        counts.joined_by = None
    if command.new_labels == "refuse" and counts.new_labels:
        new = counts.new_labels
        found = f"{counted(len(new), 'label')} that {command.like} lacks, such as {new[0]!r}"
        raise InputError(str(command.source), found, "its labels, or --new-labels append or drop")
    return counts, vectorizer


def _with_labels(rows: Iterable[Row], kept: frozenset[str]) -> Iterator[Row]:
    """The rows without labels other than these."""
    for row in rows:
        yield row._replace(labels=tuple(name for name in row.labels if name in kept))


class _Ids(NamedTuple):
    """The vectoriser and the label names of a run or a data set."""

    vectorizer: Vectorizer
    names: tuple[str, ...]


def _ids_of(like: str) -> _Ids:
    """What the ids of a run folder, a data folder or a fetched set stand for.

    Raises:
      InputError: it is neither, or was not trained on or made of texts.
    """
    from snm.data.formats.dispatch import read_lines
    from snm.data.load import fetched, find_names
    from snm.data.vectorizer import Vectorizer
    from snm.stores.copies import local

    folder = fetched(like) or local(like)
    vectorizer, names = folder / "vectorizer.json", find_names(folder)
    if not vectorizer.is_file() or names is None:
        found = "no such folder"
        if folder.is_dir():
            found = "no label names" if vectorizer.is_file() else "no vectorizer.json"
        expected = "a run or data of texts (`snm data import`)"
        raise InputError(f"--like {like}", found, expected)
    known = tuple(read_lines(names))
    if len(set(known)) < len(known):
        raise InputError(str(names), "a label name twice", "different names")
    return _Ids(Vectorizer.read(vectorizer), known)


class _Draws:
    """Whether row n is a test point: the n-th number of a seeded stream, kept as bytes."""

    def __init__(self, draw: Callable[[int], np.ndarray], fraction: float):
        self._draw, self._fraction = draw, fraction
        self._known = bytearray()

    def is_test(self, number: int) -> bool:
        if not self._fraction:
            return False
        while number >= len(self._known):
            self._known += (self._draw(1 << 16) < self._fraction).tobytes()
        return bool(self._known[number])


def _vectorizer(command: Import, rows: Iterable[Row], on_progress: OnProgress) -> Vectorizer:
    from snm.data.convert import fit_vectorizer
    from snm.data.vectorizer import CLASSES, Vectorizer

    kind = CLASSES.get(command.vectorizer, cast("Kind", command.vectorizer))
    most = command.features or (_PLACES if kind == "hashing" else _MOST_WORDS)
    like = Vectorizer(
        "hashing",
        most,
        ngrams=command.ngrams,
        strip_accents=command.strip_accents,
        analyzer=command.analyzer,
        token_pattern=command.token_pattern,
        lowercase=command.lowercase,
        binary=command.binary,
    )
    like = dataclasses.replace(like, stop_words=_stop_words(command.stop_words, like))
    return fit_vectorizer(
        rows,
        kind,
        like,
        most=most,
        min_points=command.min_points,
        max_share=command.max_share,
        on_progress=on_progress,
        source=str(command.source),
    )


def _stop_words(asked: str | None, like: Vectorizer) -> tuple[str, ...]:
    """The words to leave out, as the vectorizer cuts them.

    Raises:
      InputError: a file that cannot be read, or without a word.
    """
    from snm.data.formats.dispatch import read_lines
    from snm.data.vectorizer import english_stop_words, words_of

    if asked is None:
        return ()
    lines = english_stop_words() if asked == "english" else read_lines(Path(asked))
    words = words_of(lines, like)
    if not words:
        raise InputError(f"--stop-words {asked}", "no word", "`english`, or a word a line")
    return words


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[str], OnProgress]]:
    """Makes a counter for each pass over the files; drawn on a terminal only."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from snm.system.terminal import console

    columns = [SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()]
    quiet = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as bar:

        def passing(what: str) -> OnProgress:
            task = bar.add_task(what)

            def on_progress(count: int) -> None:
                if count % 512 == 0:
                    bar.update(task, description=f"{what}: {count:,}")

            return on_progress

        yield passing
