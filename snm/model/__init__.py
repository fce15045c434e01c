"""The two-layer model: encoder and head, its training step, and top-k labels of queries.

Public names: `model.Model`, `model.TrainState`, `model.init_state`; `train_step.train_step`;
`inference.best_labels`; `from_config.make_model`; `placement` on a mesh.
"""
