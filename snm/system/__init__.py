"""Utilities that know nothing of machine learning: files, locks, signals, timing, terminal.

Public names: `cache_folder.folder`, `cache_folder.keep_programs`, `checksums.fingerprint`,
`checksums.read_sealed`, `checksums.write_sealed`, `faults.reason_of`, `files.made_whole`,
`files.write_whole`, `locks.locked`, `signals.stop_wished`, `terminal.console`, `terminal.say`,
`timing.part`, `timing.times`.
"""
