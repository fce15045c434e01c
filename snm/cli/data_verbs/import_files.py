"""`snm data import`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from snm.data.formats.foreign import READERS
from snm.importing.options import ImportOptions

__all__ = ["Import"]

_FORMATS = f"{{{','.join(['auto', *READERS])}}}"


@dataclasses.dataclass
class Import(ImportOptions):
    """Convert texts or svmlight files to a data set, in chunks that fit in memory.

    JSON lines, CSV and Parquet hold a text and its labels. The columns of CSV are separated by
    commas, or by semicolons or tabs if the header has no commas, or has the columns of text and
    labels only so.
    fastText lines start with `__label__NAME`. Raw text is one text per line, with the labels in a
    second file. The data set stores word counts, which training weights (TF-IDF by default). It
    also stores the vectorizer, as does each run, so that `snm predict` and
    `snm.load(RUN).predict(texts)` accept texts.

    For example:

      snm data import articles.jsonl --out data/articles --test-fraction 0.2
      snm data import train.csv --test test.csv --out data/mine --text title body --labels tags
      snm data import reviews-*.parquet --out data/reviews --labels topics
      snm data import trn.raw.txt --label-file Y.trn.txt --out data/raw
      snm data import train.fasttext.gz --out data/tags --vectorizer hashing
      snm data import names.csv --out data/names --analyzer char_wb --ngrams 2 4 --min-points 2
      snm data import trn.json --text title --labels target_ind --label-names lbl.json --out data/lf
      snm data import train.svm --test test.svm --out data/multi
      snm data import baskets.csv --text bought --labels later --same-items --out data/shop
      snm data import february.csv --out data/february --like runs/articles
    """

    source: Annotated[Positional[tuple[Path, ...]], arg(metavar="FILE [FILE ...]")]
    format: Annotated[str, arg(metavar=_FORMATS)] = "auto"

    def __call__(self) -> None:
        """Runs the verb."""
        from snm.importing.checks import check_import

        check_import(self)  # before the imports below, which take time
        from snm.importing.build import build
        from snm.importing.summary import print_summary

        print_summary(self, build(self))
