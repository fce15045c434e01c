"""Class rows in bfloat16: a row that takes no step keeps its bits, however it is computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from head_reference import QUICK, make_case

from snm.head.head import update_head
from snm.tables.rounding import as_float

K, SAMPLED = 200, 150

PATHS = {
    "pairs": dict(mined=2, loss="bowl"),
    "threshold": dict(mined=64, loss="bowl"),
    "products": dict(mined=64, loss="softmax"),
    "products of the whole sample": dict(mined=SAMPLED, loss="bowl"),
    "products of all labels": dict(sampled=K - 1, mined=K - 1, loss="softmax"),
}


def case_of(path, n=7):
    options = dict(sampled=SAMPLED, table_dtype="bfloat16", exclude="all", positives="all")
    return make_case(n=n, num_labels=K, **{**options, **PATHS[path]})


def stepped(case, learning_rate):
    """The class rows after a step with some noise, as a function of rows and noise."""

    def step(head, noise):
        after, found = update_head(
            case.spec, head, case.queries, case.batch, learning_rate=learning_rate, noise=noise
        )
        return after, found.ok

    return jax.jit(step, compiler_options=QUICK)


@pytest.mark.parametrize("path", PATHS)
def test_a_rate_of_zero_moves_no_row(path):
    """Rows were scaled to unit length and rounded again at every step: 0.4% in 4000 steps."""
    case = case_of(path)
    assert case.head.table.rows.dtype == jnp.uint16
    step, head = stepped(case, 0.0), case.head
    for noise in range(20):
        head, ok = step(head, jnp.uint32(noise * 77))
        assert ok
    np.testing.assert_array_equal(head.table.rows, case.head.table.rows)


@pytest.mark.parametrize("path", ["threshold", "products"])
def test_sampled_rows_without_a_gradient_keep_their_bits(path):
    """Of one point, 64 mined labels and up to 4 positives move; the other sampled ones do not."""
    case = case_of(path, n=1)
    after, ok = stepped(case, 0.3)(case.head, jnp.uint32(5))
    assert ok
    moved = np.flatnonzero((after.table.rows != case.head.table.rows).any(axis=1))
    assert 32 < len(moved) <= 64 + 4 < SAMPLED
    lengths = np.linalg.norm(np.asarray(as_float(after.table.rows))[moved], axis=1)
    np.testing.assert_allclose(lengths, 1, atol=0.01)
