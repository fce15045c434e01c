"""Scores of blocks of labels, and the exact top-k of them."""
