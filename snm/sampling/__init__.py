"""Which labels a batch is scored against: one file a sampler, and the draw that they share."""
