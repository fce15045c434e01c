"""Experiments: one command each, from a table of the paper to figures on data at hand."""
