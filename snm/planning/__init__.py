"""Predicts what a run needs: memory by part and stage, time of an epoch; and remedies.

Public names: `forecast.forecast`, `forecast.count_parameters`; `fit_check.check_memory`,
`fit_check.check_fits`, `fit_check.check_disk`, `fit_check.compare_memory`,
`fit_check.device_memory`, `fit_check.simulate_devices`; `bytes_by_stage.Forecast`;
`programs.seconds_per_step`; `byte_sizes.parse_bytes`; `remedies.find_remedies`.
"""
