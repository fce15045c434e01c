"""The forms in which answers are written: JSON lines, or rows of `label:score`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snm.errors import InputError
from snm.prediction.digits import rounded

__all__ = ["FORMS", "Found", "Lines"]


class Found(NamedTuple):
    """Answers of m points.

    Attributes:
      labels: int32 [m, k], best first; -1 where there is none.
      scores: float32 [m, k].
      unknown: bool [m], points without a known feature, whose labels are left out.
      probabilities: float32 [m, k], if they are asked for.
      fields: of each point, what of its record is passed on; or None.
      reasons: of each point, for each of its k labels, what explains the score; or None.
    """

    labels: NDArray[np.int32]
    scores: NDArray[np.float32]
    unknown: NDArray[np.bool_]
    probabilities: NDArray[np.float32] | None = None
    fields: list[dict[str, Any]] | None = None
    reasons: list[list[dict[str, Any]]] | None = None

    def kept(self, number: int) -> NDArray[np.bool_]:
        """Which labels of a point are written: bool [k]."""
        return (self.labels[number] >= 0) & ~self.unknown[number]


class Lines:
    """How answers are written: a start, a line for each point, and an end.

    Args:
      names: of the labels, or None.
      num_labels: K.
    """

    explains: ClassVar[bool] = False
    """Whether there is a place for reasons."""
    seeks: ClassVar[bool] = False
    """Whether it goes back to the beginning, so that it needs a file."""

    def __init__(self, names: Sequence[str] | None, num_labels: int):
        self._names, self._num_labels = names, num_labels

    def begin(self, stream: Any) -> None:
        """Writes what comes before the first line, if anything does."""

    def of(self, found: Found) -> Iterator[str]:
        """The lines of some points, each with its newline.

        Raises:
          InputError: what is passed on of a point cannot be written.
        """
        raise NotImplementedError

    def end(self, stream: Any, rows: int) -> None:
        """Writes what is known after the last line; `rows` is the number of points."""


class JsonLines(Lines):
    """An object a line: ids, names where there are some, scores, and what else is asked for."""

    explains = True

    def of(self, found: Found) -> Iterator[str]:
        """See `Lines.of`."""
        for number in range(len(found.labels)):
            answer = self._answer(found, number)
            try:
                yield json.dumps(answer, ensure_ascii=False, allow_nan=False) + "\n"
            except ValueError as error:  # Python reads such numbers; others need not
                expected = "finite numbers, as answers repeat the fields of a point in JSON"
                raise InputError("INPUT", ascii(answer.get("fields"))[:120], expected) from error

    def _answer(self, found: Found, number: int) -> dict[str, Any]:
        kept = found.kept(number)
        ids = found.labels[number][kept].tolist()
        answer: dict[str, Any] = {} if found.fields is None else {"fields": found.fields[number]}
        answer["labels"] = ids
        if self._names is not None:
            answer["names"] = [self._names[label] for label in ids]
        answer["scores"] = rounded(found.scores[number][kept].tolist())
        if found.probabilities is not None:
            answer["probabilities"] = rounded(found.probabilities[number][kept].tolist())
        if found.reasons is not None:
            shown = [found.reasons[number][place] for place in np.flatnonzero(kept)]
            for name in found.reasons[number][0]:
                answer[name] = [of_label[name] for of_label in shown]
        if found.unknown[number]:
            answer["unknown"] = True
        return answer


class SparseLines(Lines):
    """Rows as in label files of the Extreme Classification Repository, by ascending label.

    An entry is `label:score`, or `label:probability` where these are asked for.
    """

    seeks = True

    def begin(self, stream: Any) -> None:
        """A header with room for the number of rows, which is known only at the end."""
        stream.write(f"{'':>20} {self._num_labels}\n")

    def of(self, found: Found) -> Iterator[str]:
        """See `Lines.of`."""
        values = found.scores if found.probabilities is None else found.probabilities
        for number, ids in enumerate(found.labels):
            kept = found.kept(number)
            pairs = sorted(zip(ids[kept].tolist(), values[number][kept].tolist(), strict=True))
            yield " ".join(f"{label}:{value:.6g}" for label, value in pairs) + "\n"

    def end(self, stream: Any, rows: int) -> None:
        """Completes the header."""
        stream.seek(0)
        stream.write(f"{rows:<20}")


FORMS: dict[str, type[Lines]] = {"jsonl": JsonLines, "sparse": SparseLines}
"""By the name that `snm predict --format` gives them."""
