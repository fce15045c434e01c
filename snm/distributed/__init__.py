"""Training on several devices and processes.

Public names: `mesh.make_mesh` and `mesh.parse_mesh` (`--mesh`), `collectives.Shard` (communication
inside a step), `processes` (communication between processes outside a step),
`launch.process_group` (start and end of a multi-process run), `dataset.load_together` (each
process's part of the data), `host_copy.host_copy`.
"""
