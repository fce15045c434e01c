"""`snm data interactions`."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from snm.errors import InputError, counted

if TYPE_CHECKING:
    from snm.cli.data_verbs.log_times import Disorder
    from snm.data.conversion.interactions import Histories, Interaction, UserPoints
    from snm.data.names import Spellings
    from snm.data.vectorizer import Vectorizer

__all__ = ["Interactions"]

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
    from snm.cli.data_verbs.import_checks import check_draws, check_separator, flag_of, is_given

    check_draws(command)
    if not 0 < command.label_share < 1:
        raise InputError("--label-share", f"{command.label_share}", "above 0, below 1")
    for name, least in (("leave_last", 0), ("min_users", 1)):
        if (value := getattr(command, name)) < least:
            raise InputError(flag_of(command, name), f"{value}", f"{least} or more")
    for name in ("min_users", "separator"):
        if command.like is not None and is_given(command, name):
            found = f"--like {command.like} as well"
            raise InputError(flag_of(command, name), found, "one of the two")
    if command.leave_last and command.test_fraction:
        raise InputError("--leave-last", "--test-fraction as well", "one of the two")
    check_separator("--separator", command.separator)


def _run(command: Interactions) -> None:
    """Creates the folder and says what is in it.

    Raises:
      InputError: files or options that cannot be used; then no folder is left.
    """
    from snm.cli.data_verbs.log_times import Disorder
    from snm.data.conversion.interactions import Histories
    from snm.data.conversion.items import items_as_text
    from snm.data.formats.text_writer import write_text
    from snm.data.names import Spellings
    from snm.system import disk
    from snm.system.files import atomic_folder
    from snm.system.terminal import say, waiting

    _check(command)
    like = None if command.like is None else _items_of(command.like)
    known, spellings = None if like is None else like.vocabulary, Spellings()
    disorder = Disorder((command.user, command.item))
    with waiting(f"reading {command.source}"):
        rows = _interactions(command, known or (), spellings, disorder)
        histories = Histories.of(rows, min_users=command.min_users, known=known)
        train, test = _parts(command, histories)
    if not len(train.users):
        least = 2 + command.leave_last
        expected = f"one with {least} different items (see --user, --item and --min-users)"
        raise InputError(str(command.source), "no user to train on", expected)
    with atomic_folder("--out", command.out) as folder, waiting(f"writing {command.out}"):
        for name, points in (("train", train), ("test", test)):
            if points is not None and len(points.users):
                write_text(folder / f"{name}.txt", points.features, points.labels)
                users = "".join(f"{histories.users[user]}\n" for user in points.users)
                disk.write(folder / f"{name}_rows.txt", users.encode())
        disk.write(folder / "labels.txt", "".join(f"{i}\n" for i in histories.items).encode())
        texts = like or items_as_text(histories.items, command.separator, (_COLUMN,))
        texts.write(folder / "vectorizer.json")
    hints = (spellings.joined("item"), disorder.hint)
    for line in _said(command, histories, train, test, filter(None, hints)):
        say(line)


def _items_of(like: str) -> Vectorizer:
    """How lists of items become features in a run, or a data set, of interactions.

    Raises:
      InputError: it is neither.
    """
    from snm.cli.data_verbs.import_features import ids_of

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


def _said(
    command: Interactions,
    histories: Histories,
    train: UserPoints,
    test: UserPoints | None,
    hints: Iterable[str],
) -> Iterator[str]:
    """Sizes, `hints` and what else is odd, and the next command."""
    tests = 0 if test is None else len(test.users)
    yield (
        f"{len(train.users):,} training and {counted(tests, 'test point')} (users), "
        f"{counted(len(histories.items), 'item')} in {command.out}"
    )
    yield from hints
    if histories.repeats:
        what = counted(histories.repeats, "interaction")
        yield f"{what} with an item that the user had come to before: left out"
    if histories.others:
        which = f"of fewer than {counted(command.min_users, 'user')}"
        if command.like is not None:
            which = f"that {command.like} lacks"
        yield f"{counted(histories.others, 'item')} {which}: left out"
    used = len(train.users) if command.leave_last else len(train.users) + tests
    if few := len(histories.users) - used:
        where = "training point" if command.leave_last else "training or test point"
        yield f"{counted(few, 'user')} of fewer than {2 + command.leave_last} items: in no {where}"
    if command.like is not None:
        run = "RUN" if not (Path(command.like) / "config.toml").is_file() else command.like
        yield f"next: snm evaluate {shlex.quote(run)} --data {shlex.quote(str(command.out))}"
        return
    if not tests:
        yield "there are no test points to evaluate on: --test-fraction or --leave-last makes some"
    yield f"next: snm train {shlex.quote(str(command.out))} --run-dir RUN"
    some = command.separator.join(histories.items[:2])
    yield f"then: snm predict RUN --text {shlex.quote(some)}, which lists the items of a user"


def _interactions(
    command: Interactions, known: Sequence[str], spellings: Spellings, disorder: Disorder
) -> Iterator[Interaction]:
    """The rows of the file.

    Args:
      command: the options.
      known: the items of `--like`.
      spellings: makes the names of items.
      disorder: looks for times, where none are told.

    Raises:
      InputError: a file that cannot be read, or a row without a user, an item or a time.
    """
    from snm.cli.data_verbs.log_times import Times
    from snm.data.conversion.interactions import Interaction
    from snm.data.names import one_line, respelled

    fields = (command.user, command.item) + ((command.time,) if command.time else ())
    time_of, spelled = Times(command.time), respelled(known)
    row = None
    rows = _ROWS[_form_of(command)](command.source, fields, None if command.time else disorder)
    for number, (where, values) in enumerate(rows):
        row = [one_line(values[0]), spellings.name(values[1]), *map(one_line, values[2:])]
        for field, value in zip(fields, row, strict=True):
            if not value:
                raise InputError(where, f"no value of {field!r}", "one in each row")
        if command.like is None and command.separator in row[1]:
            found = f"{command.separator!r} in the item {row[1][:40]!r}"
            raise InputError(where, found, "another --separator, which no item holds")
        time = time_of(where, row[2]) if command.time else number
        yield Interaction(row[0], spelled.get(row[1], row[1]), time)
    if row is None:
        raise InputError(str(command.source), "no interaction", "at least one")


def _form_of(command: Interactions) -> str:
    """The format of the file, a key of `_ROWS`.

    Raises:
      InputError: another format, or a file that cannot be read.
    """
    from snm.data.formats.foreign import detect

    form = detect(command.source, None)
    if form not in _ROWS:
        found = f"no CSV or JSON lines ({form})"
        raise InputError(str(command.source), found, "a user and an item a row")
    return form


_Values = Iterator[tuple[str, list[str]]]
"""The place of each row, and its values of some fields."""


def _of_csv(path: Path, fields: tuple[str, ...], disorder: Disorder | None) -> _Values:
    from snm.data.formats.records import csv_rows, numbered_lines, place_of

    rows = csv_rows(path, numbered_lines(path))
    _, header = next(rows)
    expected = "the columns of --user, --item and --time"
    places = [place_of(path, field, header, expected) for field in fields]
    at = None
    for number, (where, row) in enumerate(rows):
        if disorder is not None:
            if not number:
                name = disorder.choose(dict(zip(header, row, strict=True)))
                at = None if name is None else header.index(name)
            if at is not None:
                disorder.add(row[places[0]], row[at])
        yield where, [row[place] for place in places]


def _of_jsonl(path: Path, fields: tuple[str, ...], disorder: Disorder | None) -> _Values:
    from snm.data.formats.records import json_objects, missing, numbered_lines

    expected = "texts or numbers in the fields of --user, --item and --time"
    name = None
    for number, (where, found) in enumerate(json_objects(path, numbered_lines(path))):
        for field in fields:
            if field not in found:
                raise InputError(where, missing(found, field)[:200], expected)
            if type(found[field]) not in (str, int, float):
                raise InputError(where, f"{field}: {found[field]!r}"[:200], expected)
        if disorder is not None:
            if not number:
                name = disorder.choose({field: str(value) for field, value in found.items()})
            if name is not None:
                disorder.add(str(found[fields[0]]), str(found.get(name)))
        yield where, [str(found[field]) for field in fields]


_ROWS: dict[str, Callable[[Path, tuple[str, ...], Disorder | None], _Values]]
_ROWS = {"csv": _of_csv, "jsonl": _of_jsonl}
