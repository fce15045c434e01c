"""Utilities independent of machine learning: files, fields, locks, signals, timing, terminal.

Public names: `cache_folder.cache_folder`, `compilation_cache.enable_compilation_cache`,
`checksums.fingerprint`, `checksums.read_sealed`, `checksums.write_sealed`, `faults.describe_error`,
`field_checks.check_choices`, `field_checks.check_types`, `files.atomic_folder`,
`files.write_atomic`, `locks.locked`, `signals.stop_requested`, `terminal.console`, `terminal.say`,
`timing.part`, `timing.times`.
"""
