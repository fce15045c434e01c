"""Utilities that know nothing of machine learning: files, locks, signals, cores, terminal.

Public names: `cache_folder.folder`, `cache_folder.keep_programs`, `compiler.step_options`,
`compiler.answer_options`, `cores.num_cores`, `cores.on_all_cores`, `cores.share_of_core`,
`files.made_whole`, `files.write_whole`, `locks.locked`, `memory.peak_memory`,
`memory.resident_memory`, `memory.available_memory`, `platform.platform`,
`platform.compiling_for`, `signals.stop_wished`, `terminal.console`, `terminal.say`,
`versions.surroundings`, `versions.machine`, `versions.versions`.
"""
