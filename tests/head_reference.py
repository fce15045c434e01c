"""The head's step by dense autodiff in float64: all scores at once, whole sorts, whole tables.

A further loss has its values in `TERM_LOSSES`, or in `LIST_LOSSES` if it takes lists of scores.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from snm.head.spec import HeadSpec
from snm.head.state import Head, HeadBatch, init_head
from snm.losses.reductions import MASKED
from snm.losses.sampled import LossOptions
from snm.sampling.sample import Sample
from snm.sampling.uniform import uniform_host
from snm.tables.table import RowTable, SparseRows

LEARNING_RATE, SCALE_RATE = 0.3, 0.1
QUICK = {"xla_backend_optimization_level": 0}  # compiling is most of what these tests do


class Case(NamedTuple):
    """Everything that `update_head` takes."""

    spec: HeadSpec
    head: Head
    queries: jax.Array
    terms: SparseRows
    sample: Sample | None
    known: SparseRows
    seen: SparseRows | None = None

    @property
    def batch(self) -> HeadBatch:
        return HeadBatch(self.terms, self.sample, self.known, self.seen)


def csr(ids: Any, values: Any, starts: Any) -> SparseRows:
    return SparseRows(
        jnp.asarray(ids, jnp.int32),
        jnp.asarray(values, jnp.float32),
        jnp.asarray(starts, jnp.int32),
    )


def spec_of(**settings: Any) -> HeadSpec:
    """A `HeadSpec`, whose loss takes the settings that have the names of its options."""
    names = {field.name for field in dataclasses.fields(LossOptions)} & set(settings)
    options = LossOptions(**{name: settings.pop(name) for name in names})
    return HeadSpec(**settings, options=options)


def make_case(
    *,
    n: int = 7,
    dim: int = 32,
    seed: int = 0,
    padding: int = 3,
    sample: Any = None,
    seen: bool = False,
    **options: Any,
) -> Case:
    """A random batch; `padding` entries of weight 0 end the terms where there may be several.

    `seen` labels are no point's own, a fifth of all; some of their values are 0 too.
    """
    spec = spec_of(**{"learn_scale": True, **options})
    num_labels = spec.num_labels
    rng = np.random.default_rng(seed)
    head = init_head(spec, jax.random.key(seed), dim, score_scale=2.0)
    bias, accumulator = head.bias, head.table.accumulator
    if bias is not None:
        bias = jnp.asarray(0.1 * rng.normal(size=num_labels), jnp.float32)
    if accumulator is not None:
        accumulator = jnp.asarray(0.01 * rng.random(num_labels), jnp.float32)
    head = Head(RowTable(head.table.rows, accumulator), bias, head.log_scale)
    queries = rng.normal(size=(n, dim))
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)

    lengths = rng.integers(1, min(5, num_labels), n)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    ids = np.concatenate([np.sort(rng.choice(num_labels, m, replace=False)) for m in lengths])
    pad_ids, zeros = np.zeros(padding, np.int32), np.zeros(padding)
    known = csr(np.r_[ids, pad_ids], np.r_[np.ones(len(ids)), zeros], starts)
    if spec.positives == "one":
        weights = np.r_[np.linspace(0.5, 2, n - 1) / n, 0]  # the last point is padding
        terms = csr(ids[starts[:-1]], weights, np.arange(n + 1))
    else:
        terms = csr(known.ids, np.r_[rng.random(len(ids)) / n, zeros], starts)
    if sample is None and not spec.samples_all:
        sample = uniform_host(seed, 0, num_labels=num_labels, size=spec.sampled + 1)
    if callable(sample):
        sample = sample(np.asarray(terms.ids))
    barred = None
    if seen:
        marks = rng.random((n, num_labels)) < 0.2
        marks[np.repeat(np.arange(n), lengths), ids] = False
        row, label = np.nonzero(marks)
        starts = np.r_[0, np.cumsum(np.bincount(row, minlength=n))]
        barred = csr(np.r_[label, pad_ids], np.r_[rng.random(len(label)) < 0.9, zeros], starts)
    return Case(spec, head, jnp.asarray(queries, jnp.float32), terms, sample, known, barred)


def rank_weights(spec: HeadSpec, ranks: Any = None) -> np.ndarray:
    """The vartheta of every rank 1 .. B, from the definitions; [T, B] where ranks were drawn."""
    k = spec.mined
    each = 1 / k
    if spec.options.weight_scale == "surrogate":
        each = (spec.num_labels - 1) / (spec.options.retrieval_k * spec.sampled)
    vartheta = np.zeros(spec.sampled)
    vartheta[:k] = each
    if spec.options.vartheta == "power-law":
        shape = np.arange(1, k + 1) ** -spec.options.power_alpha
        vartheta[:k] = each * k * shape / shape.sum()
    if spec.options.vartheta == "epsilon-tail":
        vartheta[k:] = spec.options.tail_epsilon * each
    if spec.options.vartheta == "subsample":
        counts = np.stack([(ranks == j).sum(axis=-1) for j in range(spec.sampled)], axis=-1)
        vartheta = counts * (vartheta.sum() / spec.options.subsample_draws)
    return vartheta * spec.options.negative_weight


def of_those_there(spec: HeadSpec, vartheta: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """[T, K]: the hardest k' of a term's negatives, or all, weigh what k' of B do together."""
    k, found = spec.mined, np.zeros((len(counts), spec.num_labels))
    for row, count in zip(found, counts, strict=True):
        # B is no limit: ranks beyond it weigh what the last of B weighs.
        row[:count] = np.r_[vartheta, np.full(spec.num_labels, vartheta[-1])][:count]
        mined = count if k == spec.sampled else min(k, count)
        row *= vartheta[:k].sum() / row[:mined].sum() if count else 0
    return found


PHI = {
    "hinge": lambda u: jnp.maximum(1 - u, 0),
    "logistic": lambda u: jnp.logaddexp(0, -u) / np.log(2),
    "squared_hinge": lambda u: jnp.maximum(1 - u, 0) ** 2,
}


def negatives_of(case: Case) -> np.ndarray:
    """Which of the K labels each term may use, by Python sets: bool [T, K]."""
    spec, sample = case.spec, case.sample
    rows = row_of_term(case)
    drawn = range(spec.num_labels) if sample is None else np.asarray(sample.ids).tolist()
    drop = None
    if sample is not None and int(sample.drop) < len(drawn):
        drop = drawn[int(sample.drop)]
    kept = np.zeros((len(rows), spec.num_labels), bool)
    ids, values, starts = (np.asarray(part) for part in case.known)
    for t, (row, label) in enumerate(zip(rows, np.asarray(case.terms.ids).tolist(), strict=True)):
        leave_out = {label}
        if spec.exclude == "all":
            part = slice(starts[row], starts[row + 1])
            leave_out = set(ids[part][values[part] != 0].tolist())
            if case.seen is not None:
                begin = np.asarray(case.seen.starts)
                leave_out |= set(np.asarray(case.seen.ids)[begin[row] : begin[row + 1]].tolist())
        leave_out &= set(drawn)
        if not leave_out and sample is not None and drop is not None:
            leave_out = {drop}
        kept[t, [j for j in drawn if j < spec.num_labels and j not in leave_out]] = True
    return kept


def row_of_term(case: Case) -> np.ndarray:
    starts = np.asarray(case.terms.starts)
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return np.r_[rows, np.full(len(case.terms.ids) - len(rows), len(starts) - 2)]


class Wanted(NamedTuple):
    loss: Any
    grad_rows: Any  # gradient of the loss with respect to the table
    grad_bias: Any
    grad_queries: Any
    grad_log_scale: Any
    table: Any  # after the step
    accumulator: Any
    bias: Any
    log_scale: Any


def loss_of(case: Case, rows, bias, queries, log_scale, *, ranks=None):
    """The weighted sum of the terms' losses; float64 in, float64 out."""
    spec, terms, sample = case.spec, case.terms, case.sample
    if spec.head_loss.scores_per_point:
        return lists_of(case, rows, bias, queries, log_scale)
    row = row_of_term(case)
    kept = jnp.asarray(negatives_of(case))
    scores = (queries * jnp.exp(log_scale)) @ rows.T + bias[None, :]
    scores = scores[row]
    positive = jnp.take_along_axis(scores, np.asarray(terms.ids)[:, None], axis=1)[:, 0]
    # As many ranks as B, or as the batch has candidates.
    most = spec.sampled if sample is None or sample.num_drawn is None else spec.num_labels
    order = jnp.argsort(jnp.where(kept, -scores, jnp.inf), axis=1)[:, :most]
    real = jnp.take_along_axis(kept, order, axis=1)
    ranked = jnp.where(real, jnp.take_along_axis(scores, order, axis=1), 0)
    ordered = Ranked(positive, ranked, real, order, ranks)
    values = reference_in(TERM_LOSSES, spec)(case, ordered)
    return jnp.sum(np.asarray(terms.values, np.float64) * values)


class Ranked(NamedTuple):
    """The scores of T terms, and of their negatives from the highest on."""

    positive: Any  # [T]
    negative: Any  # [T, ranks]; 0 where there is none
    real: Any  # [T, ranks]: where there is one
    labels: Any  # [T, ranks]
    drawn_ranks: Any = None  # [T, draws] of vartheta's subsample


def softmax_values(case: Case, of: Ranked):
    """The loss of each term: [T]."""
    spec, sample = case.spec, case.sample
    log_weight = np.zeros(spec.num_labels)
    if sample is not None and sample.log_weights is not None:
        ids = np.asarray(sample.ids)
        some = ids < spec.num_labels
        log_weight[ids[some]] = np.asarray(sample.log_weights, np.float64)[some]
    logits = of.negative + jnp.asarray(log_weight)[of.labels]
    real = of.real & (np.arange(of.real.shape[1]) < spec.mined)[None, :]
    rivals = jnp.where(real, jnp.exp(logits - of.positive[:, None]), 0).sum(axis=1)
    return jnp.log1p(rivals)


def weighted_phi(case: Case, of: Ranked, margin: Any):
    """The sum of vartheta phi(margin) over the negatives of each term: [T]."""
    vartheta = rank_weights(case.spec, of.drawn_ranks)
    if case.sample is not None and case.sample.num_drawn is not None:
        vartheta = of_those_there(case.spec, vartheta, negatives_of(case).sum(axis=1))
    vartheta = jnp.broadcast_to(vartheta[..., : margin.shape[1]], margin.shape)
    return jnp.where(of.real, vartheta * PHI[case.spec.options.phi](margin), 0).sum(axis=1)


def powl_values(case: Case, of: Ranked):
    return weighted_phi(case, of, of.positive[:, None] - of.negative)


def bowl_values(case: Case, of: Ranked):
    return weighted_phi(case, of, -of.negative) + PHI[case.spec.options.phi](of.positive)


TERM_LOSSES = {"bowl": bowl_values, "powl": powl_values, "softmax": softmax_values}


def reference_in(table: dict[str, Any], spec: HeadSpec) -> Any:
    """The reference of the loss, which must have one: another's would be compared with it."""
    name = spec.head_loss.name
    if name not in table:
        raise KeyError(f"no reference of the loss {name} among {', '.join(table)}: add it there")
    return table[name]


PSI = {
    "linear": lambda x, of: x / of.temperature + of.offset,
    "exponential": lambda x, of: jnp.exp(x / of.temperature),
    "sigmoid": lambda x, of: 1 / (1 + jnp.exp(-x / of.temperature)),
}


def lists_of(case: Case, rows, bias, queries, log_scale):
    """The losses of lists, point by point, each list written out and summed as it is defined."""
    spec, of = case.spec, case.spec.head_loss
    ids, weights = np.asarray(case.terms.ids), np.asarray(case.terms.values, np.float64)
    of_row, kept = row_of_term(case), negatives_of(case)
    scores = (queries * jnp.exp(log_scale)) @ rows.T + bias[None, :]
    total = 0.0
    for i in range(len(queries)):
        mine = [t for t in range(len(ids)) if of_row[t] == i and weights[t] != 0]
        if not mine:
            continue
        positive = scores[i, ids[mine]]
        rivals = scores[i, np.flatnonzero(kept[mine[0]])]
        rivals = jnp.sort(rivals)[::-1][: spec.mined]
        total = total + reference_in(LIST_LOSSES, spec)(of, positive, rivals, weights[mine])
    return total


def smoothed_dcg_of(of, positive, rivals, weights):
    share = jnp.exp(jnp.concatenate([positive, rivals]) / of.temperature)
    return -weights.sum() * share[: len(weights)].sum() / share.sum()


def graded(of, positive, rivals):
    """psi of the grades of a list, and of its scores."""
    psi = functools.partial(PSI[of.transformation.name], of=of)
    grades = np.r_[np.full(len(positive), of.grade), np.zeros(len(rivals))]
    return psi(grades), psi(jnp.concatenate([positive, rivals]))


def listnet_of(of, positive, rivals, weights):
    grades, scores = graded(of, positive, rivals)
    return -weights.sum() * ((grades / grades.sum()) @ jnp.log(scores / scores.sum()))


def rankcosine_of(of, positive, rivals, weights):
    grades, scores = graded(of, positive, rivals)
    cosine = grades @ scores / jnp.sqrt((grades @ grades) * (scores @ scores))
    return weights.sum() * (1 - cosine) / 2


def listmle_of(of, positive, rivals, weights):
    """One place after the other, the best positive that is left."""
    psi = functools.partial(PSI[of.transformation.name], of=of)
    order = jnp.argsort(-positive)
    placed = psi(positive[order])
    rest = jnp.stack([placed[p:].sum() for p in range(len(weights))]) + psi(rivals).sum()
    return jnp.asarray(weights)[order] @ -jnp.log(placed / rest)


LIST_LOSSES = {
    "listnet": listnet_of,
    "listmle": listmle_of,
    "rankcosine": rankcosine_of,
    "smoothed-dcg": smoothed_dcg_of,
}


def derivatives_of(case: Case, *, ranks=None):
    """The loss and its gradients as a function of rows, biases, queries and the log of the scale.

    Of the case it takes the settings, the terms and the sample: cases that differ in the rest share
    one program.
    """
    loss = functools.partial(loss_of, case, ranks=ranks)
    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3)), compiler_options=QUICK)


def reference(case: Case, *, ranks=None, project: bool = True, derivatives=None) -> Wanted:
    """The dense step: every row by its gradient, then (`project`) back to unit length.

    `derivatives` are those of `derivatives_of`, where they are compiled already.
    """
    spec, head = case.spec, case.head
    with jax.enable_x64(True):
        rows, queries, log_scale = (
            jnp.asarray(np.asarray(x, np.float64))
            for x in (head.table.rows, case.queries, head.log_scale)
        )
        bias = np.zeros(spec.num_labels) if head.bias is None else head.bias
        bias = jnp.asarray(np.asarray(bias, np.float64))
        derivatives = derivatives or derivatives_of(case, ranks=ranks)
        loss, (grad_rows, grad_bias, grad_queries, grad_log_scale) = derivatives(
            rows, bias, queries, log_scale
        )
        grad_rows, accumulator = np.asarray(grad_rows), head.table.accumulator
        step = grad_rows
        if accumulator is not None:
            accumulator = np.asarray(accumulator, np.float64) + (grad_rows**2).mean(axis=1)
            step = grad_rows / np.sqrt(accumulator + 1e-10)[:, None]
        table = np.asarray(rows) - LEARNING_RATE * step
        if project:
            table /= np.linalg.norm(table, axis=1, keepdims=True)
        return Wanted(
            float(loss),
            grad_rows,
            np.asarray(grad_bias),
            np.asarray(grad_queries),
            float(grad_log_scale),
            table,
            accumulator,
            None if head.bias is None else np.asarray(bias - LEARNING_RATE * grad_bias),
            float(log_scale - SCALE_RATE * grad_log_scale),
        )


def by_sorting(row, count):
    """1 above the count-th highest; the scores equal to it share the remaining ranks equally."""
    real = row > MASKED / 2
    if real.sum() <= count:
        return real.astype(float)
    last = np.sort(row[real])[-count]
    above, equal = row > last, row == last
    return above + equal * (count - above.sum()) / equal.sum()
