"""`update_by_blocks` against one dense step: gradients of scores go to queries, rows and bias."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from devices import all_24_bits as all_24_bits  # a fixture
from head.small_step import DIM, N, inputs_of, slot_labels, small_case
from head_reference import QUICK, row_of_term

from snm.head import by_blocks as module
from snm.head.by_blocks import mean_blocks, update_by_blocks
from snm.head.state import Head
from snm.head.step_inputs import ScoreGradients
from snm.tables.optimizers import RowStep
from snm.tables.table import RowTable

pytestmark = pytest.mark.usefixtures("all_24_bits")

RATE = 0.3


def dense_step(case, grad_positive, of_slots):
    """Queries' gradient, table, accumulator and bias from the gradients of single scores."""
    rows = np.asarray(case.head.table.rows, np.float64)
    queries = np.asarray(case.queries, np.float64)
    grad_rows, grad_bias, grad_queries = (
        np.zeros(rows.shape),
        np.zeros(len(rows)),
        np.zeros((N, DIM)),
    )
    labels, touched = slot_labels(case), set(slot_labels(case).tolist())
    scores = [(i, labels[j], of_slots[i, j]) for i, j in np.argwhere(of_slots)]
    terms = zip(row_of_term(case), np.asarray(case.terms.ids), grad_positive, strict=True)
    for i, label, gradient in [*scores, *terms]:
        grad_queries[i] += gradient * rows[label]
        grad_rows[label] += gradient * queries[i]
        grad_bias[label] += gradient
        touched |= {label} if gradient else set()
    accumulator, step = case.head.table.accumulator, grad_rows
    if accumulator is not None:
        accumulator = np.asarray(accumulator, np.float64) + (grad_rows**2).mean(axis=1)
        step = grad_rows / np.sqrt(accumulator + 1e-10)[:, None]
    table = rows - RATE * step
    moved = sorted(label for label in touched if grad_rows[label].any())
    table[moved] /= np.linalg.norm(table[moved], axis=1, keepdims=True)
    bias = None if case.head.bias is None else np.asarray(case.head.bias) - RATE * grad_bias
    return grad_queries, table, accumulator, bias, moved


def unit(case):
    """The same with rows of length 1, as they are between steps."""
    rows = case.head.table.rows + 0.25
    rows /= jnp.linalg.norm(rows, axis=1, keepdims=True)
    table = RowTable(rows, case.head.table.accumulator)
    return case._replace(head=Head(table, case.head.bias, case.head.log_scale))


def gradients_of(case, seed=0):
    """A gradient for some slots of each point, some labels' positives among them: values, slots."""
    rng = np.random.default_rng(seed)
    size = len(slot_labels(case))
    slots = np.array([rng.choice(size, 6, replace=False) for _ in range(N)])
    values = rng.normal(size=slots.shape).astype(np.float32)
    values[0, 0] = 0  # a masked one
    grad_positive = rng.normal(size=len(case.terms.ids)).astype(np.float32)
    grad_positive[np.asarray(case.terms.values) == 0] = 0
    return grad_positive, values, slots


def stepped(case, gradients):
    row_step = RowStep(case.spec.row_rule, RATE, unit_norm=True)
    step = jax.jit(
        lambda given: update_by_blocks(inputs_of(case), given, row_step, jnp.bool_(True)),
        compiler_options=QUICK,
    )
    return step(gradients)


def compare(case, got, grad_positive, of_slots):
    grad_queries, table, accumulator, bias, moved = dense_step(case, grad_positive, of_slots)
    assert got.ok and got.loss == 1.5
    np.testing.assert_allclose(got.grad_queries, grad_queries, atol=2e-6)
    np.testing.assert_allclose(got.table.rows, table, atol=2e-6)
    if accumulator is not None:
        np.testing.assert_allclose(got.table.accumulator, accumulator, rtol=1e-5)
    if bias is not None:
        np.testing.assert_allclose(got.bias, bias, atol=2e-6)
    still = np.setdiff1d(np.arange(len(table)), moved)
    np.testing.assert_allclose(got.table.rows[still], case.head.table.rows[still], atol=1e-7)


CASES = {
    "one term": dict(bias=True),
    "all terms": dict(exclude="all", positives="all", bias=True, row_optimizer="adagrad"),
    "of all labels": dict(sampled=29, exclude="all", positives="all", bias=True),
}


@pytest.mark.parametrize("block", [4096, 7], ids=["one block", "blocks, the last overlapping"])
@pytest.mark.parametrize("name", CASES)
def test_mined_pairs(name, block, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", block)
    case = unit(small_case(**CASES[name]))
    grad_positive, values, slots = gradients_of(case)
    of_slots = np.zeros((N, len(slot_labels(case))))
    np.put_along_axis(of_slots, slots, values, axis=1)
    gradients = ScoreGradients(
        np.zeros(len(grad_positive), np.float32), np.float32(1.5), grad_positive, values, slots
    )
    compare(case, stepped(case, gradients), grad_positive, of_slots)


@pytest.mark.parametrize("name", CASES)
def test_a_whole_matrix(name):
    case = unit(small_case(**CASES[name]))
    grad_positive = gradients_of(case)[0]
    size = len(slot_labels(case))
    of_slots = np.random.default_rng(1).normal(size=(N, size)).astype(np.float32)
    gradients = ScoreGradients.of_all_slots(
        jnp.zeros(len(grad_positive)),
        jnp.float32(1.5),
        jnp.asarray(grad_positive),
        jnp.asarray(of_slots),
    )
    compare(case, stepped(case, gradients), grad_positive, of_slots)


def not_finite(of_positive=0.0, of_mined=0.0, of_matrix=None):
    """Gradients for `small_case(bias=True)` of a finite loss, some of which are replaced."""
    case = unit(small_case(bias=True))
    grad_positive, values, slots = gradients_of(case)
    grad_positive[1] += of_positive
    values[2, 1] += of_mined
    given = jnp.zeros(len(grad_positive)), jnp.float32(1.5), jnp.asarray(grad_positive)
    if of_matrix is None:
        return case, ScoreGradients(*given, jnp.asarray(values), jnp.asarray(slots))
    matrix = np.zeros((N, len(slot_labels(case))), np.float32)
    matrix[2, 1] = of_matrix
    return case, ScoreGradients.of_all_slots(*given, jnp.asarray(matrix))


@pytest.mark.parametrize(
    "changes",
    [{"of_positive": np.inf}, {"of_mined": np.nan}, {"of_mined": np.inf}, {"of_matrix": np.nan}],
    ids=str,
)
def test_what_is_not_finite_changes_nothing(changes):
    case, gradients = not_finite(**changes)
    got = stepped(case, gradients)
    assert not got.ok
    np.testing.assert_array_equal(got.table.rows, case.head.table.rows)
    np.testing.assert_array_equal(got.bias, case.head.bias)


@pytest.mark.parametrize("of_matrix", [None, 0.5])
def test_what_is_finite_changes_rows(of_matrix):
    case, gradients = not_finite(of_matrix=of_matrix)
    got = stepped(case, gradients)
    assert got.ok and not np.array_equal(got.table.rows, case.head.table.rows)


def test_a_shard_walks_its_share_of_the_sample():
    """Of 32,769 slots a block has 4,112 on a CPU, whose unit is 16: 8,192 of them take two."""
    assert [mean_blocks(32_769, parts) for parts in (1, 2, 4, 8)] == [8, 4, 2, 1]
