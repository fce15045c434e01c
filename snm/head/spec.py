"""Static settings of the head: the sample sizes, the loss, and how a step computes it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import jax

from snm.errors import InputError
from snm.losses.sampled import LOSSES, HeadLoss, LossOptions
from snm.losses.sampled.options import SampleSizes, unread_options
from snm.system.field_checks import check_choices, check_types
from snm.tables.optimizers import ROW_OPTIMIZERS, RowOptimizer

__all__ = ["HeadSpec", "in_precision"]

_Run = TypeVar("_Run", bound=Callable[..., Any])

_DEFAULT_OPTIONS = LossOptions()


@dataclass(frozen=True, kw_only=True)
class HeadSpec:
    """Settings of the head; hashable, static under `jax.jit`.

    The defaults are those of the paper: BOWL, one positive per point, only this positive excluded
    from its negatives, no bias. The defaults of `snm.Config` differ.

    Raises:
      InputError: an unknown choice, a value of another type, sizes other than
        1 <= k' <= B <= K - 1, or `options` that the loss does not read; a loss object of your own
        reads none (`retrieval_k` is always taken).

    Attributes:
      num_labels: K.
      sampled: B, the negatives drawn for each term; K - 1 stands for all other labels.
      mined: k', how many of them enter the loss; k' = B is negative sampling.
      loss: a name or an object of `losses.sampled.LOSSES`, or a loss object of your own, which is
        used as it is.
      options: the parameters of a loss of `LOSSES`; the defaults if `loss` is an object of your
        own, which has its own parameters.
      exclude: which labels are not negatives of a term: positive (only its own positive, as in the
        paper) or all (every known label of the point, so that no positive is a negative).
      positives: one (one term per point) or all (each label of a point is a term).
      row_optimizer: a name of `snm.tables.optimizers.ROW_OPTIMIZERS`.
      bias: whether to add a learned bias of each label to its score.
      learn_scale: whether to learn the score scale.
      compute_dtype: type of the factors of matrix products; sums are float32.
      matmul_precision: lowest precision of products of float32 factors: float32 or tensorfloat32;
        or default, that of JAX, which differs between devices.
      table_dtype: of the class rows, float32 or bfloat16.
      mining_kernel: auto or off: whether to mine with a single TPU kernel, which keeps the scores
        on the chip; see `snm.topk.kernel.choice`.
      head_loss: the configured loss. It is part of equality and hash, so that a new object under a
        name in `LOSSES` or `SURROGATES` never reuses a compiled program of the old one.
      row_rule: the object of `row_optimizer`; part of equality and hash, as `head_loss`.
    """

    num_labels: int
    sampled: int
    mined: int
    loss: str | HeadLoss = "bowl"
    options: LossOptions = _DEFAULT_OPTIONS
    exclude: Literal["positive", "all"] = "positive"
    positives: Literal["one", "all"] = "one"
    row_optimizer: str = "sgd"
    bias: bool = False
    learn_scale: bool = False
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    matmul_precision: Literal["float32", "tensorfloat32", "default"] = "float32"
    table_dtype: Literal["float32", "bfloat16"] = "float32"
    mining_kernel: Literal["auto", "off"] = "auto"
    head_loss: HeadLoss = field(init=False, repr=False)
    row_rule: RowOptimizer = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_types(self)
        check_choices(self, {"row_optimizer": ROW_OPTIMIZERS})
        loss = self.loss
        if not isinstance(loss, HeadLoss):
            check_choices(self, {"loss": LOSSES})
            loss = LOSSES[loss]
        from_table = any(loss is entry for entry in LOSSES.values())
        self._check_options(loss, from_table=from_table)
        if not 1 <= self.mined <= self.sampled < self.num_labels:
            found = f"mined {self.mined}, sampled {self.sampled}, {self.num_labels} labels"
            raise InputError("HeadSpec", found, "1 <= mined <= sampled < num_labels")
        if from_table:
            sizes = SampleSizes(self.num_labels, self.sampled, self.mined)
            loss = loss.configured(self.options, sizes)
        object.__setattr__(self, "head_loss", loss)
        object.__setattr__(self, "row_rule", ROW_OPTIMIZERS[self.row_optimizer])

    def _check_options(self, loss: HeadLoss, *, from_table: bool) -> None:
        if not isinstance(self.options, LossOptions):
            raise InputError("HeadSpec options", repr(self.options)[:80], "a LossOptions")
        unread = unread_options(self.options, loss.option_names if from_table else ())
        if not unread:
            return
        if from_table:
            name, expected = next(iter(unread.items()))
            found = f"{name} {getattr(self.options, name)!r} with loss {loss.name}"
        else:
            found = f"{', '.join(unread)} beside a loss object"
            expected = f"none: the object of loss {loss.name} has its own parameters"
        raise InputError("HeadSpec options", found, expected)

    @property
    def num_slots(self) -> int:
        """The labels to draw for a batch: B, and a surplus one to replace a positive among them."""
        return self.sampled + 1

    @property
    def one_positive(self) -> bool:
        """Whether each point has one term in the loss, so that term t belongs to point t."""
        return self.positives == "one"

    @property
    def excludes_known(self) -> bool:
        """Whether all known labels of a point are excluded; a step then needs `known`."""
        return self.exclude == "all"

    @property
    def samples_all(self) -> bool:
        """Whether all labels but the positive are negatives, so that nothing is drawn."""
        return self.sampled == self.num_labels - 1

    @property
    def mines_all(self) -> bool:
        """Whether all sampled negatives enter the loss, so that nothing is mined."""
        return self.mined == self.sampled


def in_precision(run: _Run) -> _Run:
    """Decorator: traces a function with the `matmul_precision` of its first argument.

    The argument is a `HeadSpec`, or has one as its attribute `spec`. The precision also applies to
    the gradients that JAX derives while tracing. With JAX's default, a TPU rounds float32 factors
    to bfloat16, and converts a whole table even if a loop reads it in blocks.
    """

    @functools.wraps(run)
    def with_precision(spec_or_model: Any, *args: Any, **kwargs: Any) -> Any:
        spec: HeadSpec = getattr(spec_or_model, "spec", spec_or_model)
        with jax.default_matmul_precision(spec.matmul_precision):
            return run(spec_or_model, *args, **kwargs)

    return with_precision  # type: ignore[return-value]
