"""Embedding tables: lookups, row optimizers, and in-place updates of the touched rows."""

from snm.tables.table import RowTable as RowTable

__all__ = ["RowTable"]
