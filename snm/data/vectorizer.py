"""Turns texts into features; saved as JSON with the data and with the run.

Wraps the vectorizers of scikit-learn (extra `sklearn`), which is imported on first use.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.formats.records import MAX_IDS
from snm.data.names import composed, normalize_list, normalize_name, original_spellings
from snm.errors import InputError
from snm.system.faults import read_error
from snm.system.files import disk
from snm.system.imports import requires_extra

__all__ = [
    "CLASSES",
    "NO_TEXT",
    "Kind",
    "Vectorizer",
    "are_names",
    "collect_words",
    "english_stop_words",
    "pattern_of_items",
    "refuse_pattern",
]

NO_TEXT = "a text ('' where there is none)"
"""What is expected in place of a text that is missing."""

Kind = Literal["counts", "tfidf", "hashing"]
CLASSES: dict[str, Kind] = {
    "CountVectorizer": "counts",
    "TfidfVectorizer": "tfidf",
    "HashingVectorizer": "hashing",
}
"""Their names in scikit-learn."""

_PATTERN = r"(?u)\b\w\w+\b"  # scikit-learn's own

Analyzer = Literal["word", "char", "char_wb"]
"""Runs of words; of characters; of characters inside words, which spaces surround."""

_FORMAT = "snm-vectorizer-1"
_LONGEST_PATTERN = 500  # characters


@dataclass(frozen=True, eq=False)
class Vectorizer:
    """A fitted text vectorizer of scikit-learn's.

    The features are runs of words or, by `analyzer`, of characters. Texts are read in Unicode's
    composed form (NFC), in which an accent does not cut a word in two. Of a text that lists items,
    each is read as `snm.data.names.normalize_name` makes names.

    - `counts`: how often each word of the vocabulary occurs (CountVectorizer).
    - `tfidf`: counts times idf, divided by the row's Euclidean length (TfidfVectorizer).
    - `hashing`: counts of words hashed into `num_features` buckets (HashingVectorizer). It keeps
      no vocabulary, so features cannot be mapped back to words.

    Attributes:
      kind: `counts`, `tfidf` or `hashing`.
      num_features: number of features d.
      ngrams: shortest and longest run of words, or of characters, that is a feature.
      strip_accents: whether accents are removed from letters.
      analyzer: what the features are runs of.
      stop_words: words that are left out, as `collect_words` cuts them; only with `word`.
      token_pattern: regular expression of a word, only with `word`; None is scikit-learn's, two or
        more letters, digits or underscores.
      lowercase: whether texts are made lower case.
      binary: whether a feature that occurs more than once counts once.
      vocabulary: d words in the order of their ids; None for `hashing`.
      idf: float64 [d]; None unless `tfidf`.
      columns: names of the columns or fields that the texts came from, or None.
      label_columns: names of those that the labels came from, or None.
      label_separator: what stood between labels; None is the default of the format.
    """

    kind: Kind
    num_features: int
    ngrams: tuple[int, int] = (1, 1)
    strip_accents: bool = False
    vocabulary: tuple[str, ...] | None = None
    idf: NDArray[np.float64] | None = None
    columns: tuple[str, ...] | None = None
    label_columns: tuple[str, ...] | None = None
    label_separator: str | None = None
    analyzer: Analyzer = "word"
    stop_words: tuple[str, ...] = ()
    token_pattern: str | None = None
    lowercase: bool = True
    binary: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Options of the scikit-learn class, without the vocabulary.

        With these options it computes the same features, for texts in NFC whose items, if it lists
        some, contain single spaces only.
        """
        options: dict[str, Any] = {
            "ngram_range": self.ngrams,
            "strip_accents": "unicode" if self.strip_accents else None,
            "analyzer": self.analyzer,
            "stop_words": list(self.stop_words) or None,
            "lowercase": self.lowercase,
            "binary": self.binary,
        }
        if self.analyzer == "word":
            options["token_pattern"] = self.token_pattern or _PATTERN
        if self.kind == "hashing":
            options |= {"n_features": self.num_features, "alternate_sign": False, "norm": None}
        return options

    @property
    def tokenization_hint(self) -> str | None:
        """Alternative options, for texts with few words; None for characters or items."""
        if self.analyzer != "word" or self.item_separator is not None:
            return None
        hint = (
            "--analyzer char_wb --ngrams 1 3 (parts of words), or --analyzer char --ngrams 1 2 "
            "(texts without spaces between words)"
        )
        if self.token_pattern is None:
            hint = rf"--token-pattern '\S+' (single letters, signs), {hint}"
        return hint

    @property
    def item_separator(self) -> str | None:
        """The character between items if texts are lists (`pattern_of_items`), otherwise None."""
        mark = (self.token_pattern or "")[3:4]
        return mark if mark and self.token_pattern == pattern_of_items(mark) else None

    @functools.cached_property
    def _vectorizer(self) -> Any:
        text, options = _text_module(), {**self.options, "dtype": np.float32}
        if self.kind == "hashing":
            return text.HashingVectorizer(**options)
        vocabulary = {word: index for index, word in enumerate(self.vocabulary or ())}
        if self.kind == "counts":
            return text.CountVectorizer(vocabulary=vocabulary, **options)
        vectorizer = text.TfidfVectorizer(vocabulary=vocabulary, **options)
        vectorizer.idf_ = self.idf
        return vectorizer

    def transform(self, texts: Sequence[str | Sequence[str]]) -> csr_matrix:
        """Turns n texts into float32 CSR [n, d] with sorted ids.

        Args:
          texts: n texts; lists of names too, if texts are lists of items.

        Raises:
          InputError: another type, a name that contains the separator, or scikit-learn is not
            installed.
        """
        mark = self.item_separator
        plain: list[Any] = [text if mark is None else _join_items(text, mark) for text in texts]
        if bad := [number for number, text in enumerate(plain) if not isinstance(text, str)]:
            kind = type(plain[bad[0]]).__name__
            found = "None" if plain[bad[0]] is None else f"a value of type {kind}"
            raise InputError("texts", f"{found} at index {bad[0]}", NO_TEXT)
        if not plain:
            return csr_matrix((0, self.num_features), dtype=np.float32)
        normalized = map(self._reader(), plain)
        features = csr_matrix(self._vectorizer.transform(normalized), dtype=np.float32)
        features.sort_indices()
        return features

    def build_analyzer(self) -> Callable[[str], list[str]]:
        """The function that maps a text to its n-grams of words or characters."""
        analyze, normalize = self._vectorizer.build_analyzer(), self._reader()
        return lambda text: analyze(normalize(text))

    @functools.cached_property
    def _spelled(self) -> dict[str, str]:
        return original_spellings(self.vocabulary or ())

    def _reader(self) -> Callable[[str], str]:
        """The function that makes of a text what is cut: composed; of items, their names."""
        mark = self.item_separator
        if mark is None:
            return composed
        spelled = self._spelled

        def known(item: str) -> str:
            name = normalize_name(item)
            return spelled.get(name, name)

        return lambda text: normalize_list(text, mark, known)

    def makes_features_of(self, other: Vectorizer) -> bool:
        """Whether both turn every text into the same features."""
        mine, others = (
            (v.kind, v.num_features, v.ngrams, v.strip_accents, v.analyzer, v.stop_words,
             v.vocabulary, v.token_pattern, v.lowercase, v.binary) for v in (self, other)
        )  # fmt: skip
        if mine != others or self.idf is None or other.idf is None:
            return mine == others
        return np.array_equal(self.idf, other.idf)

    def write(self, path: Path) -> None:
        """Writes the vectorizer to `path` as JSON."""
        fields = {name: getattr(self, name) for name in _FIELDS}
        idf = None if self.idf is None else self.idf.tolist()
        text = json.dumps({"format": _FORMAT, **fields, "idf": idf}, ensure_ascii=False)
        disk.write(path, text.encode())

    @classmethod
    def read(cls, path: Path) -> Vectorizer:
        """Reads a file that `write` wrote.

        Raises:
          InputError: no such file, or another content.
        """
        expected = "a vectorizer that `snm data import` wrote"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise read_error(path, error, expected) from error
        except (ValueError, RecursionError) as error:
            raise InputError(str(path), "damaged JSON", expected) from error
        try:
            if found["format"] != _FORMAT:
                raise InputError(str(path), f"format {found['format']!r:.40}", expected)
            if missing := [name for name in _FIELDS if name not in found]:
                other = f"{expected}: it is of another version of snm (import the texts again)"
                raise InputError(str(path), f"no {missing[0]}", other)
            first, last = found["ngrams"]
            words, idf, columns = found["vocabulary"], found["idf"], found["columns"]
            if (labels := found["label_columns"]) is not None and not are_names(labels):
                raise TypeError("label_columns")
            result = cls(
                kind=found["kind"],
                num_features=int(found["num_features"]),
                ngrams=(int(first), int(last)),
                strip_accents=bool(found["strip_accents"]),
                vocabulary=None if words is None else tuple(map(str, words)),
                idf=None if idf is None else np.asarray(idf, np.float64),
                columns=None if columns is None else tuple(map(str, columns)),
                label_columns=None if labels is None else tuple(labels),
                label_separator=found["label_separator"],
                analyzer=found["analyzer"],
                stop_words=tuple(map(str, found["stop_words"])),
                token_pattern=found["token_pattern"],
                lowercase=found["lowercase"],
                binary=found["binary"],
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(str(path), f"no vectorizer ({error!r:.80})", expected) from error
        if not result._is_consistent():
            found = f"inconsistent fields of {result.kind!r:.40}"
            raise InputError(str(path), found, expected)
        return result

    def _is_consistent(self) -> bool:
        """Whether scikit-learn takes the fields, and they fit each other."""
        words, idf, (first, last) = self.vocabulary, self.idf, self.ngrams
        return (
            self.kind in get_args(Kind)
            and self.analyzer in get_args(Analyzer)
            and isinstance(self.lowercase, bool)
            and isinstance(self.binary, bool)
            and isinstance(self.label_separator, str | None)
            and self.label_separator != ""
            and _pattern_error(self.token_pattern) is None
            and 1 <= self.num_features <= MAX_IDS
            and 1 <= first <= last
            and (words is not None, idf is not None)
            == (self.kind != "hashing", self.kind == "tfidf")
            and (words is None or len(words) == len(set(words)) == self.num_features)
            and (
                idf is None or (idf.shape == (self.num_features,) and bool(np.isfinite(idf).all()))
            )
        )


_FIELDS = tuple(field.name for field in dataclasses.fields(Vectorizer))
"""What a file has beside its format."""


def _join_items(text: str | Sequence[str], separator: str) -> Any:
    """Names of items as a text that lists them; anything else as it is."""
    if not are_names(text):
        return text
    if wrong := next((name for name in text if separator in name), None):
        found, expected = f"{separator!r} in the item {wrong[:40]!r}", "items without the separator"
        raise InputError("texts", found, expected)
    return separator.join(text)


def are_names(text: object) -> bool:
    """Whether `text` is a list or tuple of strings; True for an empty one."""
    return isinstance(text, list | tuple) and all(isinstance(name, str) for name in text)


def collect_words(lines: Iterable[str], template: Vectorizer) -> tuple[str, ...]:
    """The distinct words of some lines, in the tokenization of a vectorizer, sorted.

    Example:
      >>> collect_words(["Don't", "the"], Vectorizer("hashing", 1))
      ('don', 'the')
    """
    tokenize = dataclasses.replace(template, ngrams=(1, 1), stop_words=()).build_analyzer()
    return tuple(sorted({word for line in lines for word in tokenize(line)}))


def pattern_of_items(separator: str) -> str:
    """The `token_pattern` of texts that list items, separated by this character.

    Spaces around an item are not part of it.
    """
    mark = "\\" + separator
    return rf"[^{mark}\s](?:[^{mark}]*[^{mark}\s])?"


def refuse_pattern(pattern: str | None) -> None:
    """Checks a regular expression for words.

    Raises:
      InputError: it cannot be compiled, is too long, or has several groups.
    """
    error = _pattern_error(pattern)
    if error is not None:
        expected = r"a regular expression of a word, such as '\w+'"
        raise InputError("--token-pattern", f"{pattern!r:.60} ({error})", expected)


def _pattern_error(pattern: object) -> str | None:
    if pattern is None:
        return None
    if not isinstance(pattern, str):
        return "no text"
    if not 0 < len(pattern) <= _LONGEST_PATTERN:
        return f"{len(pattern)} characters"
    try:
        groups = re.compile(pattern).groups
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)
    # With one group, scikit-learn uses the text that it matches.
    return None if groups <= 1 else "several groups"


def english_stop_words() -> list[str]:
    """scikit-learn's English stop words."""
    return sorted(_text_module().ENGLISH_STOP_WORDS)


def _text_module() -> Any:
    with requires_extra("texts", "sklearn", "scikit-learn"):
        from sklearn.feature_extraction import text
    return text
