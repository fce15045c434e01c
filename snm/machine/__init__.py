"""The machine that a process runs on, and how XLA compiles for it.

Public names: `cores.num_cores`, `cores.on_all_cores`, `cores.share_of_core`, `cores.xla_threads`,
`ram.peak_ram`, `ram.resident_ram`, `ram.available_ram`, `platform.platform`,
`platform.compiling_for`, `compiler.step_options`, `compiler.answer_options`,
`sorting.stable_order`, `xla_flags.set_flags`, `versions.surroundings`, `versions.machine`,
`versions.versions`.
"""
