"""Candidates: the labels that answers are chosen from, for all points or for each point.

The cost of a prediction grows with the number of candidates, not with K. Candidates for all points
are scored by a matrix product with their class rows; candidates for each point are scored as
(point, label) pairs.

Public names: `parse.parse_candidates`, `parse.ids_of_labels`; `excluded.Excluded`, without some
labels; `own.top_of_candidates`, if each point has its own; `columns`, candidates in matrices.
"""
