"""`snm bounds`: evaluates generalization bounds for a trained run.

Public names: `measure.measure_margins`, `measure.bounds_of_run`, `measure.Sample`,
`measure.sampled_vartheta`.
"""
