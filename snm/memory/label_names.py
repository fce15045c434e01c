"""Whether label names are worth training on, estimated by nearest neighbours before training.

A label's name can be a training point of its own: its words are the features, and the label is its
only one. That helps where points speak of a label in the words of its name, most of all rare
labels. It only adds noise where names are codes, or mean something else than the words say. The
nearest neighbours of held-out points tell which it is, in a second: they vote with and without the
names among them.
"""

from __future__ import annotations

import numpy as np

from snm.data.csr import are_entries, top_k_of_pairs
from snm.data.dataset import Points
from snm.data.weighting import Weighting
from snm.memory.gain import Gain, measure_gain
from snm.memory.memory import votes
from snm.memory.neighbors import Neighbors, nearest, unit_rows

__all__ = ["try_names"]

_MAX_HELD_OUT, _HELD_OUT_SHARE = 2000, 0.1  # held-out points: a tenth, at most 2000
_MAX_STORED = 100_000  # other points among which neighbours are searched
_NEIGHBORS, _POWER = 50, 2.0
_KS = (1, 3, 5)


def try_names(points: Points, names: Points, weighting: Weighting) -> Gain | None:
    """Lets nearest neighbours answer for a tenth of the points, with label names and without.

    Neighbours are those of highest cosine of weighted features; 50 of them vote, each with its
    squared cosine (as a memory of power 2 and feature share 1).

    Args:
      points: n training points.
      names: the points made of label names, with the same features and labels.
      weighting: of features, fitted on the points.

    Returns:
      The gain of the names; None if fewer than two points could be held out.
    """
    rng = np.random.default_rng(0)
    order = rng.permutation(points.num_points)
    count = min(_MAX_HELD_OUT, int(_HELD_OUT_SHARE * points.num_points))
    held = points.take(points.labelled(np.sort(order[:count])))
    stored = points.take(points.labelled(np.sort(order[count : count + _MAX_STORED])))
    if held.num_points < 2 or not stored.num_points:
        return None
    if (left := points.num_points - count) > _MAX_STORED:  # keep the ratio of names to points
        some = rng.permutation(names.num_points)[: -(-names.num_points * _MAX_STORED // left)]
        names = names.take(np.sort(some))
    queries = unit_rows(weighting.apply(held.features))
    alone, others = (
        nearest(queries, unit_rows(weighting.apply(part.features)).T.tocsr(), _NEIGHBORS)
        for part in (stored, names)
    )
    both = stored.concatenate(names)
    ids = np.where(others.ids >= 0, others.ids + np.int32(stored.num_points), -1)
    together = Neighbors(*map(np.hstack, ((alone.ids, ids), (alone.cosines, others.cosines))))
    hits = []
    for neighbors in (alone, together):
        voted = votes(neighbors, both.labels, _NEIGHBORS, _POWER)
        best, _ = top_k_of_pairs(voted, voted.data, max(_KS), -np.inf)
        hits.append(are_entries(best, held.labels))
    base, with_names = hits
    return measure_gain(base, with_names, _KS)
