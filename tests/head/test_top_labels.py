"""The answers of a head are those of all scores in NumPy."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from snm.errors import InputError
from snm.head.spec import HeadSpec
from snm.head.state import init_head
from snm.head.top_labels import top_labels

K, DIM, N = 70, 8, 5


def head_of(**options):
    spec = HeadSpec(num_labels=K, sampled=20, mined=4, **options)
    head = init_head(spec, jax.random.key(0), DIM, score_scale=3.0)
    if head.bias is None:
        return head
    bias = np.random.default_rng(1).normal(size=K).astype(np.float32)
    return dataclasses.replace(head, bias=jnp.asarray(bias))


@pytest.mark.parametrize("k", [1, 6, K])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_they_are_the_highest_of_all_scores(dtype, bias, k):
    head = head_of(table_dtype=dtype, bias=bias)
    queries = np.random.default_rng(0).normal(size=(N, DIM)).astype(np.float32)
    rows = np.asarray(head.table.rows)
    if dtype == "bfloat16":
        rows = (rows.astype(np.uint32) << 16).view(np.float32)
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=0.01)
    np.testing.assert_array_equal(head.class_rows, rows)
    scores = 3.0 * queries.astype(np.float64) @ rows.T.astype(np.float64)
    scores += 0 if head.bias is None else np.asarray(head.bias)
    want = np.argsort(-scores, axis=1)[:, :k]
    labels, found = top_labels(head, queries, k)
    assert labels.dtype == jnp.int32 and found.dtype == jnp.float32
    np.testing.assert_array_equal(labels, want)
    np.testing.assert_allclose(
        found, np.take_along_axis(scores, want, axis=1), rtol=1e-5, atol=1e-5
    )
    compiled = jax.jit(top_labels, static_argnames="k")(head, queries, k=k)
    np.testing.assert_array_equal(compiled[0], labels)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"k": 0}, f"k: found 0, expected a whole number from 1 to {K}, the labels"),
        ({"k": K + 1}, f"k: found {K + 1}, expected a whole number from 1 to {K}"),
        ({"k": 2.0}, "k: found 2.0, expected a whole number"),
        ({"queries": np.ones(DIM)}, f"queries: found float64[{DIM}], expected float32 [n, {DIM}]"),
        ({"head": np.ones((K, DIM))}, f"head: found float64[{K}, {DIM}], expected a Head"),
    ],
)
def test_what_cannot_be_answered(changes, said):
    given = {"head": head_of(), "queries": np.ones((N, DIM), np.float32), "k": 3, **changes}
    with pytest.raises(InputError) as error:
        top_labels(**given)
    assert str(error.value).startswith(said)
