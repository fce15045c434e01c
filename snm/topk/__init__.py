"""Exact top-k of label scores, computed block by block."""

from snm.losses.reductions import MASKED as MASKED
from snm.topk.bisection import TopThreshold as TopThreshold
from snm.topk.bisection import top_by_bisection as top_by_bisection
from snm.topk.blocks import Best as Best
from snm.topk.blocks import BlockPlan as BlockPlan
from snm.topk.blocks import LabelRows as LabelRows
from snm.topk.blocks import Masked as Masked
from snm.topk.blocks import block_plan as block_plan
from snm.topk.product import product_top_k as product_top_k
from snm.topk.search import best_scores as best_scores

__all__ = [
    "MASKED",
    "Best",
    "BlockPlan",
    "LabelRows",
    "Masked",
    "TopThreshold",
    "best_scores",
    "block_plan",
    "product_top_k",
    "top_by_bisection",
]
