"""Weights of points and labels, and other short arrays of a data set: converted and checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from snm.errors import InputError
from snm.text import counted

__all__ = ["check_weights", "describe_weights", "to_array", "weights_or_ones"]

_HEAVY = 20  # a weight above this multiple of the mean is reported


def to_array(
    value: Any, dtype: type[np.number], where: str, expected: str
) -> NDArray[np.number] | None:
    """A list or an array as an array of a dtype, with the same values; None for None.

    Args:
      value: numbers.
      dtype: float32, or int64 for the pairs of a filter.
      where: names the value in an error.
      expected: the same of what it should be.

    Raises:
      InputError: it is no array of integers or, for floats, of real numbers, or float32 would make
        0 of a number.
    """
    if value is None or (isinstance(value, np.ndarray) and value.dtype == dtype and value.size):
        return value
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of different lengths
        raise InputError(where, "lists of different lengths", expected) from error
    if not array.size:
        array = np.empty((0, 2) if dtype is np.int64 else 0)
    elif array.dtype.kind not in ("iu" if dtype is np.int64 else "biuf"):
        found = f"an array of {array.dtype}" if array.ndim else f"a {type(value).__name__}"
        raise InputError(where, found, expected)
    with np.errstate(over="ignore"):  # `check_weights` refuses infinite weights
        converted = array.astype(dtype)
    if (lost := np.flatnonzero((converted == 0) & (array != 0))).size:
        raise InputError(where, f"{array.flat[lost[0]]}, which float32 cannot hold", expected)
    return converted


def check_weights(weights: NDArray[np.float32] | None, what: str, count: int) -> None:
    """Raises `InputError` if weights of points or labels are not valid.

    Args:
      weights: float32, or None.
      what: `point` or `label`.
      count: the number of these.
    """
    if weights is None:
        return
    if weights.shape != (count,):
        found = f"shape {weights.shape} for {count} {what}s"
        raise InputError(f"weights of {what}s", found, f"one weight a {what}")
    # A label of weight 0 would count as absent, and become a negative of its point.
    wrong = ~(np.isfinite(weights) & (weights > 0 if what == "label" else weights >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        expected = f"a finite number {'above' if what == 'label' else 'of at least'} 0"
        raise InputError(f"weights of {what}s", f"{weights[row]} of {what} {row}", expected)


def weights_or_ones(weights: NDArray[np.float32] | None, count: int) -> NDArray[np.float32]:
    """The weights (float32 [count]) of points, where None stands for 1 each."""
    return np.ones(count, np.float32) if weights is None else weights


def describe_weights(weights: NDArray[np.float32]) -> str:
    """A one-line summary of the weights of points.

    Example:
      >>> describe_weights(np.array([0, 1, 2.5], np.float32))
      '0 to 2.5, 1.17 on average; 1 point of weight 0 is left out'
    """
    mean = float(np.mean(weights, dtype=np.float64))
    text = f"{weights.min():.3g} to {weights.max():.3g}, {mean:.3g} on average"
    if zeros := int(np.count_nonzero(weights == 0)):
        text += f"; {counted(zeros, 'point')} of weight 0 {'is' if zeros == 1 else 'are'} left out"
    if (largest := float(weights.max()) / mean) > _HEAVY:
        text += f"; one weighs {largest:.0f} times the mean: of counts, log(1 + count) varies less"
    return text
