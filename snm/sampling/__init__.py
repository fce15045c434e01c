"""Samplers of negatives, one a file.

Public names: `samplers.SAMPLERS`, by name; `protocol.Sampler`, what a sampler is; `sample.Sample`,
what it draws; `sample.excluded_slots`; `uniform.uniform_host` and `uniform.uniform_device`.
"""
