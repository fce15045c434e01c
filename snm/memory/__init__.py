"""The labels of a point's nearest training points, added to the scores of its labels.

Public names, by module:

- `neighbors`: `nearest`: exact nearest points by cosine of sparse features; `StoredPoints`: a
  search that reads a bounded number of entries, which answers use; `unit_rows`.
- `row_top_k`: `top_k_of_rows`: the highest values of each row of a sparse matrix.
- `memory`: `Memory`, `MemorySettings`, `Witness`: stored points, the votes of a point's neighbours,
  and the voters for a label.
- `gain`: `measure_gain`: the `Gain` of answers over others on the same points, and whether it is
  significant.
- `choose`: `choose`, of `ModelAnswers` and `Voters`: the `Choice` of settings on held-out points,
  whose `SettingsGain.pays` says whether a memory is worth having.
- `adjustment`: `label_shifts`, `save_shifts`, `load_shifts`: lower scores for frequent
  labels, chosen on the same points.
- `label_names`: `try_names`: whether label names are worth training on.
- `merge`: `merge_memories`: a memory with further points.
- `store`: `save_memory`, `load_memory`: one file of a run.

Nothing is re-exported here.
"""
