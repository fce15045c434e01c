"""What the head computes: the sample, the loss and its weights, as static settings of a step."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar

import jax

from snm.errors import InputError
from snm.losses.sampled import LOSSES, HeadLoss, LossOptions
from snm.losses.sampled.options import SampleSizes, check_choices
from snm.tables.optimizers import ROW_OPTIMIZERS, RowOptimizer

__all__ = ["HeadSpec", "in_precision"]

_Run = TypeVar("_Run", bound=Callable[..., Any])

_PLAIN = LossOptions()


@dataclass(frozen=True, kw_only=True)
class HeadSpec:
    """What the head computes; hashable, static under `jax.jit`.

    The defaults are the paper's: BOWL, one positive a point, the term's own positive excluded, no
    bias. Those of `snm.Config` differ.

    Raises:
      InputError: a word that a setting does not know, sizes that are not 1 <= k' <= B <= K - 1, or
        options beside a loss object.

    Attributes:
      num_labels: K.
      sampled: B, the negatives drawn for each term; K - 1 stands for all other labels.
      mined: k', how many of them enter the loss; B is negative sampling.
      loss: a name or an object of `losses.sampled.LOSSES`, or a loss object of your own, which
        trains as it is.
      options: the parameters of a loss of `LOSSES`. An object of your own has its own, so that only
        the defaults may stand beside it.
      exclude: positive (the term's own, as in the paper) or all (every known label of the point:
        another loss, in which known positives are never negatives).
      positives: one term a point, or all labels of a point as terms.
      row_optimizer: a name of `snm.tables.optimizers.ROW_OPTIMIZERS`.
      bias: add a learned bias a label to its score.
      learn_scale: learn the multiplier of the scores.
      compute_dtype: type of the factors of matrix products; sums are float32.
      matmul_precision: of products of float32 factors, the least: float32 or tensorfloat32; or
        default, JAX's own, which differs between devices.
      table_dtype: of the class rows, float32 or bfloat16.
      mining_kernel: auto, on or off: whether one kernel of an accelerator mines, which keeps the
        scores on the chip; see `snm.topk.kernel.choice`.
      head_loss: the configured loss. It is part of equality and hash: a new object under a name in
        `LOSSES` or `SURROGATES` never reuses a program of the old one.
      row_rule: the optimiser of `row_optimizer` that trains, part of equality and hash as
        `head_loss` is.
    """

    num_labels: int
    sampled: int
    mined: int
    loss: str | HeadLoss = "bowl"
    options: LossOptions = _PLAIN
    exclude: Literal["positive", "all"] = "positive"
    positives: Literal["one", "all"] = "one"
    row_optimizer: str = "sgd"
    bias: bool = False
    learn_scale: bool = False
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    matmul_precision: Literal["float32", "tensorfloat32", "default"] = "float32"
    table_dtype: Literal["float32", "bfloat16"] = "float32"
    mining_kernel: Literal["auto", "on", "off"] = "auto"
    head_loss: HeadLoss = field(init=False, repr=False)
    row_rule: RowOptimizer = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_choices(self, {"row_optimizer": ROW_OPTIMIZERS})
        loss = self.loss
        if not isinstance(loss, HeadLoss):
            check_choices(self, {"loss": LOSSES})
            loss = LOSSES[loss]
        of_table = any(loss is one for one in LOSSES.values())
        if not of_table and self.options != _PLAIN:
            names = (each.name for each in fields(LossOptions))
            given = [n for n in names if getattr(self.options, n) != getattr(_PLAIN, n)]
            found = f"{', '.join(given)} beside a loss object"
            expected = f"none: the object of loss {loss.name} has its own parameters"
            raise InputError("HeadSpec options", found, expected)
        if not 1 <= self.mined <= self.sampled < self.num_labels:
            found = f"mined {self.mined}, sampled {self.sampled}, {self.num_labels} labels"
            raise InputError("HeadSpec", found, "1 <= mined <= sampled < num_labels")
        if of_table:
            sizes = SampleSizes(self.num_labels, self.sampled, self.mined)
            loss = loss.configured(self.options, sizes)
        object.__setattr__(self, "head_loss", loss)
        object.__setattr__(self, "row_rule", ROW_OPTIMIZERS[self.row_optimizer])

    @property
    def num_slots(self) -> int:
        """The labels to draw for a batch: B, and one in place of a positive that is among them."""
        return self.sampled + 1

    @property
    def one_positive(self) -> bool:
        """Whether each point has one term in the loss: term t is of point t."""
        return self.positives == "one"

    @property
    def excludes_known(self) -> bool:
        """Whether no known label of a point is its negative, so that a step needs `known`."""
        return self.exclude == "all"

    @property
    def samples_all(self) -> bool:
        """Whether every label but the positive is a negative, so that nothing is drawn."""
        return self.sampled == self.num_labels - 1

    @property
    def mines_all(self) -> bool:
        """Whether every sampled negative enters the loss, so that none is looked for."""
        return self.mined == self.sampled


def in_precision(run: _Run) -> _Run:
    """Makes the matrix products of a function as precise as its first argument says.

    That argument is a `HeadSpec`, or has one as `spec`. It holds for the products that JAX derives
    from those of the function too, while it is traced. Without it, JAX asks for no precision: a TPU
    rounds float32 factors to bfloat16, and converts a whole table that a loop reads in blocks.
    """

    @functools.wraps(run)
    def traced(described: Any, *args: Any, **kwargs: Any) -> Any:
        spec: HeadSpec = getattr(described, "spec", described)
        with jax.default_matmul_precision(spec.matmul_precision):
            return run(described, *args, **kwargs)

    return traced  # type: ignore[return-value]
