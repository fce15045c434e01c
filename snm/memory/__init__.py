"""The labels of a point's nearest training points, added to the scores of its labels.

Public names, by module:

- `neighbors`: `nearest`: exact nearest points by cosine of sparse features; `Stored`: a search that
  reads a bounded number of entries, which answers use; `unit_rows`.
- `row_tops`: `tops_of_rows`: the highest values of each row of a sparse matrix.
- `memory`: `Memory`, `MemorySettings`, `Witness`: stored points, the votes of a point's neighbours,
  and who voted for a label.
- `sizes`: `FEWEST_POINTS` that a memory takes.
- `gain`: `gain_of`: the `Gain` of answers over others on the same points, and whether it is sure.
- `choose`: `choose`, of `Answered` and `Voters`: the `Choice` of settings on held-out points, whose
  `Tried.pays` says whether a memory is worth having; `are_in`: which labels a sparse matrix has.
- `adjustment`: `shifts_of`, `save_shifts`, `load_shifts`: lower scores for frequent
  labels, chosen on the same points.
- `label_names`: `try_names`: whether label names are worth training on.
- `merge`: `merged`: a memory with further points.
- `store`: `save_memory`, `load_memory`: one file of a run.

Nothing is re-exported here.
"""
