"""The machine that a process runs on, and how XLA compiles for it.

Public names: `cores.num_cores`, `cores.on_all_cores`, `cores.share_of_core`, `cores.xla_threads`,
`memory.peak_memory`, `memory.resident_memory`, `memory.available_memory`, `platform.platform`,
`platform.compiling_for`, `compiler.step_options`, `compiler.answer_options`,
`sorting.stable_order`, `xla_flags.set_flags`, `versions.surroundings`, `versions.machine`,
`versions.versions`.
"""
