"""The two-layer model: encoder and head, its training step, and inference."""
