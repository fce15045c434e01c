"""The HTTP service: routes, request and response models, limits, metrics and error statuses."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, ConfigDict, Field
from scipy.sparse import csr_matrix

from snm import __version__
from snm.errors import InputError
from snm.export.index import IndexedPredictor
from snm.model.predictor import Predictor
from snm.serve.engine import Engine, FullError
from snm.serve.limits import Limits

__all__ = ["make_app"]

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_POINTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Question(BaseModel):
    """Points to label: texts, if the model was trained on texts, or features by id."""

    model_config = ConfigDict(extra="forbid")

    texts: list[str] | None = Field(None, description="one text per point")
    features: list[dict[int, float]] | None = Field(
        None, description="for each point, feature id -> raw value"
    )
    k: int = Field(5, description="labels per point", ge=1)


class Answer(BaseModel):
    """The labels of a point with the highest scores, best first."""

    labels: list[int]
    names: list[str] | None
    scores: list[float]


class Answers(BaseModel):
    """One answer per point, in the order of the request."""

    answers: list[Answer]


class _TooLargeError(Exception):
    pass


def make_app(predictor: Predictor | IndexedPredictor, limits: Limits) -> FastAPI:
    """Builds the application, which starts and stops its engine.

    Args:
      predictor: the model, or the model with an index.
      limits: of the requests.
    """
    model = predictor.model
    exact = predictor.predictor if isinstance(predictor, IndexedPredictor) else predictor
    meters = _Metrics()
    most = min(limits.max_k, model.head.num_labels)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine = Engine(predictor, most=most, queue=limits.queue, on_batch=meters.batches.observe)
        engine.warm()
        meters.waiting.set_function(lambda: engine.waiting)
        engine.start()
        app.state.engine = engine
        yield
        await engine.stop()

    app = FastAPI(title="snm", version=__version__, lifespan=lifespan)
    app.add_middleware(_Limited, most=limits.max_bytes)
    app.add_middleware(_Counted, meters=meters)  # outermost, to count refused requests too

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body") or "body"
        return _refusal(400, f"{where}: {first['msg']}")

    @app.exception_handler(InputError)
    async def unusable(request: Request, error: InputError) -> JSONResponse:
        return _refusal(400, str(error))

    @app.exception_handler(_TooLargeError)
    async def large(request: Request, error: _TooLargeError) -> JSONResponse:
        return _refusal(413, str(error))

    @app.exception_handler(FullError)
    async def full(request: Request, error: FullError) -> JSONResponse:
        return _refusal(503, str(error), {"Retry-After": "1"})

    @app.post("/predict")
    async def predict(question: Question) -> Answers:
        """The labels of each point with the highest scores."""
        if question.k > most:
            raise InputError("k", str(question.k), f"1 to {most}")
        rows = _rows(question, exact, limits.max_points)
        labels, scores = await app.state.engine.answer(rows, question.k)
        answers = []
        for row, row_scores in zip(labels, scores, strict=True):
            found = row >= 0  # an index may find fewer
            ids = row[found].tolist()
            names = None
            if predictor.label_names is not None:
                names = [predictor.label_names[label] for label in ids]
            answers.append(Answer(labels=ids, names=names, scores=row_scores[found].tolist()))
        return Answers(answers=answers)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Whether the service is up, and the properties of its model."""
        return {
            "status": "ok",
            "version": __version__,
            "labels": model.head.num_labels,
            "features": model.num_features,
            "texts": exact.vectorizer is not None,
            "names": predictor.label_names is not None,
            "search": "exact" if predictor is exact else "index",
            "max_k": most,
        }

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(generate_latest(meters.registry), media_type="text/plain; version=0.0.4")

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))

    return app


def _refusal(status: int, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": text}, status, headers)


def _rows(question: Question, predictor: Predictor, most: int) -> csr_matrix:
    """The points of a request as raw features, CSR [n, d].

    Raises:
      InputError: texts for a model without a vectoriser; ids or values out of range.
      _TooLargeError: more points than `most`.
    """
    if (question.texts is None) == (question.features is None):
        raise InputError("body", "both or neither of texts and features", "one of them")
    points: list[Any] = question.texts if question.texts is not None else question.features or []
    if not points:
        raise InputError("body", "no point", "at least one")
    if len(points) > most:
        raise _TooLargeError(f"{len(points)} points, where a request may have {most}")
    if question.texts is not None:
        if predictor.vectorizer is None:
            raise InputError("texts", "a model of features", "features")
        return predictor.vectorizer.transform(question.texts)
    width = predictor.model.num_features
    ids, values, starts = [], [], [0]
    for number, point in enumerate(points):
        for index in sorted(point):
            if not 0 <= index < width:
                expected = f"an id from 0 to {width - 1}"
                raise InputError(f"features.{number}", f"feature {index}", expected)
            ids.append(index)
            values.append(point[index])
        starts.append(len(ids))
    with np.errstate(over="ignore"):
        data = np.asarray(values, np.float32)
    if not np.isfinite(data).all():
        raise InputError("features", "a value that is not finite", "finite float32 numbers")
    if predictor.weighting.kind == "tfidf" and (data < 0).any():
        raise InputError("features", "a negative value", "counts of at least 0 (tfidf weighting)")
    return csr_matrix((data, np.asarray(ids, np.int32), starts), shape=(len(points), width))


class _Metrics:
    """The metrics of `/metrics`, in a separate registry, so that a process can run several apps."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        options: dict[str, Any] = {"registry": self.registry, "namespace": "snm"}
        self.requests = Counter("requests", "Requests answered", ["path", "status"], **options)
        self.seconds = Histogram(
            "request_seconds", "Seconds to an answer", ["path"], buckets=_SECONDS, **options
        )
        self.batches = Histogram("batch_points", "Points of a batch", buckets=_POINTS, **options)
        self.waiting = Gauge("waiting_requests", "Requests in the queue", **options)


class _Counted:
    """ASGI middleware: counts requests and measures their time."""

    def __init__(self, app: Any, meters: _Metrics):
        self._app, self._meters = app, meters

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def record_status(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, record_status)
        finally:
            # Unknown paths share one label, so that clients cannot fill the registry.
            path = getattr(scope.get("route"), "path", "other")
            self._meters.requests.labels(path, str(status)).inc()
            self._meters.seconds.labels(path).observe(time.perf_counter() - start)


class _Limited:
    """ASGI middleware: refuses bodies over a limit, by Content-Length or while reading them."""

    def __init__(self, app: Any, most: int):
        self._app, self._most = app, most

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"0")
        text = f"a body of over {self._most} bytes"
        if length.isdigit() and int(length) > self._most:
            await _refusal(413, text)(scope, receive, send)
            return
        # The body is read here, before the response starts, so that it can still be refused.
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._most:
                await _refusal(413, text)(scope, receive, send)
                return
        sent = False

        async def replay() -> Any:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)
