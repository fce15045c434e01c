"""Evaluations of the theorems and tables of the papers."""
