"""A log of users and items, and what each user came to, by brute force."""

import csv

import numpy as np


def log(users=80, items=30, count=600, seed=0):
    """Rows user, item, time in no order; users come back to some items."""
    rng = np.random.default_rng(seed)
    times = rng.permutation(count)
    pairs = zip(
        rng.integers(users, size=count), rng.integers(items, size=count), times, strict=True
    )
    return [(f"u{user}", f"Item {item}", float(time)) for user, item, time in pairs]


def write_csv(path, rows, header=("user", "item", "when")):
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([header, *rows])
    return path


def by_hand(rows, min_users=1):
    """The items of each user in the order of time, each once."""
    found = {user: [] for user, _, _ in rows}
    for user, item, _ in sorted(rows, key=lambda row: row[2]):
        if item not in found[user]:
            found[user].append(item)
    users_of = {item: sum(item in items for items in found.values()) for _, item, _ in rows}
    return {
        user: [item for item in items if users_of[item] >= min_users]
        for user, items in found.items()
    }
