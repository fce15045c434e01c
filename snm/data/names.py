"""Normalizes the names of labels and items.

All code that reads names calls `normalize_name`: imports, lists of items, and labels that a user
asks for. Otherwise the same name could be known in one place and unknown in another.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

from snm.text import counted

__all__ = [
    "MISSING_VALUES",
    "Spellings",
    "case_variants",
    "composed",
    "decimal_variants",
    "normalize_list",
    "normalize_name",
    "normalize_spaces",
    "original_spellings",
]


MISSING_VALUES = frozenset((
    "nan", "NaN", "NAN", "-nan", "None", "none", "NONE", "null", "Null", "NULL",
    "NA", "N/A", "n/a", "<NA>", "#N/A", "NaT",
))  # fmt: skip
"""What programs write for a missing value, so that hardly a label has such a name."""


def normalize_spaces(name: str) -> str:
    """Strips a name and replaces white space inside it by single spaces.

    A byte order mark counts as white space, since readers drop it at the start of a file.
    """
    return " ".join(name.replace("\ufeff", " ").split())


def composed(text: str) -> str:
    r"""A text in Unicode's composed form (NFC): a letter with an accent is one character.

    Example:
      >>> composed("cafe\u0301") == "caf\u00e9"
      True
    """
    return unicodedata.normalize("NFC", text)


def normalize_name(text: str) -> str:
    r"""Normalizes the name of a label or an item: NFC, on one line, with single spaces.

    Example:
      >>> normalize_name(" Mug\u00a0 blue\t"), normalize_name("Ka\u0308se") == "K\u00e4se"
      ('Mug blue', True)
    """
    return composed(normalize_spaces(text))


def normalize_list(text: str, separator: str, name: Callable[[str], str]) -> str:
    """Normalizes each item of a text that lists items.

    Args:
      text: the list.
      separator: the character between its items.
      name: normalizes an item.

    Example:
      >>> normalize_list("Sofa  XL , Mug", ",", normalize_name)
      'Sofa XL,Mug'
    """
    return separator.join(map(name, text.split(separator)))


def original_spellings(known: Sequence[str]) -> dict[str, str]:
    """Maps normalized names to the known names that differ from them.

    Data that `snm data import` did not write may have such names. Of several with the same
    normalized name, the first counts; none if the normalized name is known too.

    Args:
      known: names.
    """
    spellings: dict[str, str] = {}
    for name in known:
        if (normalized := normalize_name(name)) != name:
            spellings.setdefault(normalized, name)
    for normalized in spellings.keys() & set(known) if spellings else ():
        del spellings[normalized]
    return spellings


def case_variants(names: Sequence[str]) -> str | None:
    """A message about the names that differ from another only in case; None if there are none.

    Example:
      >>> case_variants(["hw", "net", "HW", "Net", "net", "net"])
      "4 labels differ from another only in case, such as 'hw' and 'HW'"
    """
    import numpy as np

    # Hashes need less memory than millions of folded names.
    hashes = np.fromiter((hash(name.casefold()) for name in names), np.int64, count=len(names))
    values, counts = np.unique(hashes, return_counts=True)
    groups = dict[str, dict[str, None]]()
    for index in np.flatnonzero(np.isin(hashes, values[counts > 1])).tolist():
        groups.setdefault(names[index].casefold(), {})[names[index]] = None
    several = [tuple(group) for group in groups.values() if len(group) > 1]
    if not several:
        return None
    first, second, *_ = several[0]
    number = sum(map(len, several))
    return f"{number:,} labels differ from another only in case, such as {first!r} and {second!r}"


def decimal_variants(names: Sequence[str], what: str) -> str | None:
    """A message about the numbers that also occur with `.0`; None if there are none.

    Args:
      names: different names.
      what: the kind of names, such as `item`.

    Example:
      >>> decimal_variants(["3", "5.0", "3.0", "a.0", "a"], "item")
      "1 item also occurs with '.0', such as '3' and '3.0': two different ones"
    """
    numbers = [
        name.removesuffix(".0")
        for name in names
        if name.endswith(".0") and re.fullmatch(r"-?[0-9]+\.0", name)  # the first is quicker
    ]
    both = set(numbers).intersection(names)
    if not both:
        return None
    first, verb = min(both), "occurs" if len(both) == 1 else "occur"
    which = f"{first!r} and {first + '.0'!r}"
    return f"{counted(len(both), what)} also {verb} with '.0', such as {which}: two different ones"


class Spellings:
    """Normalizes names, and records which occurred in several spellings.

    White space at the ends does not count as another spelling: separators often have some.

    Example:
      >>> spellings = Spellings()
      >>> [spellings.name(text) for text in ("Sofa  XL", "Mug", " Sofa XL")]
      ['Sofa XL', 'Mug', 'Sofa XL']
      >>> print(spellings.joined("item"))
      1 item with several spellings, such as 'Sofa  XL' and 'Sofa XL': joined
    """

    def __init__(self) -> None:
        self._names = dict[str, str]()  # by spelling

    def name(self, text: str) -> str:
        """As `normalize_name`."""
        text = text.strip()
        name = self._names.get(text)
        if name is None:
            name = normalize_name(text)
            name = self._names[text] = text if name == text else name  # keep one string in memory
        return name

    def joined(self, what: str) -> str | None:
        """A message about the names with several spellings; None if there are none.

        Args:
          what: the kind of names, such as `item`.
        """
        changed = Counter(name for text, name in self._names.items() if text != name)
        several = [name for name, count in changed.items() if count + (name in self._names) > 1]
        if not several:
            return None
        examples = [text for text, name in self._names.items() if name == several[0]][:2]
        # Composed and decomposed accents look the same, so show their codes.
        quote = ascii if len(set(map(composed, examples))) == 1 else repr
        first, second = map(quote, examples)
        names = counted(len(several), what)
        return f"{names} with several spellings, such as {first} and {second}: joined"
