"""Checks of the arguments of a step, when it is traced or called: nothing enters the program.

Shapes, dtypes and what is None are always known. Numbers are checked where they are: in NumPy
arrays, and in JAX arrays outside of `jax.jit`. Those of traced arrays come too late for a check.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from snm.distributed.mesh import Axes
from snm.errors import InputError
from snm.head.spec import HeadSpec
from snm.head.state import Head, HeadBatch
from snm.sampling.sample import Sample, check_sample
from snm.tables.rounding import storage
from snm.tables.table import RowTable, SparseRows

__all__ = ["check_queries", "check_rate", "check_step", "described"]

_Kind = tuple[str, Any]
_WHOLE: _Kind = ("int32", jnp.integer)
_FLOAT: _Kind = ("float32", jnp.floating)
_NUMBERS: _Kind = ("numbers", np.generic)
_ANY = -1  # a size that may be any


def check_step(
    spec: HeadSpec,
    head: Head,
    queries: Any,
    batch: HeadBatch,
    noise: Any,
    axes: Axes,
) -> None:
    """Checks the arguments of `update_head`, which says what they are.

    Raises:
      InputError: they do not fit each other, or their own rules.
    """
    _check_head(spec, head, axes)
    n = check_queries(head, queries)
    if spec.table_dtype == "bfloat16" and noise is None:
        expected = "a uint32 scalar, another one at each step: bfloat16 rows are rounded at random"
        raise InputError("noise", "None", expected)
    if not isinstance(batch, HeadBatch):
        raise InputError("batch", described(batch), "a HeadBatch(terms, sample)")
    _check_labels("batch.terms", batch.terms, n, spec, _FLOAT, one=spec.one_positive)
    if not spec.samples_all:
        _check_sample(spec, batch.sample)
    if not spec.excludes_known:
        if spec.head_loss.scores_per_point and not spec.one_positive:
            found = "'positive' with positives 'all' and a loss of lists"
            raise InputError("HeadSpec exclude", found, "'all': no label of a list is both")
        return
    if batch.known is None:
        expected = "the known labels of each point, as the spec has exclude='all'"
        raise InputError("batch.known", "None", expected)
    # Of known labels only whether a value is 0 is read, of seen ones nothing.
    _check_labels("batch.known", batch.known, n, spec, _NUMBERS)
    if batch.seen is not None:
        _check_labels("batch.seen", batch.seen, n, spec, _NUMBERS)


def check_queries(head: Head, queries: Any) -> int:
    """Checks that queries are float32 [n, dim], at least one, and returns n.

    Raises:
      InputError: another shape or type.
    """
    dim = head.table.rows.shape[1]
    _check_array("queries", queries, _FLOAT, (_ANY, dim))
    n = int(queries.shape[0])
    if not n or jax.dtypes.canonicalize_dtype(queries.dtype) != jnp.float32:
        raise InputError("queries", described(queries), f"float32 [n, {dim}], n >= 1")
    return n


def check_rate(name: str, rate: Any) -> None:
    """Checks that a learning rate is a number, and if it is known now, that it is finite.

    Raises:
      InputError: it is not.
    """
    is_number = isinstance(rate, numbers.Real) or (
        hasattr(rate, "dtype")
        and not np.shape(rate)
        and any(jnp.issubdtype(rate.dtype, kind) for kind in (jnp.floating, jnp.integer))
    )
    if not is_number:
        raise InputError(name, described(rate), "a number")
    value = _known(rate)
    if value is not None and not math.isfinite(value):
        raise InputError(name, str(value), "a finite number")


def _check_head(spec: HeadSpec, head: Head, axes: Axes) -> None:
    """Checks that a head, or this device's part of it, has what its spec says."""
    if not isinstance(head, Head) or not isinstance(head.table, RowTable):
        raise InputError("head", described(head), "a Head, as init_head(spec, ...) makes it")
    rows: Any = head.table.rows
    dtype = storage(spec.table_dtype)
    least, shape = spec.num_labels, tuple(getattr(rows, "shape", ()))
    if axes.label is not None:
        least = -(-least // lax.axis_size(axes.label))
    fits = len(shape) == 2 and (shape[0] == least if axes.label is None else shape[0] >= least)
    if not fits or rows.dtype != dtype:
        bits = ", the bits of bfloat16" if spec.table_dtype == "bfloat16" else ""
        raise InputError("head.table.rows", described(rows), f"{dtype} [{least}, dim]{bits}")
    keeps = spec.row_rule.has_accumulator
    why = f"row_optimizer {spec.row_optimizer} keeps {'a number' if keeps else 'nothing'} for rows"
    _check_vector("head.table.accumulator", head.table.accumulator, shape[0], keeps, why)
    why = f"the spec has bias={spec.bias}"
    _check_vector("head.bias", head.bias, shape[0], spec.bias, why)
    _check_array("head.log_scale", head.log_scale, _FLOAT, ())


def _check_vector(where: str, x: Any, size: int, needed: bool, why: str) -> None:
    """Checks that an array is float32 [size] if the spec needs it, and else None."""
    fits = x is None
    if needed:
        fits = getattr(x, "shape", None) == (size,) and x.dtype == jnp.float32
    if not fits:
        raise InputError(where, described(x), f"{f'float32 [{size}]' if needed else 'None'}: {why}")


def _check_labels(
    where: str, block: Any, n: int, spec: HeadSpec, values: _Kind, *, one: bool = False
) -> None:
    """Checks a block [n, K] of labels; with `one`, that point i has entry i alone."""
    if not isinstance(block, SparseRows):
        raise InputError(where, described(block), "SparseRows(ids, values, starts)")
    _check_array(f"{where}.ids", block.ids, _WHOLE, (n if one else _ANY,))
    entries = block.ids.shape[0]
    _check_array(f"{where}.values", block.values, values, (entries,))
    _check_array(f"{where}.starts", block.starts, _WHOLE, (n + 1,))
    ids, starts = _known(block.ids), _known(block.starts)
    if ids is not None and ids.size and not 0 <= ids.min() <= ids.max() < spec.num_labels:
        bad = ids.min() if ids.min() < 0 else ids.max()
        raise InputError(f"{where}.ids", f"label {bad}", f"0 to {spec.num_labels - 1}")
    if starts is None:
        return
    if one and (starts != np.arange(n + 1)).any():
        expected = f"0 to {n}: with positives='one' point i has entry i"
        raise InputError(f"{where}.starts", f"{starts.tolist()[:8]}", expected)
    if starts[0] or (np.diff(starts) < 0).any() or starts[-1] > entries:
        expected = f"numbers that do not fall, from 0 to at most the {entries} entries"
        raise InputError(f"{where}.starts", f"{starts.tolist()[:8]}", expected)


def _check_sample(spec: HeadSpec, sample: Any) -> None:
    """Checks the sample of a spec that does not take all labels as negatives."""
    where, needed = "batch.sample", spec.num_slots
    if not isinstance(sample, Sample):
        expected = f"a Sample of {needed} labels, such as uniform_host draws"
        raise InputError(where, described(sample), expected)
    _check_array(f"{where}.ids", sample.ids, _WHOLE, (_ANY,))
    slots = sample.ids.shape[0]
    words = f"{needed}: B and one for the positive (size=spec.num_slots)"
    if sample.log_weights is not None:  # drawn with replacement, where `drop` may leave out none
        needed, words = spec.sampled, f"{spec.sampled}, which is B"
    if (slots < needed and sample.num_drawn is None) or not slots:
        expected = f"at least {words}, or num_drawn where the batch decides how many there are"
        raise InputError(where, f"{slots} slots", expected)
    _check_array(f"{where}.drop", sample.drop, _WHOLE, ())
    if sample.log_weights is not None:
        _check_array(f"{where}.log_weights", sample.log_weights, _FLOAT, (slots,))
    if sample.num_drawn is not None:
        _check_array(f"{where}.num_drawn", sample.num_drawn, _WHOLE, ())
    if all(x is None or _known(x) is not None for x in sample):
        ranks = spec.head_loss.has_rank_weights
        check_sample(sample, where, spec.num_labels, ranks=ranks)


def _check_array(where: str, x: Any, kind: _Kind, shape: tuple[int, ...]) -> None:
    """Checks the kind and the shape of an array, or of a number where it is a scalar."""
    is_array = hasattr(x, "dtype") or (not shape and isinstance(x, numbers.Real))
    found = np.shape(x) if is_array else ()
    fits = len(found) == len(shape) and all(
        size in (_ANY, of_x) for of_x, size in zip(found, shape, strict=True)
    )
    if not is_array or not fits or not jnp.issubdtype(jnp.result_type(x), kind[1]):
        sizes = ", ".join("n" if size == _ANY else str(size) for size in shape)
        raise InputError(where, described(x), f"{kind[0]} [{sizes}]" if shape else "a scalar")


def described(x: Any) -> str:
    """The dtype and shape of an array; of others, the type."""
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return f"{x.dtype}{list(x.shape)}"
    return "None" if x is None else f"a {type(x).__name__}"


def _known(x: Any) -> Any:
    """The numbers of an array in NumPy, or None if they are not known on this machine yet."""
    is_traced = isinstance(x, jax.core.Tracer)
    if is_traced or (isinstance(x, jax.Array) and not x.is_fully_addressable):
        return None
    return np.asarray(x)
