"""Embedding tables: lookups, row optimisers, and in-place updates of the touched rows."""

from snm.tables.bag import embedding_bag as embedding_bag
from snm.tables.optimizers import ROW_OPTIMIZERS as ROW_OPTIMIZERS
from snm.tables.optimizers import RowOptimizer as RowOptimizer
from snm.tables.table import RowTable as RowTable
from snm.tables.table import SparseRows as SparseRows
from snm.tables.table import normalize as normalize
from snm.tables.table import random_rows as random_rows
from snm.tables.updates import update_rows as update_rows

__all__ = [
    "ROW_OPTIMIZERS",
    "RowOptimizer",
    "RowTable",
    "SparseRows",
    "embedding_bag",
    "normalize",
    "random_rows",
    "update_rows",
]
