"""Losses of scores: surrogates, ordered weighted losses, sampled softmax, listwise losses, weights over ranks."""
