"""The top-k labels of blocks of points, of all labels or of candidates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import power_of_two
from snm.losses.reductions import MASKED
from snm.prediction.candidates.columns import pad_ids, select_columns
from snm.prediction.candidates.excluded import Excluded, parse_excluded
from snm.prediction.candidates.own import top_of_candidates
from snm.prediction.candidates.parse import parse_candidates, parse_k
from snm.prediction.fitted_model import FittedModel, make_blocks
from snm.prediction.point_blocks import place_shared, yield_delayed
from snm.prediction.programs import jitted_queries, jitted_top
from snm.topk.blocks import Best

__all__ = ["PredictRequest", "predict_blocks"]

_MAX_TO_EXCLUDE = 128  # excluded labels up to which finding k + as many labels is fast


class PredictRequest(NamedTuple):
    """The checked arguments of a prediction.

    Attributes:
      rows: the points, CSR [n, d], not weighted.
      k: the number of labels per point.
      among: the candidate labels, int32 [S] for all points or CSR [n, K] for each; None is all.
      excluded: labels to exclude from the answers, or None if there are none.
      to_find: the number of labels to find, so that k are left without the excluded ones.
    """

    rows: csr_matrix
    k: int
    among: NDArray[np.int32] | csr_matrix | None
    excluded: Excluded | None
    to_find: int

    @classmethod
    def of(
        cls,
        fitted: FittedModel,
        features: Any,
        k: int | None,
        labels: Any,
        exclude: Any,
        *,
        ranked: bool = False,
    ) -> PredictRequest:
        """Checks the arguments.

        Args:
          fitted: the model.
          features: as in `Predictor.top`.
          k: as in `Predictor.top`.
          labels: as in `Predictor.top`.
          exclude: as in `Predictor.top`.
          ranked: whether the rank of a label among all labels matters, as for probabilities.

        Raises:
          InputError: as in `Predictor.top`.
        """
        rows, num_labels = fitted.as_rows(features), fitted.model.spec.num_labels
        ids_of, among = fitted.ids_of, None
        if labels is not None:
            among = parse_candidates(labels, rows.shape[0], num_labels, ids_of=ids_of)
        k = parse_k(k, among, num_labels)
        excluded = parse_excluded(exclude, rows.shape[0], num_labels, ids_of)
        if excluded is None:
            return cls(rows, k, among, None, k)
        shared = excluded.shared
        scores_all = among is None and fitted.index is None and not ranked
        if scores_all and shared is not None and _MAX_TO_EXCLUDE < len(shared) < num_labels:
            # So many more labels take longer to find than to make the others the candidates.
            others = np.delete(np.arange(num_labels, dtype=np.int32), shared)
            return cls(rows, k, others, None, k)
        return cls(rows, k, among, excluded, excluded.to_find(k, num_labels))


def predict_blocks(
    fitted: FittedModel, request: PredictRequest
) -> Iterator[tuple[NDArray, NDArray]]:
    """The top labels, a block of points at a time; excluded labels are still among them.

    Args:
      fitted: the model.
      request: the checked arguments.

    Yields:
      int32 [m, to_find] labels, -1 where there are fewer, and float32 [m, to_find] scores.
    """
    model, memory, mesh = fitted.model, fitted.memory, fitted.mesh
    rows, k, among = request.rows, request.to_find, request.among
    blocks = make_blocks(fitted, mesh, rows.shape[0])
    if sparse.issparse(among) or (among is None and fitted.index is not None):
        yield from top_of_candidates(fitted, rows, among, k, blocks.rows)
        return
    ids = None if among is None else pad_ids(among, model.spec.num_labels)
    score = jitted_top(model, k if ids is None else min(k, len(ids)), mesh)
    ids_on_device = None if ids is None else place_shared(ids, mesh)

    def started_blocks() -> Iterator[tuple[int, Best]]:
        """The size and the labels of each block; the device may still compute the labels."""
        first = size = 0
        if memory is not None:
            slots = model.spec.num_labels if among is None else len(among)
            # So one program serves nearly all blocks of few points, whatever their votes.
            size = power_of_two(memory.room_for_additions(blocks.points_with_room, slots))
        for count, block in blocks.split(rows):
            added = queries = None
            if mesh is None or (memory is not None and memory.queries is not None):
                # A separate program, which other methods use too.
                queries = jitted_queries(model, mesh)(fitted.state, block)
            if memory is not None:
                weighted = fitted.weighting.apply(rows[first : first + count], first_row=first)
                votes = memory.additions(weighted, queries)
                votes = votes if among is None else select_columns(votes, among)
                added = blocks.pad_votes(votes, size)
                size = added.rows.shape[-1]
            # On a mesh, each device computes the queries of its own points again.
            shared = queries if mesh is None else None
            yield count, score(fitted.state, block, shared, added, ids_on_device)
            first += count

    for count, best in yield_delayed(started_blocks()):
        labels, scores = np.asarray(best.slots)[:count], np.asarray(best.scores)[:count]
        if among is not None and labels.shape[1] < k:
            padding = ((0, 0), (0, k - labels.shape[1]))
            labels = np.pad(labels, padding)
            scores = np.pad(scores, padding, constant_values=MASKED)
        if model.drop_seen or among is not None:
            labels = np.where(scores > MASKED / 2, labels, -1)
        yield labels, scores
