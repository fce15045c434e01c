"""What `snm data import` refuses before it reads a point."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from snm.data.formats.foreign import READERS
from snm.errors import InputError

if TYPE_CHECKING:
    from snm.importing.build import Import
    from snm.importing.interactions import Interactions

__all__ = [
    "check",
    "check_at_least",
    "check_draws",
    "check_format",
    "check_separator",
    "check_without_like",
    "flag_of",
    "is_given",
]

_MOST_FEATURES = 2**31 - 1  # ids are int32
_OF_TEXTS = ("vectorizer", "features", "min_points", "max_share", "ngrams", "strip_accents",
             "analyzer", "stop_words", "token_pattern", "lowercase", "binary")  # fmt: skip


def check(command: Import) -> None:
    """Checks what needs no look into the files.

    Raises:
      InputError: options that cannot be used, or not together.
    """
    check_draws(command)
    _check_files(command)
    _check_numbers(command)
    _check_texts(command)
    _check_items(command)
    if command.like is None:
        if command.new_labels != "refuse":
            raise InputError("--new-labels", "no --like", "the run or data that has the old ones")
        return
    check_without_like(command, (*_OF_TEXTS, "min_label_count"))


def check_without_like(command: Import | Interactions, names: Iterable[str]) -> None:
    """Refuses options beside `--like`, whose run or data decides them."""
    for name in names:
        if command.like is not None and is_given(command, name):
            found = f"--like {command.like} as well"
            raise InputError(flag_of(command, name), found, "one of the two")


def check_at_least(command: Import | Interactions, name: str, least: int) -> None:
    """Refuses a number that is too low; None is no number."""
    value = getattr(command, name)
    if value is not None and value < least:
        raise InputError(flag_of(command, name), f"{value}", f"{least} or more")


def _check_items(command: Import) -> None:
    """Refuses options that say nothing to items, and what separates none."""
    if not command.same_items:
        if is_given(command, "item_separator"):
            raise InputError("--item-separator", "no --same-items", "lists of items")
        return
    if command.like is not None:
        raise InputError("--same-items", "--like as well", "--like alone, which knows its items")
    for name in (*_OF_TEXTS, "min_label_count", "label_names"):
        if is_given(command, name):
            found = f"{flag_of(command, name)} as well"
            raise InputError("--same-items", found, "one of the two")
    check_separator("--item-separator", command.item_separator, or_space=True)


def check_separator(flag: str, mark: str, *, or_space: bool = False) -> None:
    """Refuses what cannot stand between the items of a text."""
    if or_space and mark == " ":
        return
    if len(mark) != 1 or mark.isspace() or mark.isalnum():
        expected = "one character such as , ; or |" + (", or a space" if or_space else "")
        raise InputError(flag, repr(mark), expected)


def check_draws(command: Import | Interactions) -> None:
    """Refuses a folder that is there, and a share of test points that cannot be drawn."""
    if command.out.exists():
        raise InputError(str(command.out), "a file or folder of that name", "a new folder")
    if not 0 <= command.test_fraction < 1:
        raise InputError("--test-fraction", f"{command.test_fraction}", "0 to below 1")
    if command.seed < 0:
        raise InputError("--seed", f"{command.seed}", "0 or more")


def _check_files(command: Import) -> None:
    """Refuses files that cannot be read or written, or not together."""
    of_points = (command.source, command.test, command.label_file, command.test_label_file)
    for path in (*of_points, command.label_names):
        if path is not None and not path.is_file():
            found = "a folder" if path.is_dir() else "no regular file"
            if not path.exists():
                found = "no such file"
            expected = "a file of points" if path in of_points else "the texts of labels"
            raise InputError(str(path), found, expected)
    if command.label_name_field is not None and command.label_names is None:
        raise InputError("--label-name-field", "no --label-names", "the file that has it")
    if command.test_fraction and command.test is not None:
        raise InputError("--test-fraction", "--test as well", "one of the two")
    if command.test_label_file is not None and command.test is None:
        raise InputError("--test-label-file", "no --test", "the test points that it labels")


def _check_numbers(command: Import) -> None:
    """Refuses numbers out of range."""
    for name in ("features", "min_points", "min_label_count"):
        check_at_least(command, name, 1)
    if (command.features or 0) > _MOST_FEATURES:
        raise InputError("--features", f"{command.features}", f"at most {_MOST_FEATURES}")
    if not 0 < command.max_share <= 1:
        raise InputError("--max-share", f"{command.max_share}", "above 0, up to 1")
    first, last = command.ngrams
    if not 1 <= first <= last:
        raise InputError("--ngrams", f"{first} {last}", "the shortest and the longest, from 1")


def _check_texts(command: Import) -> None:
    """Refuses options of texts that cannot be used."""
    from snm.data.vectorizer import CLASSES, refuse_pattern

    if command.label_separator == "":
        raise InputError("--label-separator", "an empty text", "one character or more")
    for flag, given in (
        ("stop-words", command.stop_words),
        ("token-pattern", command.token_pattern),
    ):
        if given is not None and command.analyzer != "word":
            found = f"--analyzer {command.analyzer}"
            raise InputError(f"--{flag}", found, "--analyzer word: characters have none")
    if command.token_pattern is not None:
        refuse_pattern(command.token_pattern)
    if CLASSES.get(command.vectorizer, command.vectorizer) == "hashing":
        for name in ("min_points", "max_share"):
            if is_given(command, name):
                found = f"--vectorizer {command.vectorizer}"
                expected = "counts or tfidf: hashing keeps all words"
                raise InputError(flag_of(command, name), found, expected)


def check_format(command: Import, form: str) -> None:
    """Refuses what points of this format have no use for.

    Args:
      command: the command.
      form: a key of `READERS`.

    Raises:
      InputError: an option that would be ignored, or test points without their label file.
    """
    reader = READERS[form]
    if reader.label_file and command.test is not None and command.test_label_file is None:
        expected = "a file with the labels of --test, one line a text"
        raise InputError("--test-label-file", "none", expected)
    for used, names, found, expected in (
        (reader.label_file, ("label_file", "test_label_file"), "a file that holds its labels",
         "--format raw, or --label-names for the texts of labels"),
        (reader.fields, ("text", "labels", "weight_column"), "points without fields",
         "CSV or JSON lines"),
        (reader.separated, ("label_separator",), "labels that are apart already",
         "CSV or raw text"),
        (not reader.entries, ("item_separator",), "features", "lists of items"),
        (not reader.entries, _OF_TEXTS, "features", "texts"),
    ):  # fmt: skip
        for name in names:
            if not used and is_given(command, name):
                raise InputError(flag_of(command, name), f"{found} ({form})", expected)


def is_given(command: object, name: str) -> bool:
    """Whether an option is not the default."""
    return bool(getattr(command, name) != getattr(type(command), name))


def flag_of(command: object, name: str) -> str:
    """The option as it was given."""
    no = "no-" if getattr(command, name) is False else ""
    return f"--{no}{name.replace('_', '-')}"
