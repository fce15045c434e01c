"""The machine that a process runs on, and options of XLA for it.

Public names: `cores.num_cores`, `cores.on_all_cores`, `cores.xla_threads`, `ram.peak_ram`,
`ram.resident_ram`, `ram.available_ram`, `ram.ram_limit_name`, `ram.check_ulimits`,
`platform.platform`, `platform.compiling_for`, `platform.device_error`, `compiler.step_options`,
`compiler.answer_options`, `xla_flags.set_flags`, `versions.environment_record`,
`versions.machine_record`, `versions.versions`.
"""
