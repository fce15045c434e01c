"""What an import is asked for: the options of `snm data import` and `snm data interactions`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

__all__ = ["ImportOptions", "InteractionsOptions", "display_names"]


def display_names(files: Sequence[Path]) -> str:
    """What messages call files that are read as one.

    Example:
      >>> display_names([Path("a.csv")])
      'a.csv'
      >>> display_names([Path("a.csv"), Path("b.csv"), Path("c.csv")])
      'a.csv and 2 more'
    """
    return f"{files[0]} and {len(files) - 1:,} more" if len(files) > 1 else str(files[0])


@dataclasses.dataclass
class ImportOptions:
    """Options of an import of texts or svmlight files; their docstrings are the help."""

    source: tuple[Path, ...]
    """Training points; text may be in .gz files. Several are read as one, in the order given."""
    out: Path
    """Folder to create; must not exist."""
    test: tuple[Path, ...] = ()
    """Test points, in the same format; one file or more."""
    test_fraction: float = 0.0
    """Share of the points to draw at random as test points, instead of --test."""
    seed: int = 0
    """Random seed of --test-fraction."""
    format: str = "auto"
    """Format of the files; auto decides by the name, or how the file begins. Others by the module
    that the environment variable SNM_IMPORT names."""
    text: tuple[str, ...] = ()
    """Fields of JSON lines, or columns of CSV or Parquet, that hold the text; several are joined.
    By default `text`, or those of --like."""
    labels: tuple[str, ...] = ()
    """Fields or columns that hold the labels; those of several are joined, each label once. By
    default `labels`, or those of --like."""
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
    the texts are the names. JSON lines, CSV, Parquet or plain text; may be a .gz file."""
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


@dataclasses.dataclass
class InteractionsOptions:
    """Options of an import of interactions; their docstrings are the help."""

    source: tuple[Path, ...]
    """Interactions; text may be in .gz files. Several are read as one, in the order given."""
    out: Path
    """Folder to create; must not exist."""
    user: str = "user"
    """Column or field with the user."""
    item: str = "item"
    """Column or field with the item."""
    time: str | None = None
    """Column or field with the time: numbers, or dates such as 2024-05-31T12:00; by default, rows
    are in the order of time."""
    test_fraction: float = 0.0
    """Share of the users to draw as test points, about. The id of a user and --seed decide, so the
    users of a later log stay in their part."""
    leave_last: int = 0
    """Instead of --test-fraction, every user is a test point too, whose labels are so many of their
    last items; the training point has the items before these alone."""
    test_from: str | None = None
    """Instead of --test-fraction, a time as in --time. Test points have the items before it as
    features and those from it on as labels; training points have the items before it alone."""
    label_share: float = 0.2
    """Share of a user's items that are labels; at least one is."""
    min_users: int = 1
    """Minimum number of users of an item; rarer items are left out."""
    separator: str = ","
    """Separator of items in a text that lists some; that of --like, if there is one."""
    like: str | None = None
    """Folder of a run, or a data set: take its items and their ids, so that the run can be
    evaluated on the new log; other items are left out."""
    seed: int = 0
    """Random seed of --test-fraction."""
