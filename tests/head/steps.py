"""A step of the head, compiled, and its comparison with the reference in float64."""

import functools

import jax
import numpy as np
from head_reference import LEARNING_RATE, QUICK, SCALE_RATE, Case, reference

from snm.distributed.mesh import ONE_DEVICE
from snm.head.head import update_head
from snm.head.state import HeadBatch

K = 302  # even: two shards have as many rows


@functools.cache
def compiled(spec, axes=ONE_DEVICE):
    return jax.jit(
        lambda head, queries, terms, sample, known, seen, key: update_head(
            spec,
            head,
            queries,
            HeadBatch(terms, sample, known, seen),
            learning_rate=LEARNING_RATE,
            scale_learning_rate=SCALE_RATE,
            key=key,
            axes=axes,
        ),
        compiler_options=QUICK if axes == ONE_DEVICE else None,  # nested in another jit there
    )


def stepped(case: Case, key=None):
    spec, *arrays = case
    return compiled(spec)(*arrays, jax.random.key(0) if key is None else key)


def check(case: Case, got, *, atol: float = 2e-6, **options) -> None:
    head, step = got
    want = reference(case, **options)
    assert step.ok
    np.testing.assert_allclose(step.loss, want.loss, rtol=2e-5)
    scale = np.abs(want.grad_queries).max()
    np.testing.assert_allclose(step.query_gradient, want.grad_queries, atol=atol * max(1, scale))
    np.testing.assert_allclose(head.table.rows, want.table, atol=atol)
    np.testing.assert_allclose(head.log_scale, want.log_scale, atol=2e-5)
    if want.accumulator is not None:
        np.testing.assert_allclose(head.table.accumulator, want.accumulator, rtol=1e-4, atol=1e-8)
    if want.bias is not None:
        np.testing.assert_allclose(head.bias, want.bias, atol=atol)


def same_bits(got, want) -> None:
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(np.asarray(x).view(np.uint32), np.asarray(y).view(np.uint32))
