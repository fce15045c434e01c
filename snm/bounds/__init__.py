"""Generalization bounds of a trained run: `snm bounds`."""
