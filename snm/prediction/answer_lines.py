"""The output formats of answers: JSON lines, or rows of `label:score`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snm.errors import InputError

__all__ = ["FORMATS", "AnswerBlock", "AnswerFormat", "round_values"]


def round_values(values: Iterable[float]) -> list[float]:
    """Rounds float32 scores or probabilities to six decimals.

    Example:
      >>> round_values([43.53745651245117, 0.25])
      [43.537457, 0.25]
    """
    return [round(value, 6) for value in values]


class AnswerBlock(NamedTuple):
    """Answers of a block of m points.

    Attributes:
      labels: int32 [m, k], best first, padded with -1.
      scores: float32 [m, k].
      unknown: bool [m], points without a known feature, which get no labels.
      probabilities: float32 [m, k], or None.
      fields: for each point, the fields of its record to pass on; or None.
      reasons: for each point and each of its k labels, the terms of the score; or None.
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


class AnswerFormat:
    """An output format: a start, a line for each point, and an end.

    Args:
      names: of the labels, or None.
      num_labels: K.
    """

    explains: ClassVar[bool] = False
    """Whether the format can hold reasons."""
    seeks: ClassVar[bool] = False
    """Whether it seeks back to the start, so that it needs a file."""

    def __init__(self, names: Sequence[str] | None, num_labels: int):
        self._names, self._num_labels = names, num_labels

    def begin(self, stream: Any) -> None:
        """Writes the header, if the format has one."""

    def lines(self, block: AnswerBlock) -> Iterator[str]:
        """The lines of some points, each with its newline.

        Raises:
          InputError: a field that is passed on cannot be written.
        """
        raise NotImplementedError

    def end(self, stream: Any, rows: int) -> None:
        """Completes the output after the last line; `rows` is the number of points."""


class JsonFormat(AnswerFormat):
    """A JSON object per line: ids, names if there are any, scores, probabilities and reasons."""

    explains = True

    def lines(self, block: AnswerBlock) -> Iterator[str]:
        """See `AnswerFormat.lines`."""
        for number in range(len(block.labels)):
            answer = self._answer(block, number)
            try:
                yield json.dumps(answer, ensure_ascii=False, allow_nan=False) + "\n"
            except ValueError as error:  # NaN or infinity, which JSON does not have
                expected = "finite numbers, as answers repeat the fields of a point in JSON"
                raise InputError("INPUT", ascii(answer.get("fields"))[:120], expected) from error

    def _answer(self, block: AnswerBlock, number: int) -> dict[str, Any]:
        kept = block.kept(number)
        ids = block.labels[number][kept].tolist()
        answer: dict[str, Any] = {} if block.fields is None else {"fields": block.fields[number]}
        answer["labels"] = ids
        if self._names is not None:
            answer["names"] = [self._names[label] for label in ids]
        answer["scores"] = round_values(block.scores[number][kept].tolist())
        if block.probabilities is not None:
            answer["probabilities"] = round_values(block.probabilities[number][kept].tolist())
        if block.reasons is not None:
            reasons = [block.reasons[number][rank] for rank in np.flatnonzero(kept)]
            for name in block.reasons[number][0]:
                answer[name] = [reason[name] for reason in reasons]
        if block.unknown[number]:
            answer["unknown"] = True
        return answer


_COUNT_DIGITS = 12


class SparseFormat(AnswerFormat):
    """Rows as in label files of the Extreme Classification Repository, by ascending label.

    An entry is `label:score`, or `label:probability` if there are probabilities.
    """

    seeks = True

    def begin(self, stream: Any) -> None:
        """A header with zeros for the number of rows, which is known only at the end.

        Readers of decimal numbers skip zeros in front; readers that split a line at each
        space, as pyxclib's does, take no further spaces.
        """
        stream.write(f"{0:0{_COUNT_DIGITS}} {self._num_labels}\n")

    def lines(self, block: AnswerBlock) -> Iterator[str]:
        """See `AnswerFormat.lines`."""
        values = block.scores if block.probabilities is None else block.probabilities
        for number, ids in enumerate(block.labels):
            kept = block.kept(number)
            pairs = sorted(zip(ids[kept].tolist(), values[number][kept].tolist(), strict=True))
            yield " ".join(f"{label}:{value:.6g}" for label, value in pairs) + "\n"

    def end(self, stream: Any, rows: int) -> None:
        """Completes the header."""
        stream.seek(0)
        stream.write(f"{rows:0{_COUNT_DIGITS}}")


FORMATS: dict[str, type[AnswerFormat]] = {"jsonl": JsonFormat, "sparse": SparseFormat}
"""By the name that `snm predict --format` gives them."""
