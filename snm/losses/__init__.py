"""Losses of scores: surrogates, ordered weighted losses, softmax, listwise, rank weights."""
