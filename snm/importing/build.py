"""`snm data import`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from snm.data.formats.foreign import READERS
from snm.errors import InputError, counted

if TYPE_CHECKING:
    from snm.data.conversion.convert import Counts
    from snm.importing.summary import Imported

__all__ = ["Import"]

if TYPE_CHECKING:
    Format = str
else:
    Format = Literal["auto", *READERS]


@dataclasses.dataclass
class Import:
    """Convert texts or svmlight files to a data set, in chunks that fit in memory.

    JSON lines and CSV hold a text and its labels. The columns of CSV are separated by commas, or by
    semicolons or tabs if the header has no commas, or has the columns of text and labels only so.
    fastText lines start with `__label__NAME`. Raw text is one text per line, with the labels in a
    second file. The data set stores word counts, which training weights (TF-IDF by default). It
    also stores the vectorizer, as does each run, so that `snm predict` and
    `snm.load(RUN).predict(texts)` accept texts.

    For example:

      snm data import articles.jsonl --out data/articles --test-fraction 0.2
      snm data import train.csv --test test.csv --out data/mine --text title body --labels tags
      snm data import trn.raw.txt --label-file Y.trn.txt --out data/raw
      snm data import train.fasttext.gz --out data/tags --vectorizer hashing
      snm data import names.csv --out data/names --analyzer char_wb --ngrams 2 4 --min-points 2
      snm data import trn.json --text title --labels target_ind --label-names lbl.json --out data/lf
      snm data import train.svm --test test.svm --out data/multi
      snm data import baskets.csv --text bought --labels later --same-items --out data/shop
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
    labels: str | None = None
    """Field or column that holds the labels. By default `labels`, or that of --like."""
    weight_column: str | None = None
    """Field or column with the weights of training points. Training multiplies their losses by
    these, over the mean; 0 leaves a point out of training."""
    label_separator: str | None = None
    """Separator of labels; by default that of --like, or else a comma in CSV and white space in raw
    text. CSV whose labels are lists, such as ["a", "b"] or ['a', 'b'], needs none."""
    min_label_count: int = 1
    """Minimum number of training points of a label; rarer labels are left out of their points."""
    label_file: Path | None = None
    """Labels of raw text: one line per text."""
    test_label_file: Path | None = None
    """Labels of the test points of raw text."""
    label_names: Path | None = None
    """Texts of labels that are numbers, one label per line, from label 0: the numbers stay ids, and
    the texts are the names. JSON lines, CSV or plain text; may be a .gz file."""
    label_name_field: str | None = None
    """Field or column of --label-names that holds the text; by default the first of --text."""
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
    same_items: bool = False
    """Texts are lists of items, and labels are items too, such as what a customer bought first and
    later: both get the same ids, and training predicts items that a point does not have. Features
    of svmlight and labels of the same number are one item."""
    item_separator: str = ","
    """Separator of the items of a text, one character, with --same-items."""
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
    from snm.importing.checks import check
    from snm.importing.summary import tell
    from snm.system.files import atomic_folder

    check(command)
    out = command.out
    with atomic_folder("--out", out) as beside:
        imported = _import(command, beside)
    tell(command, imported)


def _import(command: Import, folder: Path) -> Imported:
    """Writes a data set.

    Raises:
      InputError: files or options that cannot be used.
    """
    from snm.data.conversion.convert import Source, build
    from snm.data.conversion.label_names import read_label_names
    from snm.data.conversion.passes import frequent_labels
    from snm.importing.features import features_of
    from snm.importing.rows import Reading, Rows
    from snm.importing.summary import Imported
    from snm.system.terminal import counters

    reading = Reading.of(command)
    names, kept, rare = None, None, 0
    with counters(bars=False) as passing:
        if command.label_names is not None:
            field, default = command.label_name_field, reading.columns[0]
            told = passing("reading label names")
            names = read_label_names(command.label_names, field, default, told)
        rows = Rows(command, reading, names)
        if command.min_label_count > 1:
            told = passing("counting labels")
            kept, rare = frequent_labels(rows.training(), command.min_label_count, told)
        features = features_of(command, reading, rows, passing)
        if features.vectorizer is not None:
            features.vectorizer.write(folder / "vectorizer.json")
        known = features.labels
        if known is None:
            known = () if names is None else tuple(names.names)
        source = Source(
            name=str(command.source),
            files=rows.by_part(kept),
            part_of=rows.part_of,
            features_of=features.of,
            num_features=features.width,
            known_labels=known,
            new_labels="drop" if command.new_labels == "drop" else "append",
            weighted=command.weight_column is not None,
            item_marks=features.item_marks,
        )
        counts = build(folder, source, passing("writing points"))
    separated = reading.reader.separated and names is None and reading.label_list is None
    _refuse_new_labels(command, counts, separated=separated)
    # Where a separator was named, it is known what the names of new data hold. Later data may
    # have another one.
    separated = separated and (command.like is not None or command.label_separator is None)
    return Imported(
        counts,
        features.vectorizer,
        rare_labels=rare,
        numbered_names=names.numbered if names else (),
        common_separator=counts.common_separator if separated else None,
        label_list=reading.label_list,
        respelled=rows.spellings.joined("item" if reading.item_separator else "label"),
    )


def _refuse_new_labels(command: Import, counts: Counts, *, separated: bool) -> None:
    """Refuses labels that `--like` lacks, unless they are asked for and leave points with labels.

    Args:
      command: the options.
      counts: of what was written.
      separated: whether another separator may be what is wrong.

    Raises:
      InputError: such labels.
    """
    if not (new := counts.new_labels):
        return
    found = f"{counted(len(new), 'label')} that {command.like} lacks, such as {new[0]!r}"
    expected = "its labels, or --new-labels append or drop"
    if counts.without_labels == counts.train + counts.test:
        found, expected = f"no point with a label of {command.like}: {found}", "some of its labels"
    elif command.new_labels != "refuse":
        return
    if separated and (mark := counts.common_separator) is not None:
        expected += f"; if {mark!r} separates labels, --label-separator {mark!r}"
    raise InputError(str(command.source), found, expected)
