"""Metrics over a test set: exact top-k, precision, recall, nDCG, propensity-scored precision, AUC."""
