"""Metrics over a test set: precision, recall, nDCG and their propensity-scored forms, and AUC.

`snm.evaluation.evaluate` applies them to a trained model. It is not imported here, because it
needs JAX and the model.
"""

from snm.evaluation.metrics import Metrics as Metrics
from snm.evaluation.metrics import propensities as propensities

__all__ = ["Metrics", "propensities"]
