"""What to say of a file that should be text in UTF-8 and is something else.

This module imports no NumPy, as the command line lists the formats that read text.
"""

from __future__ import annotations

import codecs
import re

from snm.errors import InputError

__all__ = ["GZIP", "PARQUET", "ZIP", "refuse_packed", "undecoded"]

PARQUET = b"PAR1\x15"
"""How a Parquet file begins: the mark of the format, then a number of its first header."""
GZIP = b"\x1f\x8b"
"""How gzip data begin."""
ZIP = b"PK\x03\x04"
"""How an archive begins, and what is made of archives: files of Office, for example."""

_SHEET = "CSV in UTF-8, as a spreadsheet program saves it"
_TABLE = 'JSON lines: `pandas.{}(FILE).to_json(NEW, orient="records", lines=True)` makes them'
_UNPACKED = "the text in it, which `{}` unpacks"

_BEGINNINGS = (
    (PARQUET, "a Parquet file", _TABLE.format("read_parquet")),
    (rb"ARROW1\0", "an Arrow file", _TABLE.format("read_feather")),
    (
        ZIP + rb".*?(\[Content_Types\]|xl/|docProps/|opendocument)",
        "an Office file",
        _SHEET,
    ),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Office file", _SHEET),  # of 2003 and before
    (ZIP, "a zip archive", _UNPACKED.format("unzip")),
    (GZIP, "gzip data", f"a name ending in .gz, or {_UNPACKED.format('gunzip -c')}"),
    (rb"BZh[1-9]1AY&SY", "bzip2 data", _UNPACKED.format("bunzip2 -c")),
    (rb"\xfd7zXZ\0", "xz data", _UNPACKED.format("xz -dc")),
    (rb"\x28\xb5\x2f\xfd", "Zstandard data", _UNPACKED.format("zstd -dc")),
)
"""How files begin, as a regular expression; what they are; and what is expected instead."""

_WIDE = (  # one that begins with the mark of another comes first
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),  # as spreadsheets write "Unicode text"
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_OF_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def refuse_packed(name: str, first: bytes) -> None:
    """Refuses files that other programs read, with the way to make text of them.

    Args:
      name: of the file, for messages.
      first: its first line, of an archive some more.

    Raises:
      InputError: they begin as such a file does.
    """
    if first.startswith(GZIP) and name.endswith(".gz"):  # which was unpacked once
        expected = "a file that is packed once, which `gunzip -c` makes of it"
        raise InputError(name, "gzip data in gzip data", expected)
    for beginning, found, expected in _BEGINNINGS:
        if re.match(beginning, first, re.DOTALL):
            raise InputError(name, found, expected)


def _is_cut(wrong: bytes) -> bool:
    """Whether these bytes begin a character of UTF-8 that the end of the file cuts."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(wrong) == ""
    except UnicodeDecodeError:
        return False


def undecoded(where: str, line: bytes, start: int, *, first: bool) -> InputError:
    """The error of a line that is not UTF-8.

    Args:
      where: file and line.
      line: the line.
      start: its first wrong byte.
      first: whether it begins the file.
    """
    expected = "UTF-8"
    wide = next((name for mark, name in _WIDE if first and line.startswith(mark)), None)
    if wide is not None:
        expected += f", as `iconv -f {wide} -t UTF-8` makes of {wide}"
    elif _OF_NO_TEXT.search(line) is None and line[:start].isascii() and not _is_cut(line[start:]):
        # Windows-1252 has the letters of Latin-1 at the same places.
        expected += ", as `iconv -f WINDOWS-1252 -t UTF-8` makes of Western European text"
    return InputError(where, f"bytes that are not UTF-8 ({line[start : start + 8]!a})", expected)
