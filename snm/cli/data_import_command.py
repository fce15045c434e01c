"""`snm data import` on the command line; everything heavy is imported when it runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

__all__ = ["Import"]


@dataclasses.dataclass
class Import:
    """Make a data set out of texts or of svmlight files, read a piece at a time.

    JSON lines and CSV have a text and its labels; fastText lines begin with `__label__NAME`; raw
    text is a text a line, with the labels in a second file. Counts are stored: training weights
    them (TF-IDF by default). The vectoriser is stored with the data and with each run, so that
    `snm predict` and `snm.load(RUN).predict(texts)` take texts.

    For example:

      snm data import articles.jsonl --out data/articles --test-fraction 0.2
      snm data import train.csv --test test.csv --out data/mine --text title body --labels tags
      snm data import trn.raw.txt --label-file Y.trn.txt --out data/raw
      snm data import train.fasttext.gz --out data/tags --vectorizer hashing
      snm data import train.svm --test test.svm --out data/multi
    """

    source: Annotated[Positional[Path], arg(metavar="FILE")]
    """Training points; also .gz."""
    out: Path
    """Folder to make; must not exist."""
    test: Path | None = None
    """Test points, in the same format."""
    test_fraction: float = 0.0
    """Share of the points that become test points, drawn at random; instead of --test."""
    seed: int = 0
    """Seed of that draw."""
    format: Literal["auto", "jsonl", "csv", "raw", "fasttext", "svmlight"] = "auto"
    """Format; auto goes by the file's name and first line."""
    text: tuple[str, ...] = ("text",)
    """Fields of JSON lines, or columns of CSV, that hold the text; several are joined."""
    labels: str = "labels"
    """Field or column that holds the labels."""
    label_separator: str | None = None
    """What is between labels of CSV and raw text: a comma in CSV, white space in raw text."""
    label_file: Path | None = None
    """Labels of raw text, a line a text."""
    test_label_file: Path | None = None
    """The same of the test points."""
    vectorizer: Literal["counts", "tfidf", "hashing"] = "counts"
    """How texts become features: counts of words, TF-IDF, or hashed counts."""
    features: int | None = None
    """At most this many words, the most frequent (200000); places of hashing (262144)."""
    min_points: int = 1
    """Words in fewer texts are left out."""
    ngrams: tuple[int, int] = (1, 1)
    """Shortest and longest run of words that is a feature."""
    strip_accents: bool = False
    """Take accents off letters."""

    def __call__(self) -> None:
        """Runs it."""
        from snm.cli.data_import import run_import

        run_import(self)
