"""Predicts what a run needs: memory by part and stage, time of an epoch; and remedies.

Public names: `forecast.forecast`, `fit_check.check_memory`, `fit_check.check_fits`,
`remedies.find_remedies`.
"""
