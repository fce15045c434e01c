"""Experiments: a module is a command that reproduces a table or answers a question.

`shared` has what the commands share.
"""
