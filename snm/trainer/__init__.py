"""Training and evaluation of a run, from data to result.

Public names: `training.train`, `training.training`, `evaluate_run.evaluate`, which `snm`
exports; `start.prepare.prepare`; `steps.loop.run_steps`; `memory`, of a trained run.
"""
