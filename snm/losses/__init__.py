"""Losses of scores: surrogates, ordered weighted losses, softmax, listwise, rank weights.

Public names, by module:

- `ordered`: `powl`, `bowl` and their sampled forms; `crammer_singer`, `top_k_loss`, ...
- `softmax`: `softmax`, `sampled_softmax`, `decoupled_softmax`.
- `listwise`: `listnet`, `listmle`, `rankcosine`, `smoothed_dcg`, `ranksvm`.
- `transformations`: `TRANSFORMATIONS`, the score transformations of the first three, by name.
- `surrogates`: `SURROGATES`, the surrogates phi by name.
- `rank_weights`: `top`, `power_law`, `epsilon_tail`.
- `theta`: the weights of the full loss that a sampled loss estimates.
- `sampled`: the same losses as objects for the classification head, in the table `LOSSES`.
- `reductions`: masking, ranking and reducing, shared by all losses.

Nothing is re-exported here: `softmax` and `listwise` are modules.
"""
