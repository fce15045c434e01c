"""The classification head: Algorithm 1 of Reddi et al. (2019), from scores to row updates.

Public names: `spec.HeadSpec`, `state.Head`, `state.HeadBatch`, `state.init_head`,
`head.update_head`, all of which `snm` exports. A step goes through the modules in this order:
`problem` (what is compared with what); `plan` (which way costs least); `gradients`, which mines by
order (`mining`) or by threshold (`by_threshold`) and takes the loss; then `by_pairs` or `by_blocks`
(row updates).
"""
