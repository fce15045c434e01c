"""Batches requests: one queue, one worker, a few compiled batch sizes.

While a batch is on the device, new requests wait in the queue and form the next batch. So a single
request is answered without delay, and concurrent requests share one pass over the class rows.

A program takes seconds to compile. Those for single points are compiled before the first request,
and answer all requests at first. Those for larger batches, and those for a few candidate labels,
are compiled in the background. The first request with more candidates waits for its program. Each
program has room for the votes that a memory has for its points, whatever those are
(`Memory.room_for_additions`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse, vstack

from snm.data.csr import csr_of_ones
from snm.prediction.candidates.columns import pad_ids
from snm.prediction.predictor import Predictor
from snm.prediction.reasons import Reason
from snm.text import counted

__all__ = ["Engine", "FullError"]

_BATCH_SIZES = (1, 8, 64)  # points per compiled batch
# Non-zeros of a compiled batch, by its size. On a CPU the padding costs no time; a request with
# more non-zeros waits until a program for it is compiled.
_MAX_ENTRIES = {1: 1 << 13, 8: 1 << 14, 64: 1 << 15}
_SMALL_K = 10  # enough for most requests; the top 100 of a batch take twice the time
Answer = tuple[NDArray[np.int32], NDArray[np.float32]]


class FullError(Exception):
    """The queue is full, or the server is stopping."""


@dataclasses.dataclass(frozen=True)
class _QueuedRequest:
    rows: csr_matrix
    k: int
    labels: NDArray[np.int32] | csr_matrix | None
    future: asyncio.Future[Answer]


class Engine:
    """Answers requests in batches.

    Args:
      predictor: the model.
      max_k: the largest number of labels that a request may ask for.
      queue: the number of requests that may wait, and of explanations that may wait.
      on_batch: called with the number of points of each batch.
      on_waiting: called with the number of requests in the queue when it changes.
    """

    def __init__(
        self,
        predictor: Predictor,
        *,
        max_k: int,
        queue: int,
        on_batch: Callable[[int], None] = lambda points: None,
        on_waiting: Callable[[int], None] = lambda waiting: None,
    ):
        self.max_k = max_k
        self._on_batch, self._on_waiting = on_batch, on_waiting
        self._predictors = {size: _with_batch_size(predictor, size) for size in _BATCH_SIZES}
        self._compiled_ks = sorted({min(_SMALL_K, max_k), max_k})  # labels that a program finds
        # Compiled programs: batch size, k, and padded number of candidates, or 0 for all labels.
        self._compiled: set[tuple[int, int, int]] = set()
        self._predictor = predictor
        self._queue: asyncio.Queue[_QueuedRequest] = asyncio.Queue(queue)
        self._answer_thread = concurrent.futures.ThreadPoolExecutor(1, "snm-engine")
        self._compile_thread = concurrent.futures.ThreadPoolExecutor(1, "snm-compiler")
        self._explain_thread = concurrent.futures.ThreadPoolExecutor(1, "snm-explainer")
        self._explain_lock = asyncio.Lock()
        self._num_explaining = 0  # open requests for explanations
        self._worker: asyncio.Task[None] | None = None
        self._stopping = False

    def warm_up(self) -> None:
        """Compiles the programs for single points, and runs the vectorizer once."""
        vectorizer = self._predictor.vectorizer
        with concurrent.futures.ThreadPoolExecutor() as pool:
            tasks = [
                pool.submit(self._compile, _BATCH_SIZES[0], count, 0) for count in self._compiled_ks
            ]
            if vectorizer is not None:
                tasks.append(pool.submit(vectorizer.transform, ["text"]))
        for task in tasks:
            task.result()

    def start(self) -> None:
        """Starts the worker, and the compilation of the rest; needs a running event loop."""
        self._worker = asyncio.create_task(self._process_queue())
        few = _padded_length(np.zeros(1, np.int32))
        programs = [(_BATCH_SIZES[0], count, few) for count in self._compiled_ks]
        programs += [(size, count, 0) for size in _BATCH_SIZES[1:] for count in self._compiled_ks]
        programs += [(size, count, few) for size in _BATCH_SIZES[1:] for count in self._compiled_ks]
        for program in programs:
            self._compile_thread.submit(self._compile, *program).add_done_callback(_log_failure)
        row = csr_matrix((1, self._predictor.model.num_features), dtype=np.float32)
        first = np.zeros((1, 1), np.int32)
        self._explain_thread.submit(self._reasons, row, first).add_done_callback(_log_failure)

    def _compile(self, size: int, count: int, num_candidates: int) -> None:
        """Compiles a program by running it once.

        Args:
          size: points of a batch.
          count: labels per point.
          num_candidates: labels to choose from, as padded by `_padded_length`; 0 is all.
        """
        if (size, count, num_candidates) in self._compiled:
            return
        model = self._predictor.model
        ids, starts = np.zeros(size, np.int32), np.arange(size + 1)
        rows = csr_of_ones(ids, starts, (size, model.num_features))
        labels = np.arange(min(num_candidates, model.spec.num_labels)) if num_candidates else None
        self._predictors[size].predict(rows, count, labels)
        self._compiled.add((size, count, num_candidates))

    async def stop(self) -> None:
        """Accepts no more requests, answers those in the queue, and stops the threads."""
        self._stopping = True
        await self._queue.join()
        if self._worker is not None:
            self._worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._worker
        self._answer_thread.shutdown()
        await asyncio.to_thread(self._explain_thread.shutdown, cancel_futures=True)
        await asyncio.to_thread(self._compile_thread.shutdown, cancel_futures=True)

    async def answer(
        self, rows: csr_matrix, k: int, labels: NDArray[np.int32] | csr_matrix | None = None
    ) -> Answer:
        """The top k labels of points and their scores: int32 [n, k] and float32 [n, k].

        Args:
          rows: raw features, CSR [n, d].
          k: the number of labels, up to `max_k`.
          labels: ids to choose from, int32 [S], or of each point, CSR [n, K]; None is all. With
            fewer than k of them, the answer is padded with label -1.

        Raises:
          FullError: the queue is full, or the server is stopping.
        """
        if self._stopping:
            raise FullError("the server is stopping")
        loop = asyncio.get_running_loop()
        if isinstance(labels, np.ndarray):
            labels = np.unique(labels)
            if not self._compiled_sizes(k, labels):
                # In another thread, so that others are answered meanwhile.
                program = _BATCH_SIZES[0], self._compiled_k(k), _padded_length(labels)
                await loop.run_in_executor(self._compile_thread, self._compile, *program)
        future: asyncio.Future[Answer] = loop.create_future()
        try:
            self._queue.put_nowait(_QueuedRequest(rows, k, labels, future))
        except asyncio.QueueFull as error:
            raise FullError(f"{self._queue.maxsize} requests wait already") from error
        self._on_waiting(self._queue.qsize())
        return await future

    @contextlib.contextmanager
    def place_to_explain(self) -> Iterator[None]:
        """Keeps one of the places for requests with explanations while such a request is answered.

        Raises:
          FullError: none is left.
        """
        max_waiting = self._queue.maxsize
        if self._num_explaining > max_waiting:  # one of them does not wait
            raise FullError(f"{counted(max_waiting, 'request')} waiting for explanations already")
        self._num_explaining += 1
        try:
            yield
        finally:
            self._num_explaining -= 1

    async def explain(
        self,
        rows: csr_matrix,
        answers: NDArray[np.int32],
        is_disconnected: Callable[[], Awaitable[bool]],
    ) -> list[list[Reason]] | None:
        """The terms of the scores of answers, as in `Predictor.reasons`.

        Explanations have a thread of their own, so that other requests do not wait for them.

        Args:
          rows: raw features, CSR [n, d].
          answers: int32 [n, k], padded with -1.
          is_disconnected: whether the client has gone.

        Returns:
          The reasons of each answer of each point; None if the client has gone.
        """
        async with self._explain_lock:
            if await is_disconnected():
                return None
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._explain_thread, self._reasons, rows, answers)

    def _reasons(self, rows: csr_matrix, answers: NDArray[np.int32]) -> list[list[Reason]]:
        # With the batch size that is compiled for sure.
        return self._predictors[_BATCH_SIZES[0]].reasons(rows, answers)

    async def _process_queue(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._queue.get()]
            points = batch[0].rows.shape[0]
            while points < _BATCH_SIZES[-1] and not self._queue.empty():
                batch.append(self._queue.get_nowait())
                points += batch[-1].rows.shape[0]
            self._on_waiting(self._queue.qsize())
            try:
                # Clients that have disconnected need no answer.
                alive = [item for item in batch if not item.future.cancelled()]
                for group in _group_by_labels(alive):
                    rows = vstack([item.rows for item in group], format="csr")
                    k, labels = max(item.k for item in group), group[0].labels
                    answer = await loop.run_in_executor(
                        self._answer_thread, self._answer, rows, k, labels
                    )
                    self._on_batch(rows.shape[0])
                    _distribute(group, *answer)
            except Exception as error:
                for item in batch:
                    if not item.future.done():
                        item.future.set_exception(error)
            finally:
                for _ in batch:
                    self._queue.task_done()

    def _answer(
        self, rows: csr_matrix, k: int, labels: NDArray[np.int32] | csr_matrix | None = None
    ) -> Answer:
        if issparse(labels):
            return self._predictors[_BATCH_SIZES[0]].predict(rows, k, labels)
        ready = self._compiled_sizes(k, labels) or _BATCH_SIZES[:1]
        size = next((size for size in ready if rows.shape[0] <= size), ready[-1])
        return self._predictors[size].predict(rows, self._compiled_k(k), labels)

    def _compiled_k(self, k: int) -> int:
        """The k of the smallest program that finds k labels."""
        return next(count for count in self._compiled_ks if k <= count)

    def _compiled_sizes(self, k: int, labels: NDArray[np.int32] | None) -> list[int]:
        """The batch sizes with a compiled program, in ascending order."""
        num_candidates = 0 if labels is None else _padded_length(labels)
        return [
            size
            for size in _BATCH_SIZES
            if (size, self._compiled_k(k), num_candidates) in self._compiled
        ]


def _padded_length(labels: NDArray[np.int32]) -> int:
    """The number of candidate labels as programs pad it."""
    return len(pad_ids(labels, 0))


def _group_by_labels(batch: list[_QueuedRequest]) -> list[list[_QueuedRequest]]:
    """Groups requests with the same candidates, which can be answered in one batch."""
    groups: dict[bytes | int | None, list[_QueuedRequest]] = {}
    for item in batch:
        key: bytes | int | None = id(item)  # candidates of each point: a group of its own
        if item.labels is None or isinstance(item.labels, np.ndarray):
            key = None if item.labels is None else item.labels.tobytes()
        groups.setdefault(key, []).append(item)
    return list(groups.values())


def _log_failure(task: concurrent.futures.Future[Any]) -> None:
    """Logs why a program could not be compiled; the smaller ones still answer."""
    if not task.cancelled() and task.exception() is not None:
        text = "a batch size cannot be used"
        logging.getLogger(__name__).error(text, exc_info=task.exception())


def _distribute(batch: list[_QueuedRequest], labels: NDArray, scores: NDArray) -> None:
    first = 0
    for item in batch:
        last = first + item.rows.shape[0]
        if not item.future.done():
            item.future.set_result((labels[first:last, : item.k], scores[first:last, : item.k]))
        first = last


def _with_batch_size(predictor: Predictor, size: int) -> Predictor:
    """The same predictor with batches of `size` points."""
    entries = _MAX_ENTRIES[size] - 1
    if predictor.weighting.mean is not None:  # centred features are dense
        entries = max(entries, size * predictor.model.num_features)
    return dataclasses.replace(predictor, block_rows=size, block_entries=entries)
