"""What an import refuses before it reads a point.

This module imports no NumPy, so that the command line refuses a file that is not there at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from snm.data.formats.foreign import READERS
from snm.data.formats.records import MAX_IDS
from snm.errors import InputError, flag_of
from snm.importing.logs.times import A_TIME, parse_time
from snm.importing.options import ImportOptions, InteractionsOptions, display_names
from snm.system.files.checks import check_is_file, check_new

__all__ = ["check_format", "check_import", "check_interactions"]

_TEXT_OPTIONS = ("vectorizer", "features", "min_points", "max_share", "ngrams", "strip_accents",
                 "analyzer", "stop_words", "token_pattern", "lowercase", "binary")  # fmt: skip


def check_import(options: ImportOptions) -> None:
    """Checks what needs no look into the files.

    Raises:
      InputError: options that cannot be used, or not together.
    """
    if options.format not in ("auto", *READERS):
        expected = (
            f"one of auto, {', '.join(READERS)}, or a name that the module of SNM_IMPORT adds"
        )
        raise InputError("--format", repr(options.format), expected)
    _check_draws(options)
    _check_files(options)
    _check_numbers(options)
    _check_texts(options)
    _check_items(options)
    if options.like is None and options.new_labels != "refuse":
        raise InputError("--new-labels", "no --like", "the run or data that has the old ones")
    _check_without_like(options, (*_TEXT_OPTIONS, "min_label_count"))


def check_interactions(options: InteractionsOptions) -> None:
    """Checks what needs no look into the file.

    Raises:
      InputError: options that cannot be used, or not together.
    """
    _check_given(options)
    for path in options.source:
        check_is_file(path, "a log of users and items")
    _check_draws(options)
    if not 0 < options.label_share < 1:
        raise InputError("--label-share", f"{options.label_share}", "above 0, below 1")
    for name, least in (("leave_last", 0), ("min_users", 1)):
        _check_at_least(options, name, least)
    _check_without_like(options, ("min_users",))
    splits = ("test_from", "leave_last", "test_fraction")
    given = [flag_of(name) for name in splits if _is_given(options, name)]
    if len(given) > 1:
        raise InputError(given[0], f"{given[1]} as well", "one of the two")
    if options.test_from is not None:
        if options.time is None:
            raise InputError("--test-from", "no --time", "the column or field with the time")
        if math.isnan(parse_time(options.test_from)):
            raise InputError("--test-from", ascii(options.test_from)[:40], A_TIME)
    _check_separator("--separator", options.separator)


def _check_without_like(options: ImportOptions | InteractionsOptions, names: Iterable[str]) -> None:
    """Refuses options beside `--like`, whose run or data decides them."""
    for name in names:
        if options.like is not None and _is_given(options, name):
            found = f"--like {options.like} as well"
            raise InputError(_given_flag(options, name), found, "one of the two")


def _check_at_least(options: ImportOptions | InteractionsOptions, name: str, least: int) -> None:
    """Refuses a number that is too low; None is no number."""
    value = getattr(options, name)
    if value is not None and value < least:
        raise InputError(_given_flag(options, name), f"{value}", f"{least} or more")


def _check_items(options: ImportOptions) -> None:
    """Refuses options that say nothing to items, and what separates none."""
    if not options.same_items:
        if _is_given(options, "item_separator"):
            raise InputError("--item-separator", "no --same-items", "lists of items")
        return
    if options.like is not None:
        raise InputError("--same-items", "--like as well", "--like alone, which knows its items")
    for name in (*_TEXT_OPTIONS, "min_label_count", "label_names"):
        if _is_given(options, name):
            found = f"{_given_flag(options, name)} as well"
            raise InputError("--same-items", found, "one of the two")
    _check_separator("--item-separator", options.item_separator, or_space=True)


def _check_separator(flag: str, mark: str, *, or_space: bool = False) -> None:
    """Refuses what cannot stand between the items of a text."""
    if or_space and mark == " ":
        return
    if len(mark) != 1 or mark.isspace() or mark.isalnum():
        expected = "one character such as , ; or |" + (", or a space" if or_space else "")
        raise InputError(flag, repr(mark), expected)


def _check_draws(options: ImportOptions | InteractionsOptions) -> None:
    """Refuses a folder that is there, and a share of test points that cannot be drawn."""
    check_new("--out", options.out)
    if not 0 <= options.test_fraction < 1:
        raise InputError("--test-fraction", f"{options.test_fraction}", "0 to below 1")
    if options.seed < 0:
        raise InputError("--seed", f"{options.seed}", "0 or more")


def _check_given(options: ImportOptions | InteractionsOptions) -> None:
    """Refuses a command without a file."""
    if not options.source:
        expected = "one or more, ahead of the options, which may take several values"
        raise InputError("FILE", "none", expected)


def _check_files(options: ImportOptions) -> None:
    """Refuses files that cannot be read or written, or not together."""
    _check_given(options)
    of_points = (*options.source, *options.test, options.label_file, options.test_label_file)
    for path in (*of_points, options.label_names):
        if path is not None:
            expected = "a file of points" if path in of_points else "the texts of labels"
            check_is_file(path, expected)
    if options.label_name_field is not None and options.label_names is None:
        raise InputError("--label-name-field", "no --label-names", "the file that has it")
    if options.test_fraction and options.test:
        raise InputError("--test-fraction", "--test as well", "one of the two")
    if options.test_label_file is not None and not options.test:
        raise InputError("--test-label-file", "no --test", "the test points that it labels")


def _check_numbers(options: ImportOptions) -> None:
    """Refuses numbers out of range."""
    for name in ("features", "min_points", "min_label_count"):
        _check_at_least(options, name, 1)
    if (options.features or 0) > MAX_IDS:
        raise InputError("--features", f"{options.features}", f"at most {MAX_IDS}")
    if not 0 < options.max_share <= 1:
        raise InputError("--max-share", f"{options.max_share}", "above 0, up to 1")
    first, last = options.ngrams
    if not 1 <= first <= last:
        raise InputError("--ngrams", f"{first} {last}", "the shortest and the longest, from 1")


def _check_texts(options: ImportOptions) -> None:
    """Refuses options of texts that cannot be used."""
    from snm.data.vectorizer import CLASSES, refuse_pattern  # imports NumPy

    if options.label_separator == "":
        raise InputError("--label-separator", "an empty text", "one character or more")
    for name in ("stop_words", "token_pattern"):
        if getattr(options, name) is not None and options.analyzer != "word":
            found = f"--analyzer {options.analyzer}"
            raise InputError(flag_of(name), found, "--analyzer word: characters have none")
    if options.token_pattern is not None:
        refuse_pattern(options.token_pattern)
    if CLASSES.get(options.vectorizer, options.vectorizer) == "hashing":
        for name in ("min_points", "max_share"):
            if _is_given(options, name):
                found = f"--vectorizer {options.vectorizer}"
                expected = "counts or tfidf: hashing keeps all words"
                raise InputError(_given_flag(options, name), found, expected)


def check_format(options: ImportOptions, form: str) -> None:
    """Refuses what points of this format have no use for.

    Args:
      options: of the import.
      form: a key of `READERS`.

    Raises:
      InputError: an option that would be ignored, or test points without their label file.
    """
    reader = READERS[form]
    for files in (options.source, options.test):
        if reader.label_file and len(files) > 1:
            found = f"{len(files):,} files of texts ({form})"
            expected = "one, which `cat` makes of several, and one of labels"
            raise InputError(display_names(files), found, expected)
    if reader.label_file and options.test and options.test_label_file is None:
        expected = "a file with the labels of --test, one line a text"
        raise InputError("--test-label-file", "none", expected)
    for used, names, found, expected in (
        (reader.label_file, ("label_file", "test_label_file"), "a file that holds its labels",
         "--format raw, or --label-names for the texts of labels"),
        (reader.fields, ("text", "labels", "weight_column"), "points without fields",
         "CSV, JSON lines or Parquet"),
        (reader.separated, ("label_separator",), "labels that are apart already",
         "CSV or raw text"),
        (not reader.entries, ("item_separator",), "features", "lists of items"),
        (not reader.entries, _TEXT_OPTIONS, "features", "texts"),
    ):  # fmt: skip
        for name in names:
            if not used and _is_given(options, name):
                raise InputError(_given_flag(options, name), f"{found} ({form})", expected)


def _is_given(options: object, name: str) -> bool:
    """Whether an option is not the default."""
    return bool(getattr(options, name) != getattr(type(options), name))


def _given_flag(options: object, name: str) -> str:
    """The option as it was given."""
    return flag_of(f"no_{name}" if getattr(options, name) is False else name)
