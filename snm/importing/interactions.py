"""`snm data interactions`, and the same in Python."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from tyro.conf import Positional, arg

from snm.errors import InputError, counted

if TYPE_CHECKING:
    from snm.data.conversion.interactions import Histories, UserPoints
    from snm.data.vectorizer import Vectorizer

__all__ = ["Interactions", "import_interactions"]

_COLUMN = "items"  # of a file of points to label


@dataclasses.dataclass
class Interactions:
    """Convert interactions of users with items to a data set for recommendations.

    The file is CSV or JSON lines, with a user and an item a row. A point is a user: its labels are
    the items that the user came to last, its features those before. Features and labels are the
    same items, and `snm train` learns to predict items that the user does not have yet. An item
    that comes again counts once. Later, `snm predict` takes lists of items.

    For example:

      snm data interactions ratings.csv --out data/movies --user userId --item movieId --time timestamp --test-fraction 0.1
      snm data interactions clicks.jsonl --out data/clicks --leave-last 1
      snm train data/movies --run-dir runs/movies
      snm predict runs/movies --text "1,260,1196" --k 10
      snm data interactions june.csv --out data/june --like runs/movies --user userId --item movieId
    """  # noqa: E501

    source: Annotated[Positional[Path], arg(metavar="FILE")]
    """Interactions; may be a .gz file."""
    out: Path
    """Folder to create; must not exist."""
    user: str = "user"
    """Column or field with the user."""
    item: str = "item"
    """Column or field with the item."""
    time: str | None = None
    """Column or field with the time: numbers, or dates such as 2024-05-31T12:00; by default, rows
    are in the order of time."""
    test_fraction: float = 0.0
    """Share of the users to draw at random as test points."""
    leave_last: int = 0
    """Instead of --test-fraction, every user is a test point too, whose labels are so many of their
    last items; the training point has the items before these alone."""
    label_share: float = 0.2
    """Share of a user's items that are labels; at least one is."""
    min_users: int = 1
    """Minimum number of users of an item; rarer items are left out."""
    separator: str = ","
    """Separator of items in a text that lists some."""
    like: str | None = None
    """Folder of a run, or a data set: take its items and their ids, so that the run can be
    evaluated on the new log; other items are left out."""
    seed: int = 0
    """Random seed of --test-fraction."""

    def __call__(self) -> None:
        """Runs the verb."""
        _run(self)


def _check(command: Interactions) -> None:
    """Refuses options that cannot be used, before the file is read."""
    from snm.importing.checks import (
        check_at_least,
        check_draws,
        check_separator,
        check_without_like,
    )

    check_draws(command)
    if not 0 < command.label_share < 1:
        raise InputError("--label-share", f"{command.label_share}", "above 0, below 1")
    for name, least in (("leave_last", 0), ("min_users", 1)):
        check_at_least(command, name, least)
    check_without_like(command, ("min_users", "separator"))
    if command.leave_last and command.test_fraction:
        raise InputError("--leave-last", "--test-fraction as well", "one of the two")
    check_separator("--separator", command.separator)


class _Made(NamedTuple):
    """What a log became.

    Attributes:
      histories: of all users.
      train: the training points.
      test: the test points, where some were asked for.
      hints: lines on what the log looks like.
    """

    histories: Histories
    train: UserPoints
    test: UserPoints | None
    hints: list[str]

    @property
    def tests(self) -> int:
        """The number of test points."""
        return 0 if self.test is None else len(self.test.users)


def import_interactions(
    source: str | Path,
    out: str | Path,
    *,
    user: str = "user",
    item: str = "item",
    time: str | None = None,
    test_fraction: float = 0.0,
    leave_last: int = 0,
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
      source: CSV or JSON lines, with a user and an item a row; may be a .gz file.
      out: folder to create; must not exist.
      user: column or field with the user.
      item: column or field with the item.
      time: column or field with the time, numbers or ISO dates; None takes the rows to be in order.
      test_fraction: share of the users to draw at random as test points, 0 to below 1.
      leave_last: in place of `test_fraction`, every user is a test point too, whose labels are so
        many of their last items; the training point has the items before these alone.
      label_share: share of a user's items that are labels, above 0 and below 1; at least one is.
      min_users: minimum number of users of an item; rarer items are left out.
      separator: of items in a text that lists some.
      like: a run or a data set, whose items and ids are taken; other items are left out.
      seed: of `test_fraction`.

    Returns:
      `train_points`, `test_points` and `items`, their numbers; and `notes`, lines on what was left
      out, and on rows that do not look as if they were in the order of time.

    Raises:
      InputError: files or arguments that cannot be used; then no folder is left.
    """
    command = Interactions(
        source=Path(source),
        out=Path(out),
        user=user,
        item=item,
        time=time,
        test_fraction=test_fraction,
        leave_last=leave_last,
        label_share=label_share,
        min_users=min_users,
        separator=separator,
        like=None if like is None else str(like),
        seed=seed,
    )
    made = _make(command, lambda doing: contextlib.nullcontext())
    return {
        "train_points": len(made.train.users),
        "test_points": made.tests,
        "items": len(made.histories.items),
        "notes": list(_notes(command, made)),
    }


def _run(command: Interactions) -> None:
    """Creates the folder and says what is in it.

    Raises:
      InputError: as `_make`.
    """
    from snm.system.terminal import say, waiting

    for line in _said(command, _make(command, waiting)):
        say(line)


def _make(command: Interactions, telling: Callable[[str], AbstractContextManager[None]]) -> _Made:
    """Creates the folder.

    Args:
      command: the options.
      telling: tells what is done, during a block.

    Raises:
      InputError: files or options that cannot be used; then no folder is left.
    """
    from snm.data.conversion.interactions import Histories
    from snm.data.conversion.items import items_as_text
    from snm.data.formats.text_writer import write_text
    from snm.data.names import Spellings
    from snm.importing.log_rows import interactions_of
    from snm.importing.log_times import Disorder
    from snm.system import disk
    from snm.system.files import atomic_folder

    _check(command)
    like = None if command.like is None else _items_of(command.like)
    known, spellings = None if like is None else like.vocabulary, Spellings()
    disorder = Disorder((command.user, command.item))
    with telling(f"reading {command.source}"):
        rows = interactions_of(command, known or (), spellings, disorder)
        histories = Histories.of(rows, min_users=command.min_users, known=known)
        train, test = _parts(command, histories)
    if not len(train.users):
        least = 2 + command.leave_last
        expected = f"one with {least} different items (see --user, --item and --min-users)"
        raise InputError(str(command.source), "no user to train on", expected)
    with atomic_folder("--out", command.out) as folder, telling(f"writing {command.out}"):
        for name, points in (("train", train), ("test", test)):
            if points is not None and len(points.users):
                write_text(folder / f"{name}.txt", points.features, points.labels)
                users = "".join(f"{histories.users[user]}\n" for user in points.users)
                disk.write(folder / f"{name}_rows.txt", users.encode())
        disk.write(folder / "labels.txt", "".join(f"{i}\n" for i in histories.items).encode())
        texts = like or items_as_text(histories.items, command.separator, (_COLUMN,))
        texts.write(folder / "vectorizer.json")
    hints = (spellings.joined("item"), disorder.hint)
    return _Made(histories, train, test, [hint for hint in hints if hint])


def _items_of(like: str) -> Vectorizer:
    """How lists of items become features in a run, or a data set, of interactions.

    Raises:
      InputError: it is neither.
    """
    from snm.importing.features import ids_of

    ids = ids_of(like)
    if ids.vectorizer.vocabulary != ids.names:
        found, expected = "features that are not the labels", "one of `snm data interactions`"
        raise InputError(f"--like {like}", found, expected)
    return ids.vectorizer


def _parts(command: Interactions, histories: Histories) -> tuple[UserPoints, UserPoints | None]:
    """The training points, and the test points where some are asked for."""
    import numpy as np

    from snm.data.conversion.interactions import points_of_users

    every, share = np.arange(len(histories.users)), command.label_share
    if last := command.leave_last:
        train = points_of_users(histories, every, share=share, skip=last)
        return train, points_of_users(histories, every, share=share, last=last)
    if not command.test_fraction:
        return points_of_users(histories, every, share=share), None
    drawn = np.random.default_rng(command.seed).random(len(every)) < command.test_fraction
    train = points_of_users(histories, every[~drawn], share=share)
    return train, points_of_users(histories, every[drawn], share=share)


def _said(command: Interactions, made: _Made) -> Iterator[str]:
    """Sizes, what is odd, and the next command."""
    items = made.histories.items
    yield (
        f"{len(made.train.users):,} training and {counted(made.tests, 'test point')} (users), "
        f"{counted(len(items), 'item')} in {command.out}"
    )
    yield from _notes(command, made)
    if command.like is not None:
        run = "RUN" if not (Path(command.like) / "config.toml").is_file() else command.like
        yield f"next: snm evaluate {shlex.quote(run)} --data {shlex.quote(str(command.out))}"
        return
    if not made.tests:
        yield "there are no test points to evaluate on: --test-fraction or --leave-last makes some"
    yield f"next: snm train {shlex.quote(str(command.out))} --run-dir RUN"
    some = command.separator.join(items[:2])
    yield f"then: snm predict RUN --text {shlex.quote(some)}, which lists the items of a user"


def _notes(command: Interactions, made: _Made) -> Iterator[str]:
    """The hints, and what was left out."""
    histories = made.histories
    yield from made.hints
    if histories.repeats:
        what = counted(histories.repeats, "interaction")
        yield f"{what} with an item that the user had come to before: left out"
    if histories.others:
        which = f"of fewer than {counted(command.min_users, 'user')}"
        if command.like is not None:
            which = f"that {command.like} lacks"
        yield f"{counted(histories.others, 'item')} {which}: left out"
    used = len(made.train.users) + (0 if command.leave_last else made.tests)
    if few := len(histories.users) - used:
        where = "training point" if command.leave_last else "training or test point"
        yield f"{counted(few, 'user')} of fewer than {2 + command.leave_last} items: in no {where}"
