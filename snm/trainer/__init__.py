"""Training and evaluation of a run, from data to result."""
