"""From a parsed request to its answer: points, thresholds, labels and reasons; HTTP is in `app`."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.errors import InputError
from snm.prediction.digits import round_values
from snm.prediction.exclusion import Excluded
from snm.prediction.predictor import Predictor
from snm.prediction.reasons import Reason
from snm.prediction.thresholds import Threshold
from snm.serve.aside import aside
from snm.serve.engine import Engine
from snm.serve.guards import Meters
from snm.serve.limits import Limits
from snm.serve.messages import Answer, Answers, Health, Parts, Question, Witness
from snm.serve.requests import among_of, has_names, left_out_of, rows_of

__all__ = ["Answering"]

_DEFAULT_K = 5
_LOOK = 0.05  # seconds
_LONG = 1 << 16  # characters of the texts of a request that are counted beside other requests


class Answering:
    """Answers parsed requests with one model.

    Args:
      predictor: the model.
      limits: of the requests.
      meters: count the batches, and the requests that wait.
    """

    def __init__(self, predictor: Predictor, limits: Limits, meters: Meters):
        self._predictor = predictor
        self._num_labels = predictor.model.spec.num_labels
        self._most = min(limits.max_k, self._num_labels)
        self._max_points = limits.max_points
        self._reading_names = asyncio.Lock()
        self._open = 0  # requests that are being answered
        self._opened = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
        self._engine = Engine(
            predictor,
            most=self._most,
            queue=limits.queue,
            on_batch=meters.batches.observe,
            on_waiting=meters.waiting.set,
        )

    @property
    def example(self) -> str:
        """A body that the model answers, as JSON."""
        texts = self._predictor.vectorizer is not None
        return '{"texts": ["some words"]}' if texts else '{"features": [{"3": 0.5}]}'

    def health(self) -> Health:
        """The properties of the model."""
        predictor = self._predictor
        return Health(
            num_labels=self._num_labels,
            num_features=predictor.model.num_features,
            inputs=["features"] if predictor.vectorizer is None else ["texts", "features"],
            label_names=predictor.label_names is not None,
            probabilities=predictor.calibration is not None,
            search="exact" if predictor.index is None else "index",
            max_k=self._most,
            opened=self._opened,
        )

    async def start(self) -> None:
        """Compiles what answers single points; requests are answered afterwards."""
        await asyncio.wrap_future(aside(self._engine.warm))  # a server that ends waits for none
        self._engine.start()

    async def idle(self) -> None:
        """Waits until no request is open; none may be added meanwhile."""
        while self._open:
            await asyncio.sleep(_LOOK)

    async def stop(self) -> None:
        """Answers the requests that wait, and accepts no more."""
        await self._engine.stop()

    async def answer(self, question: Question, gone: Callable[[], Awaitable[bool]]) -> Answers:
        """The labels of each point with the highest scores.

        Args:
          question: the request.
          gone: whether nobody waits for the answer any more.

        Raises:
          InputError: a request that the model cannot answer.
          TooLargeError: more points than a request may have.
          FullError: too many requests wait, or the server is stopping.
        """
        self._open += 1
        try:
            return await self._answer(question, gone)
        finally:
            self._open -= 1

    async def _answer(self, question: Question, gone: Callable[[], Awaitable[bool]]) -> Answers:
        k, threshold = self._wanted(question)
        rows = await self._rows(question)
        await self._read_names(question)
        among, unknown = among_of(question.labels, self._predictor, rows.shape[0])
        count = min(k or _DEFAULT_K, self._most)
        left_out, more = left_out_of(question.exclude, self._predictor, rows.shape[0])
        asked = rows, self._to_find(count, left_out), among
        reasons: list[list[Reason]] | None = None
        if question.explain:
            (labels, scores), reasons = await self._engine.explained(*asked, gone)
        else:
            labels, scores = await self._engine.answer(*asked)
        p = None
        if self._predictor.calibration is not None:
            p = self._predictor.probabilities(scores, ranked=among is None)
        kept = _kept(labels, p, threshold, left_out, count)
        blank = self._predictor.blank(rows)
        answers = _as_answers(labels, scores, p, kept, blank, reasons, self._predictor)
        if unknown + more:
            answers.unknown_labels = unknown + more
        return answers

    def _wanted(self, question: Question) -> tuple[int | None, Threshold | None]:
        """How many labels a request asks for, and the threshold that leaves some out.

        Raises:
          InputError: too many labels, or a threshold without probabilities.
        """
        k = question.k
        if k is not None and k > self._most:
            raise InputError("k", str(k), f"1 to {self._most}")
        if question.threshold is None:
            return k, None
        if self._predictor.calibration is None:
            expected = "one that has them (see GET /health)"
            raise InputError("threshold", "a run without probabilities", expected)
        threshold = self._predictor.threshold(question.threshold)
        return threshold.k_or_own(k), threshold

    async def _rows(self, question: Question) -> csr_matrix:
        """The points, CSR [n, d]; others are answered while long texts are counted."""
        asked = question, self._predictor, self._max_points
        if sum(map(len, question.texts or ())) > _LONG:
            return await asyncio.to_thread(rows_of, *asked)
        return rows_of(*asked)

    async def _read_names(self, question: Question) -> None:
        """Reads the names of labels if the request has some.

        Of millions of labels the first time takes seconds: others are answered meanwhile.
        """
        if has_names(question.labels) or has_names(question.exclude):
            async with self._reading_names:
                await asyncio.to_thread(lambda: self._predictor.id_of_name)

    def _to_find(self, count: int, left_out: Excluded | None) -> int:
        """How many labels the search must find, so that `count` are left.

        Args:
          count: labels that are asked for.
          left_out: labels that are no answers, or None.

        Raises:
          InputError: more than a search finds.
        """
        found = count + (0 if left_out is None else left_out.max_per_point)
        if found > self._most < self._num_labels:
            expected = f"at most {self._most} with those to leave out (see --max-k)"
            raise InputError("exclude", f"{found} labels to find", expected)
        return min(found, self._most)


def _kept(
    labels: NDArray[np.int32],
    p: NDArray[np.float32] | None,
    threshold: Threshold | None,
    left_out: Excluded | None,
    count: int,
) -> NDArray[np.bool_]:
    """Which labels are answers, bool [n, k], `count` a point at most.

    Args:
      labels: int32 [n, k], best first; -1 where there is none, as an index may find fewer, and
        there may be fewer to choose from.
      p: float32 [n, k], probabilities, if the model has them.
      threshold: what leaves answers out, or None; it needs probabilities.
      left_out: labels that are no answers, or None.
      count: the number of labels that are asked for.
    """
    kept = labels >= 0 if left_out is None else left_out.kept(labels, count)
    if threshold is not None:
        assert p is not None
        kept &= threshold(labels, p)
    return kept


def _as_answers(
    labels: NDArray[np.int32],
    scores: NDArray[np.float32],
    p: NDArray[np.float32] | None,
    kept: NDArray[np.bool_],
    blank: NDArray[np.bool_],
    reasons: list[list[Reason]] | None,
    predictor: Predictor,
) -> Answers:
    """What was found, as a response has it.

    Args:
      labels: int32 [n, k], best first.
      scores: float32 [n, k].
      p: float32 [n, k], probabilities, if the model has them.
      kept: bool [n, k], which of them are answers.
      blank: bool [n], points without a known feature.
      reasons: of each answer, if they were asked for.
      predictor: the model.
    """
    names, answers = predictor.label_names, []
    for number, row in enumerate(labels):
        found = kept[number]
        ids = row[found].tolist()
        why = {}
        if reasons is not None:
            why = _as_fields([reasons[number][i] for i in np.flatnonzero(found)], predictor)
        answers.append(
            Answer(
                labels=ids,
                names=None if names is None else [names[label] for label in ids],
                scores=round_values(scores[number][found].tolist()),
                probabilities=None if p is None else round_values(p[number][found].tolist()),
                unknown=bool(blank[number]),
                **why,
            )
        )
    return Answers(answers=answers)


def _as_fields(reasons: list[Reason], predictor: Predictor) -> dict[str, Any]:
    """The terms of the scores of a point, and who voted for its labels if there is a memory."""
    parts = [Parts(**reason.as_json()) for reason in reasons]
    if predictor.memory is None:
        return {"parts": parts}
    voters = [reason.witnesses_as_json() for reason in reasons]
    because = [[Witness(**one) for one in of_label] for of_label in voters]
    return {"parts": parts, "because": because}
