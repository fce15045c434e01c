"""Experiments: each module is one command that reproduces a table or answers a question."""
