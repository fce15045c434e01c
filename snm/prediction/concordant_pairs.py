"""Counts, for each relevant label, the irrelevant labels with a lower score, for the AUC."""

from __future__ import annotations

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import make_block, power_of_two
from snm.distributed.processes import replicate
from snm.prediction.fitted_model import make_blocks
from snm.prediction.predictor import Predictor
from snm.prediction.programs import jitted_concordant_counts
from snm.topk.blocks import Masked

__all__ = ["count_concordant_pairs"]


def count_concordant_pairs(
    predictor: Predictor, features: csr_matrix, labels: csr_matrix, left_out: NDArray
) -> Iterator[tuple[int, NDArray[np.int32]]]:
    """For each relevant label, twice the number of irrelevant labels with a lower score.

    Args:
      predictor: whose model scores, without its memory.
      features: CSR [n, d], not weighted.
      labels: CSR [n, K], the relevant ones, canonical.
      left_out: int [f, 2], pairs (row, label) that are neither relevant nor irrelevant; ascending
        rows.

    Yields:
      The number of points of a block, and the counts of the entries of their rows of `labels`,
      int32 [entries]. A tie counts once.

    Raises:
      InputError: another number of features.
    """
    mesh, num_labels = predictor.mesh, predictor.model.spec.num_labels
    program, first = jitted_concordant_counts(predictor.model, mesh), 0
    blocks = make_blocks(predictor, None)
    for count, block in blocks.split(predictor.as_rows(features)):
        rows = np.full(predictor.block_rows, -1, np.int64)
        rows[:count] = np.arange(first, first + count)
        relevant = make_block(labels, rows, predictor.block_entries)
        pairs = left_out[slice(*np.searchsorted(left_out[:, 0], [first, first + count]))]
        # Padded to a power of two with slots of no label, so that few lengths are compiled.
        size = power_of_two(len(pairs))
        row, slot = np.zeros(size, np.int32), np.full(size, num_labels, np.int32)
        row[: len(pairs)], slot[: len(pairs)] = pairs[:, 0] - first, pairs[:, 1]
        points = (block, relevant, Masked(jnp.asarray(row), jnp.asarray(slot)))
        counts = program(predictor.state, *replicate(points, mesh))
        yield count, np.asarray(counts)[: int(relevant.starts[-1])]
        first += count
