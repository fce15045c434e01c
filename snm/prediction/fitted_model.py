"""A trained model and what it needs to read points: raw features or texts -> queries."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.memory.memory import Memory
from snm.model.model import Model, TrainState
from snm.prediction.calibration import UNCALIBRATED, Calibration
from snm.prediction.candidates.parse import ids_by_name, ids_of_labels
from snm.prediction.inputs import as_rows
from snm.prediction.point_blocks import ROWS, Blocks
from snm.prediction.programs import jitted_queries

__all__ = ["FittedModel", "LabelIndex", "make_blocks"]


class LabelIndex(Protocol):
    """An approximate search index over the class rows; it may miss some labels."""

    def search(self, queries: NDArray[np.float32], k: int) -> NDArray[np.int32]:
        """The approximate top k labels, by the scores of the model without a memory.

        Args:
          queries: float32 [n, members * dim], from `FittedModel.queries`.
          k: the number of labels, up to K.

        Returns:
          int32 [n, k], best first, padded with -1.
        """


@dataclasses.dataclass(frozen=True, eq=False)
class FittedModel:
    """A trained model with everything that prediction needs.

    Attributes:
      model: static description.
      state: parameters.
      weighting: of the features, fitted on the training points.
      label_names: K names, or None.
      mesh: the devices that hold the parameters, or None for one.
      vectorizer: turns texts into features, if the model was trained on texts; else None.
      memory: adds votes for the labels of a point's nearest training points, in one process; or
        None. `queries` do not use it.
      index: a search index that finds the labels to score for each point; None scores all labels.
        A label that it misses is no answer, unless the memory votes for it or a caller passes it.
      calibration: turns scores into probabilities; or None.
      why_uncalibrated: without a calibration, what was found and what is expected, for messages.
      block_rows: the most points per block. The last block is padded, so that all share one
        program; calls with at most 64 or 8 points have blocks of that size.
      block_entries: the fewest feature entries of a padded block, for the same reason.
    """

    model: Model
    state: TrainState
    weighting: Weighting
    label_names: Sequence[str] | None = None
    mesh: Mesh | None = None
    vectorizer: Vectorizer | None = None
    memory: Memory | None = None
    index: LabelIndex | None = None
    calibration: Calibration | None = None
    why_uncalibrated: tuple[str, str] = UNCALIBRATED
    block_rows: int = ROWS
    block_entries: int = 8

    @property
    def words(self) -> Sequence[str] | None:
        """The word of each feature, if the vectorizer keeps words; else None."""
        return None if self.vectorizer is None else self.vectorizer.vocabulary

    def blank(self, rows: csr_matrix) -> NDArray[np.bool_]:
        """Which points of `as_rows` have no known word or feature: bool [n]; see `Weighting`."""
        return self.weighting.blank(rows, of_texts=self.vectorizer is not None)

    def ids_of(
        self, labels: Iterable[int | str], *, skip_unknown: bool = False
    ) -> NDArray[np.int32]:
        """The ids of labels, int32 [S]: texts are names, whole numbers are ids.

        Args:
          labels: names, ids or both.
          skip_unknown: skip names that no label has, such as in a list of all items in stock.

        Raises:
          InputError: an id that is not from 0 to K - 1, an unknown name, the name of several
            labels, a name if the labels have none, or a value that is not a sequence of these.
        """
        if isinstance(labels, str) or not isinstance(labels, Iterable):
            found = "one text" if isinstance(labels, str) else f"{labels!r}"[:40]
            raise InputError("labels", found, "a sequence of ids or names")
        labels = list(labels)
        has_names = any(isinstance(label, str) for label in labels)
        names, num_labels = self.id_of_name if has_names else {}, self.model.spec.num_labels
        return ids_of_labels(labels, num_labels, names, skip_unknown=skip_unknown)

    @functools.cached_property
    def id_of_name(self) -> dict[str, int]:
        """The id of each label name; with millions of labels the first use takes seconds."""
        return ids_by_name(self.label_names or ())

    def queries(self, features: csr_matrix | Sequence[str]) -> Iterator[NDArray[np.float32]]:
        """Queries: their inner products with the class rows are the scores without the biases.

        Args:
          features: as in `Predictor.top`.

        Yields:
          float32 [m, members * dim], a block of points at a time.

        Raises:
          InputError: as in `Predictor.top`.
        """
        rows, embed = self.as_rows(features), jitted_queries(self.model, self.mesh)
        for count, block in make_blocks(self, self.mesh, rows.shape[0]).split(rows):
            yield np.asarray(embed(self.state, block))[:count]

    def as_rows(self, features: csr_matrix | Sequence[str]) -> csr_matrix:
        """Features or texts as CSR [n, d], not weighted.

        Raises:
          InputError: as in `Predictor.top`.
        """
        return as_rows(features, self.model.num_features, self.vectorizer)


def make_blocks(fitted: FittedModel, mesh: Mesh | None, num_points: int | None = None) -> Blocks:
    """The blocks of a model: of the default sizes, or of smaller ones for few points."""
    blocks = Blocks(fitted.weighting, fitted.block_rows, fitted.block_entries, mesh)
    return blocks if num_points is None else blocks.for_points(num_points)
