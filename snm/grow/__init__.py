"""`snm grow`: adds labels to a trained model.

Public names: `rows.new_rows`, `rows.predict_biases`, `rows.grow_state`,
`name_rows.predict_rows_from_names`, `grown_memory.grown_memory`, `run.write_grown`.
"""
