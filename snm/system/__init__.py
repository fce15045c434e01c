"""Utilities independent of machine learning: files, locks, fields, signals, timing, terminal.

Public names: `compilation_cache.enable_compilation_cache`, `faults.describe_error`,
`field_checks.check_choices`, `field_checks.check_types`, `signals.stop_requested`,
`terminal.console`, `terminal.say`, `timing.part`, `timing.times`; and those of `files`.
"""
