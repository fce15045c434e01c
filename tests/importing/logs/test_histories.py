"""Histories of users, and the points that they become, against brute force."""

import numpy as np
import pytest
from data.logs import by_hand, log

from snm.importing.logs.histories import Histories, Interaction, points_of_users


@pytest.mark.parametrize("min_users", [1, 17])
def test_histories(min_users):
    rows = log()
    found = Histories.of((Interaction(*row) for row in rows), min_users=min_users)
    wanted = by_hand(rows, min_users)
    items = sorted({item for of_user in wanted.values() for item in of_user})
    assert found.items == tuple(items) and found.others == 30 - len(items)
    assert (0 < len(items) < 30) == (min_users > 1)
    assert found.users == tuple(wanted)  # by first occurrence
    for user, start, end in zip(found.users, found.starts, found.starts[1:], strict=False):
        assert [found.items[item] for item in found.entries[start:end]] == wanted[user]
    assert found.repeats == len(rows) - sum(map(len, by_hand(rows).values()))


def test_times_that_are_equal_keep_the_order_of_the_rows():
    rows = [Interaction("a", item, 1.0) for item in "zxy"]
    found = Histories.of(rows)
    assert [found.items[item] for item in found.entries] == ["z", "x", "y"]


@pytest.mark.parametrize(("last", "skip"), [(0, 0), (0, 2), (2, 0), (1, 0)])
def test_points_of_users(last, skip):
    rows = log()
    histories = Histories.of(Interaction(*row) for row in rows)
    users = np.arange(0, len(histories.users), 2)
    last_of, skip_of = (np.full(len(users), number) if number else None for number in (last, skip))
    points = points_of_users(histories, users, share=0.3, last=last_of, skip=skip_of)
    wanted, found = {}, by_hand(rows)
    for user in users:
        items = found[histories.users[user]]
        items = items[: len(items) - skip]
        labels = last or min(len(items) - 1, max(1, round(0.3 * len(items))))
        if len(items) > max(labels, 1):
            wanted[user] = items[:-labels], items[-labels:]
    assert points.users.tolist() == list(wanted)
    for row, parts in enumerate(wanted.values()):
        for matrix, items in zip((points.features, points.labels), parts, strict=True):
            assert [histories.items[i] for i in matrix[row].indices] == sorted(items)
            assert (matrix[row].data == 1).all()
