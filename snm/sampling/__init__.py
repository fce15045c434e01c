"""Samplers of negatives, one a file; `samplers` holds them by name, `sample` what they draw."""
