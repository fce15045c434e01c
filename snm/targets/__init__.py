"""Programs compiled for accelerators that are not here, and what their compiled text tells.

Public names: `table.TARGETS`, `table.find_target`, `devices.devices_of`, `programs.compile_run`,
`module.Module`, `account.account`.
"""
