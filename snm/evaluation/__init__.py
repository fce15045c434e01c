"""Metrics over a test set: exact top-k, precision, recall, nDCG, PSP, AUC."""
