"""The classification head: Algorithm 1 of Reddi et al. (2019), from scores to row updates.

Public names: `spec.HeadSpec`, `state.Head`, `state.HeadBatch`, `state.init_head`,
`head.update_head`, `top_labels.top_labels`, all of which `snm` exports. A step goes through the
modules in this order: `checks` refuses what does not fit; `step_inputs` collects the inputs; `plan`
chooses the fastest variant; `gradients` mines, by partial sorting (`mining`) or by a threshold
(`by_threshold`), and computes the loss; `by_pairs` or `by_blocks` updates the rows.
"""
