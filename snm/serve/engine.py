"""Batches waiting requests: one queue, one worker, a few compiled batch sizes.

While a batch is on the device, further requests collect in the queue and form the next batch. So a
single request is answered without delay, and concurrent requests share one pass over the class
rows.

A program takes seconds to compile. Those for single points are compiled before the first request,
and answer everything at first. Those for more points are compiled meanwhile, and so are those that
choose among few labels; for many labels, the first request that names as many waits for them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse, vstack

from snm.errors import counted
from snm.prediction.candidates import pad_ids
from snm.prediction.predictor import Predictor
from snm.prediction.reasons import Reason

__all__ = ["Engine", "FullError"]

_SIZES = (1, 8, 64)  # points per compiled batch
# Features in the block of such a batch. On a CPU the padding costs no time, and a request with more
# waits until a program for it is compiled.
_ENTRIES = {1: 1 << 13, 8: 1 << 14, 64: 1 << 15}
_SMALL_K = 10  # enough for most requests; the top 100 of a batch take twice the time
Answer = tuple[NDArray[np.int32], NDArray[np.float32]]


class FullError(Exception):
    """The queue is full, or the server is stopping."""


@dataclasses.dataclass(frozen=True)
class _Waiting:
    rows: csr_matrix
    k: int
    labels: NDArray[np.int32] | csr_matrix | None
    future: asyncio.Future[Answer]


class Engine:
    """Answers requests in batches.

    Args:
      predictor: the model.
      most: the largest number of labels that a request may ask for.
      queue: the number of requests that may wait, and of explained ones beside them.
      on_batch: called with the number of points of each batch.
      on_waiting: called with the number of requests in the queue when it changes.
    """

    def __init__(
        self,
        predictor: Predictor,
        *,
        most: int,
        queue: int,
        on_batch: Callable[[int], None] = lambda points: None,
        on_waiting: Callable[[int], None] = lambda waiting: None,
    ):
        self.most = most
        self._on_batch, self._on_waiting = on_batch, on_waiting
        self._sized = {size: _sized(predictor, size) for size in _SIZES}
        self._counts = sorted({min(_SMALL_K, most), most})  # labels that a program finds
        # Programs: points, labels to find, and labels to choose from, padded; 0 is all.
        self._ready: set[tuple[int, int, int]] = set()
        self._predictor = predictor
        self._waiting: asyncio.Queue[_Waiting] = asyncio.Queue(queue)
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "snm-engine")
        self._compiler = concurrent.futures.ThreadPoolExecutor(1, "snm-compiler")
        self._explainer = concurrent.futures.ThreadPoolExecutor(1, "snm-explainer")
        self._turn = asyncio.Lock()  # to be explained
        self._explaining = 0  # requests to be explained that are open
        self._worker: asyncio.Task[None] | None = None
        self._stopping = False

    def warm(self) -> None:
        """Compiles what answers single points, and reads texts once."""
        vectorizer = self._predictor.vectorizer
        with concurrent.futures.ThreadPoolExecutor() as pool:
            tasks = [pool.submit(self._compile, _SIZES[0], count, 0) for count in self._counts]
            if vectorizer is not None:
                tasks.append(pool.submit(vectorizer.transform, ["text"]))
        for task in tasks:
            task.result()

    def start(self) -> None:
        """Starts the worker, and to compile the rest; needs a running event loop."""
        self._worker = asyncio.create_task(self._work())
        few = _width(np.zeros(1, np.int32))
        programs = [(_SIZES[0], count, few) for count in self._counts]
        programs += [(size, count, 0) for size in _SIZES[1:] for count in self._counts]
        programs += [(size, count, few) for size in _SIZES[1:] for count in self._counts]
        for program in programs:
            self._compiler.submit(self._compile, *program).add_done_callback(_report)
        row = csr_matrix((1, self._predictor.model.num_features), dtype=np.float32)
        first = np.zeros((1, 1), np.int32)
        self._explainer.submit(self._reasons, row, first).add_done_callback(_report)

    def _compile(self, size: int, count: int, among: int) -> None:
        """Compiles a program, by answering with it.

        Args:
          size: points.
          count: labels to find.
          among: labels to choose from, as `_width` says; 0 is all.
        """
        if (size, count, among) in self._ready:
            return
        width, num_labels = (
            self._predictor.model.num_features,
            self._predictor.model.spec.num_labels,
        )
        ids, starts = np.zeros(size, np.int32), np.arange(size + 1)
        rows = csr_matrix((np.ones(size, np.float32), ids, starts), shape=(size, width))
        labels = np.arange(min(among, num_labels)) if among else None
        self._sized[size].predict(rows, count, labels)
        self._ready.add((size, count, among))

    async def stop(self) -> None:
        """Answers the waiting requests, accepts no more, and ends the worker."""
        self._stopping = True
        await self._waiting.join()
        if self._worker is not None:
            self._worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._worker
        self._thread.shutdown()
        await asyncio.to_thread(self._explainer.shutdown, cancel_futures=True)
        await asyncio.to_thread(self._compiler.shutdown, cancel_futures=True)

    async def answer(
        self, rows: csr_matrix, k: int, labels: NDArray[np.int32] | csr_matrix | None = None
    ) -> Answer:
        """The top k labels of points and their scores: int32 [n, k] and float32 [n, k].

        Args:
          rows: raw features, CSR [n, d].
          k: the number of labels, up to `most`.
          labels: ids to choose from, int32 [S], or of each point, CSR [n, K]; None is all. A label
            of an answer is -1 where there are fewer than k.

        Raises:
          FullError: the queue is full, or the server is stopping.
        """
        if self._stopping:
            raise FullError("the server is stopping")
        loop = asyncio.get_running_loop()
        if isinstance(labels, np.ndarray):
            labels = np.unique(labels)
            if not self._programs(k, labels):  # others are answered while it is compiled
                program = _SIZES[0], self._count(k), _width(labels)
                await loop.run_in_executor(self._compiler, self._compile, *program)
        future: asyncio.Future[Answer] = loop.create_future()
        try:
            self._waiting.put_nowait(_Waiting(rows, k, labels, future))
        except asyncio.QueueFull as error:
            raise FullError(f"{self._waiting.maxsize} requests wait already") from error
        self._on_waiting(self._waiting.qsize())
        return await future

    async def explained(
        self,
        rows: csr_matrix,
        k: int,
        labels: NDArray[np.int32] | csr_matrix | None,
        gone: Callable[[], Awaitable[bool]],
    ) -> tuple[Answer, list[list[Reason]] | None]:
        """As `answer`, and what the scores are sums of, as `Predictor.reasons`.

        Another thread finds them than answers, so that others do not wait for explanations.

        Args:
          rows: as `answer`.
          k: as `answer`.
          labels: as `answer`.
          gone: whether nobody waits for the answer any more; the reasons are then None.

        Raises:
          FullError: the queue is full, as many requests wait to be explained, or the server is
            stopping.
        """
        most = self._waiting.maxsize
        if self._explaining > most:  # the first of them is being explained
            raise FullError(f"{counted(most, 'request')} waiting for explanations already")
        self._explaining += 1
        try:
            answer = await self.answer(rows, k, labels)
            async with self._turn:
                if await gone():
                    return answer, None
                loop = asyncio.get_running_loop()
                found = loop.run_in_executor(self._explainer, self._reasons, rows, answer[0])
                return answer, await found
        finally:
            self._explaining -= 1

    def _reasons(self, rows: csr_matrix, answers: NDArray[np.int32]) -> list[list[Reason]]:
        # In blocks of one size, whose programs answer already.
        return self._sized[_SIZES[0]].reasons(rows, answers)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._waiting.get()]
            points = batch[0].rows.shape[0]
            while points < _SIZES[-1] and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
                points += batch[-1].rows.shape[0]
            self._on_waiting(self._waiting.qsize())
            try:
                # Clients that have disconnected need no answer.
                alive = [item for item in batch if not item.future.cancelled()]
                for group in _by_labels(alive):
                    rows = vstack([item.rows for item in group], format="csr")
                    k, labels = max(item.k for item in group), group[0].labels
                    found = await loop.run_in_executor(self._thread, self._answer, rows, k, labels)
                    self._on_batch(rows.shape[0])
                    _distribute(group, *found)
            except Exception as error:
                for item in batch:
                    if not item.future.done():
                        item.future.set_exception(error)
            finally:
                for _ in batch:
                    self._waiting.task_done()

    def _answer(
        self, rows: csr_matrix, k: int, labels: NDArray[np.int32] | csr_matrix | None = None
    ) -> Answer:
        if issparse(labels):
            return self._sized[_SIZES[0]].predict(rows, k, labels)
        ready = self._programs(k, labels) or _SIZES[:1]
        size = next((size for size in ready if rows.shape[0] <= size), ready[-1])
        return self._sized[size].predict(rows, self._count(k), labels)

    def _count(self, k: int) -> int:
        """The number of labels that the program for k labels finds."""
        return next(count for count in self._counts if k <= count)

    def _programs(self, k: int, labels: NDArray[np.int32] | None) -> list[int]:
        """For how many points there are programs, in ascending order."""
        among = 0 if labels is None else _width(labels)
        return [size for size in _SIZES if (size, self._count(k), among) in self._ready]


def _width(labels: NDArray[np.int32]) -> int:
    """The length of the labels to choose from, as programs pad them."""
    return len(pad_ids(labels, 0))


def _by_labels(batch: list[_Waiting]) -> list[list[_Waiting]]:
    """The requests that can be answered together: those that choose from the same labels."""
    groups: dict[bytes | int | None, list[_Waiting]] = {}
    for item in batch:
        key: bytes | int | None = id(item)  # where each point has its own: alone
        if item.labels is None or isinstance(item.labels, np.ndarray):
            key = None if item.labels is None else item.labels.tobytes()
        groups.setdefault(key, []).append(item)
    return list(groups.values())


def _report(task: concurrent.futures.Future[Any]) -> None:
    """Logs why a program could not be compiled; the smaller ones go on answering."""
    if not task.cancelled() and task.exception() is not None:
        text = "a batch size cannot be used"
        logging.getLogger(__name__).error(text, exc_info=task.exception())


def _distribute(batch: list[_Waiting], labels: NDArray, scores: NDArray) -> None:
    first = 0
    for item in batch:
        last = first + item.rows.shape[0]
        if not item.future.done():
            item.future.set_result((labels[first:last, : item.k], scores[first:last, : item.k]))
        first = last


def _sized(predictor: Predictor, size: int) -> Predictor:
    """The same predictor with batches of `size` points."""
    entries = _ENTRIES[size] - 1
    if predictor.weighting.mean is not None:  # points have all features
        entries = max(entries, size * predictor.model.num_features)
    return dataclasses.replace(predictor, block_rows=size, block_entries=entries)
