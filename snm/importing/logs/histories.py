"""Makes points of users from interactions with items; features and labels are the same items.

The labels of a user are the last items that the user interacted with, the features are the items
before. A repeated item counts once, at its first time.
"""

from __future__ import annotations

import dataclasses
import math
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.csr import csr_of_ones, row_starts

__all__ = ["Histories", "Interaction", "UserPoints", "points_of_users"]


class Interaction(NamedTuple):
    """An interaction of a user with an item.

    Attributes:
      user: name.
      item: name.
      time: a number that increases with time; interactions of equal time keep their order.
    """

    user: str
    item: str
    time: float


@dataclasses.dataclass(frozen=True, eq=False)
class Histories:
    """The items of each user, ordered by time, each item once.

    Attributes:
      users: U names, in order of first occurrence.
      items: K names, sorted; or the known items in their order.
      starts: int64 [U + 1]; user u has the entries from `starts[u]` to `starts[u + 1]`.
      entries: int32 [m], items.
      later: int64 [U], number of a user's entries, the last ones, whose time is `since` or later.
      repeats: number of repeated interactions of a user with an item, which are dropped.
      others: number of items that were dropped, because they have few users or are not known.
    """

    users: tuple[str, ...]
    items: tuple[str, ...]
    starts: NDArray[np.int64]
    entries: NDArray[np.int32]
    later: NDArray[np.int64]
    repeats: int = 0
    others: int = 0

    @classmethod
    def of(
        cls,
        interactions: Iterable[Interaction],
        *,
        min_users: int = 1,
        known: Sequence[str] | None = None,
        since: float = math.inf,
    ) -> Histories:
        """Collects interactions in any order; needs 16 bytes of memory for each, and the names.

        Args:
          interactions: of all users.
          min_users: smallest number of users of an item that is kept.
          known: the items to keep, in the order of their ids; None keeps all.
          since: the time that `later` counts from.
        """
        users, items = dict[str, int](), dict[str, int]()
        user_ids, item_ids, times = array("i"), array("i"), array("d")
        for interaction in interactions:
            user_ids.append(users.setdefault(interaction.user, len(users)))
            item_ids.append(items.setdefault(interaction.item, len(items)))
            times.append(interaction.time)
        user, entry = np.asarray(user_ids, np.int32), np.asarray(item_ids, np.int32)
        time = np.asarray(times, np.float64)
        order = np.lexsort((time, user))  # stable
        user, entry, is_late = user[order], entry[order], time[order] >= since
        _, first = np.unique(user.astype(np.int64) * len(items) + entry, return_index=True)
        first.sort()
        user, entry, is_late = user[first], entry[first], is_late[first]
        frequent = np.bincount(entry, minlength=len(items)) >= min_users
        if known is None:
            known = sorted(name for name, item in items.items() if frequent[item])
        ids = {name: number for number, name in enumerate(known)}
        new_ids = np.array([ids.get(name, -1) for name in items], np.int32)
        kept = new_ids[entry] >= 0
        user, entry, is_late = user[kept], new_ids[entry[kept]], is_late[kept]
        starts = row_starts(np.bincount(user, minlength=len(users)))
        return cls(
            tuple(users), tuple(known), starts, entry,
            later=np.bincount(user[is_late], minlength=len(users)),
            repeats=len(order) - len(first), others=int(np.count_nonzero(new_ids < 0)),
        )  # fmt: skip


class UserPoints(NamedTuple):
    """Points of some users.

    Attributes:
      users: int64 [n], which users.
      features: float32 CSR [n, K] of ones, their earlier items.
      labels: float32 CSR [n, K] of ones, their later items.
    """

    users: NDArray[np.int64]
    features: csr_matrix
    labels: csr_matrix


def points_of_users(
    histories: Histories,
    users: NDArray[np.int64],
    *,
    share: float,
    last: NDArray[np.int64] | None = None,
    skip: NDArray[np.int64] | None = None,
) -> UserPoints:
    """Splits users' histories into features and labels; users with too few items are skipped.

    Args:
      histories: of all users.
      users: int64 [n], ascending, the users to make points of.
      share: fraction of a user's items that are labels; at least one item is a label, and one a
        feature.
      last: int64 [n], above 0, the exact numbers of labels, instead of `share`.
      skip: int64 [n], the numbers of users' last items to ignore; None ignores none.
    """
    starts = histories.starts[users]
    counts = histories.starts[users + 1] - starts
    if skip is not None:
        counts -= skip
    labels = last
    if labels is None:
        labels = np.minimum(np.maximum(1, np.rint(share * counts)), counts - 1).astype(np.int64)
    enough = counts > np.maximum(labels, 1)
    users, starts = users[enough], starts[enough]
    counts, labels = counts[enough], labels[enough]
    width = len(histories.items)
    return UserPoints(
        users,
        _rows(histories.entries, starts, counts - labels, width),
        _rows(histories.entries, starts + counts - labels, labels, width),
    )


def _rows(
    entries: NDArray[np.int32], starts: NDArray[np.int64], counts: NDArray[np.int64], width: int
) -> csr_matrix:
    """CSR of ones; row i has the entries `starts[i]` to `starts[i] + counts[i] - 1`."""
    indptr = row_starts(counts)
    places = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], counts)
    matrix = csr_of_ones(entries[places], indptr, (len(starts), width))
    matrix.sort_indices()
    return matrix
