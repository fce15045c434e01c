"""Rows of the training set as padded batches, streamed from the host or resident on the device."""
