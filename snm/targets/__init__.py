"""Compiles programs for absent accelerators, and analyses the compiled text.

Public names: `table.TARGETS`, `table.find_target`, `devices.make_devices`, `programs.compile_run`,
`report.plan_target`, `module.Module`, `account.account`.
"""
