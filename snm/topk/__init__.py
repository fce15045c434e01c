"""Exact top-k of label scores, computed block by block."""

from snm.topk.blocks import LabelRows as LabelRows
from snm.topk.blocks import Masked as Masked
from snm.topk.product import product_top_k as product_top_k
from snm.topk.search import best_scores as best_scores

__all__ = ["LabelRows", "Masked", "best_scores", "product_top_k"]
