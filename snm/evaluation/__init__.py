"""Metrics over a test set: precision, recall, nDCG and their propensity-scored forms, and AUC.

`snm.evaluation.evaluate` applies them to a trained model. It is not imported here, because it
needs JAX and the model.
"""

from snm.evaluation.auc import Areas as Areas
from snm.evaluation.filters import apply_filter as apply_filter
from snm.evaluation.metrics import Metrics as Metrics
from snm.evaluation.metrics import frequency_groups as frequency_groups
from snm.evaluation.metrics import propensities as propensities

__all__ = ["Areas", "Metrics", "apply_filter", "frequency_groups", "propensities"]
