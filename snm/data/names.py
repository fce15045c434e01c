"""Names of labels and items, in one spelling wherever they are read.

Everything that takes names makes them by `one_name`: imports, lists of items that are texts of
points, and labels that a user asks for. Else a name that one place knows is unknown to another.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

from snm.errors import counted

__all__ = ["Spellings", "composed", "listed", "one_line", "one_name", "respelled"]


def one_line(name: str) -> str:
    """A name with single spaces for white space, of which there is none at its ends.

    A byte order mark counts as white space: readers drop it where a file begins with it.
    """
    return " ".join(name.replace("\ufeff", " ").split())


def composed(text: str) -> str:
    r"""A text in Unicode's composed form (NFC): letters with accents are one character each.

    Example:
      >>> composed("cafe\u0301") == "caf\u00e9"
      True
    """
    return unicodedata.normalize("NFC", text)


def one_name(text: str) -> str:
    r"""The name of a label or an item: composed, on one line, with single spaces.

    Example:
      >>> one_name(" Mug\u00a0 blue\t"), one_name("Ka\u0308se") == "K\u00e4se"
      ('Mug blue', True)
    """
    return composed(one_line(text))


def listed(text: str, separator: str, name: Callable[[str], str] = one_name) -> str:
    """A text that lists items, with the name of each in place of its spelling.

    Args:
      text: the list.
      separator: the character between its items.
      name: makes a name of a spelling.

    Example:
      >>> listed("Sofa  XL , Mug", ",")
      'Sofa XL,Mug'
    """
    return separator.join(map(name, text.split(separator)))


def respelled(known: Sequence[str]) -> dict[str, str]:
    """The known names that are no names by `one_name`, by what it makes of them.

    Data and runs of files that no import wrote have such names. Of several, the first counts;
    none does where the name itself is known too.

    Args:
      known: names.
    """
    found: dict[str, str] = {}
    for name in known:
        if (plain := one_name(name)) != name:
            found.setdefault(plain, name)
    for plain in found.keys() & set(known) if found else ():
        del found[plain]
    return found


class Spellings:
    """Makes names of spellings, and knows which came in several.

    White space at the ends makes no other spelling: separators often have some beside them.

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
        """The name that `one_name` makes of a text."""
        text = text.strip()
        found = self._names.get(text)
        if found is None:
            found = one_name(text)
            found = self._names[text] = text if found == text else found  # one text in memory
        return found

    def joined(self, what: str) -> str | None:
        """How many names had several spellings, for a user; None if none had.

        Args:
          what: what the names are of, such as `item`.
        """
        odd = Counter(name for text, name in self._names.items() if text != name)
        several = [name for name, count in odd.items() if count + (name in self._names) > 1]
        if not several:
            return None
        some = [text for text, name in self._names.items() if name == several[0]][:2]
        # Accents look the same, composed or not.
        shown = ascii if len(set(map(composed, some))) == 1 else repr
        first, second = map(shown, some)
        names = counted(len(several), what)
        return f"{names} with several spellings, such as {first} and {second}: joined"
