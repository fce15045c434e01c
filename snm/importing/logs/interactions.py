"""Makes a data set of a log of interactions, for the command and in Python."""

from __future__ import annotations

import contextlib
import hashlib
import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snm.data.formats.repository_text.writer import write_text
from snm.data.names import Spellings, decimal_variants
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError
from snm.importing.checks import check_interactions
from snm.importing.items import items_as_text
from snm.importing.like import read_like
from snm.importing.logs.histories import Histories, UserPoints, points_of_users
from snm.importing.logs.rows import read_interactions
from snm.importing.logs.times import Disorder, parse_time
from snm.importing.next_steps import next_in_known_ids
from snm.importing.options import InteractionsOptions, display_names
from snm.system.files import disk
from snm.system.files.atomic import atomic_folder
from snm.text import counted

__all__ = ["ImportedLog", "build", "import_interactions", "summary_lines"]

_COLUMN = "items"  # of a file of points to label


class ImportedLog(NamedTuple):
    """What a log became.

    Attributes:
      histories: of all users.
      train: the training points.
      test: the test points.
      hints: lines on what the log looks like.
    """

    histories: Histories
    train: UserPoints
    test: UserPoints
    hints: list[str]


def import_interactions(
    source: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    user: str = "user",
    item: str = "item",
    time: str | None = None,
    test_fraction: float = 0.0,
    leave_last: int = 0,
    test_from: str | float | None = None,
    label_share: float = 0.2,
    min_users: int = 1,
    separator: str = ",",
    like: str | Path | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Converts a log of users and items to a data set for recommendations, as the command does.

    A point is a user: its labels are the items that the user came to last, its features those
    before. `snm.train` takes the folder, and a run of it lists of items in place of features.

    Args:
      source: CSV, JSON lines or Parquet, with a user and an item a row; CSV and JSON lines may be a
        .gz file. Several files are read as one, in their order.
      out: folder to create; must not exist.
      user: column or field with the user.
      item: column or field with the item.
      time: column or field with the time, numbers or ISO dates; None takes the rows to be in order.
      test_fraction: share of the users to draw as test points, about, 0 to below 1. A user's id and
        `seed` decide, so the users of a later log stay in their part.
      leave_last: in place of `test_fraction`, every user is a test point too, whose labels are so
        many of their last items; the training point has the items before these alone.
      test_from: in place of `test_fraction`, a time, a number or an ISO date as in the log. A test
        point has the user's items before it as features and those from it on as labels; a training
        point has the items before it alone.
      label_share: share of a user's items that are labels, above 0 and below 1; at least one is.
      min_users: minimum number of users of an item; rarer items are left out.
      separator: of items in a text that lists some; that of `like`, if there is one.
      like: a run or a data set, whose items and ids are taken; other items are left out.
      seed: of `test_fraction`.

    Returns:
      `train_points`, `test_points` and `items`, their numbers; and `notes`, lines on what was left
      out, and on rows that do not look as if they were in the order of time.

    Raises:
      InputError: files or arguments that cannot be used; then no folder is left.
    """
    options = InteractionsOptions(
        source=tuple(map(Path, [source] if isinstance(source, str | Path) else source)),
        out=Path(out),
        user=user,
        item=item,
        time=time,
        test_fraction=test_fraction,
        leave_last=leave_last,
        test_from=None if test_from is None else str(test_from),
        label_share=label_share,
        min_users=min_users,
        separator=separator,
        like=None if like is None else str(like),
        seed=seed,
    )
    check_interactions(options)
    imported = build(options, lambda doing: contextlib.nullcontext())
    return {
        "train_points": len(imported.train.users),
        "test_points": len(imported.test.users),
        "items": len(imported.histories.items),
        "notes": list(_notes(options, imported)),
    }


def build(
    options: InteractionsOptions, show_activity: Callable[[str], AbstractContextManager[None]]
) -> ImportedLog:
    """Creates the folder.

    Args:
      options: that `check_interactions` passed.
      show_activity: shows what is being done, during a block.

    Raises:
      InputError: a file or `--like` that cannot be used; then no folder is left.
    """
    like = None if options.like is None else _read_items(options.like, options.separator)
    known, spellings = None if like is None else like.vocabulary, Spellings()
    disorder = Disorder((options.user, options.item))
    with show_activity(f"reading {display_names(options.source)}"):
        rows = read_interactions(options, known or (), spellings, disorder)
        since = math.inf if options.test_from is None else parse_time(options.test_from)
        histories = Histories.of(rows, min_users=options.min_users, known=known, since=since)
        train, test = _parts(options, histories)
    if not len(train.users):
        least = 2 + options.leave_last
        items = f"{least} different items{_before(options)}"
        flags = "--user, --item and --min-users"
        if options.test_from is not None:
            flags = f"--test-from, {flags}"
        expected = f"one with {items} (see {flags})"
        raise InputError(display_names(options.source), "no user to train on", expected)
    with atomic_folder("--out", options.out) as folder, show_activity(f"writing {options.out}"):
        for name, points in (("train", train), ("test", test)):
            if len(points.users):
                write_text(folder / f"{name}.txt", points.features, points.labels)
                users = "".join(f"{histories.users[user]}\n" for user in points.users)
                disk.write(folder / f"{name}_rows.txt", users.encode())
        disk.write(folder / "labels.txt", "".join(f"{i}\n" for i in histories.items).encode())
        texts = like or items_as_text(histories.items, options.separator, (_COLUMN,))
        texts.write(folder / "vectorizer.json")
    hints = (
        spellings.joined("item"),
        decimal_variants(histories.items, "item"),
        decimal_variants(histories.users, "user"),
        disorder.hint,
    )
    return ImportedLog(histories, train, test, [hint for hint in hints if hint])


def _read_items(like: str, separator: str) -> Vectorizer:
    """How lists of items become features in a run, or a data set, of interactions.

    Args:
      like: the run or the data set.
      separator: of `--separator`; the default is the one that `like` has.

    Raises:
      InputError: it is neither, or has another separator.
    """
    ids = read_like(like)
    if ids.vectorizer.vocabulary != ids.names:
        found, expected = "features that are not the labels", "one of `snm data interactions`"
        raise InputError(f"--like {like}", found, expected)
    mark = ids.vectorizer.item_separator
    if separator not in (InteractionsOptions.separator, mark):
        raise InputError("--separator", repr(separator), f"{mark!r}, as --like {like} has")
    return ids.vectorizer


def _parts(options: InteractionsOptions, histories: Histories) -> tuple[UserPoints, UserPoints]:
    """The training points and the test points."""
    every, share = np.arange(len(histories.users)), options.label_share
    if options.leave_last or options.test_from is not None:
        held_out = histories.later  # of each user, the last items, for the test point
        if options.leave_last:
            held_out = np.full(len(every), options.leave_last)
        users = np.flatnonzero(held_out)
        return (
            points_of_users(histories, every, share=share, skip=held_out),
            points_of_users(histories, users, share=share, last=held_out[users]),
        )
    drawn = _drawn_users(histories.users, options.test_fraction, options.seed)
    return (
        points_of_users(histories, every[~drawn], share=share),
        points_of_users(histories, every[drawn], share=share),
    )


def _drawn_users(users: Sequence[str], fraction: float, seed: int) -> NDArray[np.bool_]:
    """Draws about this fraction of users by their ids alone: bool [n].

    So a user stays in the same part while the log grows, and with a larger fraction, all users that
    a smaller one draws are drawn too.
    """
    seeded = (hashlib.blake2b(f"{seed}\0{user}".encode(), digest_size=8) for user in users)
    numbers = np.frombuffer(b"".join(state.digest() for state in seeded), "<u8")
    return (numbers >> 11) * 2.0**-53 < fraction  # as random floats of 53 bits are made


def summary_lines(options: InteractionsOptions, imported: ImportedLog) -> Iterator[str]:
    """The lines to print on the data: sizes, what is odd, and the next command."""
    items = imported.histories.items
    yield (
        f"{len(imported.train.users):,} training and "
        f"{counted(len(imported.test.users), 'test point')} (users), "
        f"{counted(len(items), 'item')} in {options.out}"
    )
    yield from _notes(options, imported)
    if options.like is not None:
        yield from next_in_known_ids(Path(options.like), options.out)
        return
    if not len(imported.test.users):
        yield f"there are no test points to evaluate on: {_why_no_test_points(options)}"
    yield f"next: snm train {shlex.quote(str(options.out))} --run-dir RUN"
    some = options.separator.join(items[:2])
    yield f"then: snm predict RUN --text {shlex.quote(some)}, which lists the items of a user"


def _why_no_test_points(options: InteractionsOptions) -> str:
    if options.test_from is not None:
        return f"no user has items before and from {options.test_from} on"
    if options.test_fraction:
        return f"--test-fraction {options.test_fraction:g} drew no user of 2 items"
    return "--test-fraction, --leave-last or --test-from makes some"


def _notes(options: InteractionsOptions, imported: ImportedLog) -> Iterator[str]:
    """The hints, and what was left out."""
    histories = imported.histories
    yield from imported.hints
    if histories.repeats:
        what = counted(histories.repeats, "interaction")
        yield f"{what} with an item that the user had come to before: left out"
    if histories.others:
        which = f"of fewer than {counted(options.min_users, 'user')}"
        if options.like is not None:
            which = f"that {options.like} lacks"
        yield f"{counted(histories.others, 'item')} {which}: left out"
    both = options.leave_last or options.test_from is not None  # parts have the same users
    used = len(imported.train.users) + (0 if both else len(imported.test.users))
    if few := len(histories.users) - used:
        where = "training point" if both else "training or test point"
        items = f"{2 + options.leave_last} items{_before(options)}"
        yield f"{counted(few, 'user')} of fewer than {items}: in no {where}"


def _before(options: InteractionsOptions) -> str:
    return "" if options.test_from is None else f" before {options.test_from}"
