"""Training points as padded batches, streamed from the host or kept on the device.

Public names: `item_splits.add_splits`, further points of a recommender; `batch.Batch`, what a step
trains on; `sources`, what makes batches; `epoch_order.Order`; `csr_blocks.make_block`;
`dispatches.dispatch_length`, `dispatches.split_into_dispatches` and `dispatches.SaveTimes`, when a
run saves.
"""
