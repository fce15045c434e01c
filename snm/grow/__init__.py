"""`snm grow`: adds labels to a trained model.

Public names: `rows.new_rows`, `rows.bias_of`, `rows.grow_state`, `name_rows.rows_of_names`,
`grown_memory.grown_memory`, `run.write_grown`.
"""
