"""Embedding tables: lookups, row optimisers, and in-place updates of the rows touched."""
