"""Counts letters of scripts that put no spaces between words, where a word is a whole clause."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snm.data.formats.foreign import Row

__all__ = ["Unspaced"]

_SAMPLE = 256  # texts of a chunk, at most, that are looked at
# Runs as long as few words are: of Han, Hiragana and Katakana; of Thai, Lao, Myanmar and Khmer.
# Shorter ones may be words that a program has separated.
_RUNS = re.compile(
    "[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]{5,}"
    "|[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff]{10,}"
)
_LETTERS = re.compile(r"[^\W\d_]+")


class Unspaced:
    """The share of such letters among all letters of texts.

    Example:
      >>> unspaced = Unspaced()
      >>> unspaced.add([Row("1", "\u6253\u5370\u673a\u574f\u4e86 printer", None, ())])
      >>> unspaced.share  # 5 of 12
      0.4166666666666667
    """

    def __init__(self) -> None:
        self._found = self._letters = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Counts the letters of the first texts of a chunk."""
        for row in rows[:_SAMPLE]:
            text = row.text or ""
            if not text.isascii():
                found = sum(map(len, _RUNS.findall(text)))  # vowels of Thai are marks, no letters
                self._found += found
                self._letters += found
                text = _RUNS.sub(" ", text)
            self._letters += sum(map(len, _LETTERS.findall(text)))

    @property
    def share(self) -> float:
        """The letters in runs that are longer than words, over all letters."""
        return self._found / max(1, self._letters)
