"""The two-layer model: encoder and head, its training step, and inference.

Public names: `model.Model`, `model.TrainState`, `model.init_state`; `train_step.train_step`;
`inference.best_labels`; `predictor.Predictor`; `from_config.make_model`; `placement` on a mesh.
"""
