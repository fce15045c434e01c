"""Answers parsed requests: features, thresholds, labels and reasons; HTTP is in `http`."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.errors import InputError
from snm.prediction.answer_lines import round_values
from snm.prediction.candidates.excluded import Excluded
from snm.prediction.candidates.parse import DEFAULT_K
from snm.prediction.predictor import Predictor
from snm.prediction.reasons import Reason
from snm.prediction.thresholds import THRESHOLD_FORMS, Threshold, parse_threshold
from snm.serve.background import run_in_background
from snm.serve.engine import Engine
from snm.serve.limits import Limits
from snm.serve.messages import Answer, Answers, Health, Parts, Question, Witness
from snm.serve.metrics import Metrics
from snm.serve.requests import (
    candidate_labels,
    excluded_labels,
    feature_rows,
    has_names,
    shorten,
)
from snm.text import counted

__all__ = ["PredictionService"]

_POLL_SECONDS = 0.05
_LONG_TEXTS = 1 << 16  # characters; longer texts are vectorized in another thread


class PredictionService:
    """Answers parsed requests with one model.

    Args:
      predictor: the model.
      limits: of the requests.
      metrics: of the server: points of a batch, and requests in the queue.
    """

    def __init__(self, predictor: Predictor, limits: Limits, metrics: Metrics):
        self._predictor = predictor
        self._num_labels = predictor.model.spec.num_labels
        self._max_k = min(limits.max_k, self._num_labels)
        self._max_points = limits.max_points
        self._names_lock = asyncio.Lock()
        self._num_open = 0  # requests that are being answered
        self._opened_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
        self._engine = Engine(
            predictor,
            max_k=self._max_k,
            queue=limits.queue,
            on_batch=metrics.batches.observe,
            on_waiting=metrics.waiting.set,
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
            max_k=self._max_k,
            opened=self._opened_at,
        )

    async def start(self) -> None:
        """Compiles the programs for single points, then accepts requests."""
        # In the background, so that a server that is stopped does not wait for it.
        await asyncio.wrap_future(run_in_background(self._engine.warm_up))
        self._engine.start()

    async def wait_idle(self) -> None:
        """Waits until no request is open; no new one may arrive meanwhile."""
        while self._num_open:
            await asyncio.sleep(_POLL_SECONDS)

    async def stop(self) -> None:
        """Answers the requests that wait, and accepts no more."""
        await self._engine.stop()

    async def answer(
        self, question: Question, is_disconnected: Callable[[], Awaitable[bool]]
    ) -> Answers:
        """The labels of each point with the highest scores.

        Args:
          question: the request.
          is_disconnected: whether the client has gone.

        Raises:
          InputError: a request that the model cannot answer.
          TooLargeError: more points than a request may have.
          FullError: too many requests wait, or the server is stopping.
        """
        self._num_open += 1
        try:
            return await self._answer(question, is_disconnected)
        finally:
            self._num_open -= 1

    async def _answer(
        self, question: Question, is_disconnected: Callable[[], Awaitable[bool]]
    ) -> Answers:
        k, threshold = self._k_and_threshold(question)
        rows = await self._features(question)
        await self._read_names(question)
        candidates, unknown = candidate_labels(question.labels, self._predictor, rows.shape[0])
        count = min(k or DEFAULT_K, self._max_k)
        excluded, unknown_excluded = excluded_labels(
            question.exclude, self._predictor, rows.shape[0]
        )
        to_find = self._search_k(count, excluded)
        p = reasons = None
        place = self._engine.place_to_explain() if question.explain else contextlib.nullcontext()
        with place:
            labels, scores = await self._engine.answer(rows, to_find, candidates)
            if self._predictor.calibration is not None:
                p = self._predictor.probabilities(scores, ranked=candidates is None)
            is_answer = _answer_mask(labels, p, threshold, excluded, count)
            if question.explain:
                first = np.argsort(~is_answer, axis=1, kind="stable")[:, :count]
                shown = np.take_along_axis(np.where(is_answer, labels, -1), first, axis=1)
                reasons = await self._engine.explain(rows, shown, is_disconnected)
        blank = self._predictor.blank(rows)
        answers = _make_answers(labels, scores, p, is_answer, blank, reasons, self._predictor)
        if unknown + unknown_excluded:
            answers.unknown_labels = unknown + unknown_excluded
        return answers

    def _k_and_threshold(self, question: Question) -> tuple[int | None, Threshold | None]:
        """The k of a request, and its threshold; each None if the request has none.

        Raises:
          InputError: too many labels, or a threshold without probabilities.
        """
        k = question.k
        if k is not None and k > self._max_k:
            raise InputError("k", str(k), f"1 to {self._max_k}")
        if question.threshold is None:
            return k, None
        is_name = isinstance(question.threshold, str)
        if is_name and not isinstance(parse_threshold(question.threshold), str):
            # "0.5" is a number on a command line only.
            raise InputError("threshold", shorten(question.threshold), THRESHOLD_FORMS)
        if self._predictor.calibration is None:
            expected = "one that has them (see GET /health)"
            raise InputError("threshold", "a run without probabilities", expected)
        threshold = self._predictor.threshold(question.threshold)
        return threshold.k if k is None else k, threshold

    async def _features(self, question: Question) -> csr_matrix:
        """The raw features, CSR [n, d]; long texts are vectorized in another thread."""
        arguments = question, self._predictor, self._max_points
        if sum(map(len, question.texts or ())) > _LONG_TEXTS:
            return await asyncio.to_thread(feature_rows, *arguments)
        return feature_rows(*arguments)

    async def _read_names(self, question: Question) -> None:
        """Reads the label names of the model if the request has names.

        The first time takes seconds with millions of labels, so it runs in another thread.
        """
        if has_names(question.labels) or has_names(question.exclude):
            async with self._names_lock:
                await asyncio.to_thread(lambda: self._predictor.id_of_name)

    def _search_k(self, count: int, excluded: Excluded | None) -> int:
        """The k of the search, so that `count` labels remain without the excluded ones.

        Args:
          count: labels of a point that the answer has.
          excluded: labels that are not answers, or None.

        Raises:
          InputError: more labels than a search may find.
        """
        k = count + (0 if excluded is None else excluded.max_per_point)
        if k > self._max_k < self._num_labels:
            found = f"{counted(k - count, 'label')} to leave out and k {count}"
            raise InputError("exclude", found, f"at most {self._max_k} together (see --max-k)")
        return min(k, self._max_k)


def _answer_mask(
    labels: NDArray[np.int32],
    p: NDArray[np.float32] | None,
    threshold: Threshold | None,
    excluded: Excluded | None,
    count: int,
) -> NDArray[np.bool_]:
    """Which labels are answers, bool [n, k]; at most `count` per point.

    Args:
      labels: int32 [n, k], best first; -1 where the search found fewer than k, as an index may, or
        where there are fewer candidates.
      p: float32 [n, k], probabilities, if the model has them.
      threshold: removes labels of low probability, or None; needs `p`.
      excluded: labels that are not answers, or None.
      count: labels per point.
    """
    is_answer = labels >= 0 if excluded is None else excluded.kept(labels, count)
    if threshold is not None:
        assert p is not None
        is_answer &= threshold(labels, p)
    return is_answer


def _make_answers(
    labels: NDArray[np.int32],
    scores: NDArray[np.float32],
    p: NDArray[np.float32] | None,
    is_answer: NDArray[np.bool_],
    blank: NDArray[np.bool_],
    reasons: list[list[Reason]] | None,
    predictor: Predictor,
) -> Answers:
    """The response.

    Args:
      labels: int32 [n, k], best first.
      scores: float32 [n, k].
      p: float32 [n, k], probabilities, if the model has them.
      is_answer: bool [n, k].
      blank: bool [n], points without a known feature.
      reasons: of each answer of a point, if the request asks for an explanation.
      predictor: the model.
    """
    names, answers = predictor.label_names, []
    for number, row in enumerate(labels):
        mask = is_answer[number]
        ids = row[mask].tolist()
        explanation = {}
        if reasons is not None:
            explanation = _explanation(reasons[number][: len(ids)], predictor)
        answers.append(
            Answer(
                labels=ids,
                names=None if names is None else [names[label] for label in ids],
                scores=round_values(scores[number][mask].tolist()),
                probabilities=None if p is None else round_values(p[number][mask].tolist()),
                unknown=bool(blank[number]),
                **explanation,
            )
        )
    return Answers(answers=answers)


def _explanation(reasons: list[Reason], predictor: Predictor) -> dict[str, Any]:
    """Fields of an `Answer` that explain its scores; with a memory, also the votes."""
    parts = [Parts(**reason.as_json()) for reason in reasons]
    if predictor.memory is None:
        return {"parts": parts}
    because = [[Witness(**witness) for witness in reason.witnesses_as_json()] for reason in reasons]
    return {"parts": parts, "because": because}
