"""Training and evaluation of a run, from data to result.

Public names: `training.train`, `training.training`, `evaluate_run.evaluate`, which `snm`
exports; `prepare.prepare`; `loop.run_steps`.
"""
