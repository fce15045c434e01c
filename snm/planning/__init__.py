"""What a run will need, before it starts: memory by part and stage, time of an epoch, remedies.

Public names: `forecast.forecast`, `fit_check.room`, `fit_check.refuse_what_cannot_fit`,
`remedies.ways_to_fit`.
"""
