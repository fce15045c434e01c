"""Training points as padded batches, streamed from the host or kept on the device."""
