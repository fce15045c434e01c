"""Exact top-k of label scores, computed block by block."""

from snm.losses.reductions import MASKED as MASKED
from snm.topk.bisection import Mined as Mined
from snm.topk.bisection import mined_weights as mined_weights
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
    "Mined",
    "best_scores",
    "block_plan",
    "mined_weights",
    "product_top_k",
]
