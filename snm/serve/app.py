"""The HTTP service: routes, error statuses, and how requests become points and answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi_offline import FastAPIOffline
from numpy.typing import NDArray
from starlette.exceptions import HTTPException

from snm import __version__
from snm.errors import InputError
from snm.export.index import IndexedPredictor
from snm.prediction.digits import rounded
from snm.prediction.predictor import Predictor
from snm.prediction.reasons import Reason
from snm.prediction.thresholds import EXPECTED, Threshold
from snm.serve.docs_page import add_docs
from snm.serve.engine import Engine, FullError
from snm.serve.guards import Counted, HostChecked, Limited, Meters, refusal
from snm.serve.limits import Limits
from snm.serve.messages import (
    Answer,
    Answers,
    Health,
    Parts,
    Problem,
    Question,
    Witness,
)
from snm.serve.requests import (
    OnceRoute,
    TooLargeError,
    among_of,
    as_input_error,
    has_names,
    left_out_of,
    rows_of,
    shortened,
)

__all__ = ["make_app"]

_HERE = Path(__file__).parent
_PATHS = frozenset({"/", "/predict", "/health", "/metrics", "/docs", "/openapi.json"})
_LONG = 1 << 16  # characters of the texts of a request that are counted beside other requests

_ANY_ERROR: dict[int | str, dict[str, Any]] = {
    "default": {"model": Problem, "description": "any other error"}
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in (
        (400, "the request is invalid"),
        (408, "the request took too long to arrive"),
        (413, "the request is too large"),
        (421, "the Host header has a name that is not allowed"),
        (503, "too many requests are waiting, or the server is stopping"),
    )
}


def make_app(
    predictor: Predictor | IndexedPredictor, limits: Limits, hosts: Sequence[str] = ()
) -> FastAPI:
    """Builds the application, which starts and stops its engine.

    Args:
      predictor: the model, or the model with an index.
      limits: of the requests.
      hosts: names that requests may use for this server, beside `localhost` and IP addresses; `*`
        allows all names.
    """
    model = predictor.model
    exact = predictor.predictor if isinstance(predictor, IndexedPredictor) else predictor
    meters, reading_names = Meters(), asyncio.Lock()
    most = min(limits.max_k, model.spec.num_labels)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine = Engine(
            predictor,
            most=most,
            queue=limits.queue,
            on_batch=meters.batches.observe,
            on_waiting=meters.waiting.set,
        )
        try:
            await asyncio.to_thread(engine.warm)
            engine.start()
        except Exception as error:
            app.state.failed = error  # for who runs the server
            raise
        app.state.engine = engine
        yield
        await engine.stop()

    # The pages of /docs come with the package, so that they work without a network.
    app = FastAPIOffline(
        title="snm",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        responses=_ANY_ERROR,
    )
    app.router.route_class = OnceRoute
    add_docs(app)
    app.add_middleware(Limited, most=limits.max_bytes, seconds=limits.patience)
    app.add_middleware(HostChecked, names=hosts)
    # Outermost, to count refused requests too.
    app.add_middleware(Counted, meters=meters, paths=_PATHS)
    of_texts = exact.vectorizer is not None
    _answer_errors(app, '{"texts": ["some words"]}' if of_texts else '{"features": [{"3": 0.5}]}')

    @app.post("/predict", responses=_ERRORS, response_model_exclude_unset=True)
    async def predict(question: Question, request: Request) -> Answers:
        """The labels of each point with the highest scores.

        The body is JSON, whatever its Content-Type.
        """
        k, threshold = question.k, None
        if k is not None and k > most:
            raise InputError("k", str(k), f"1 to {most}")
        if question.threshold is not None and exact.calibration is None:
            expected = "one that has them (see GET /health)"
            raise InputError("threshold", "a run without probabilities", expected)
        if question.threshold is not None:
            threshold = exact.threshold(question.threshold)
            k = threshold.k_or_own(k)
        asked_for = question, exact, limits.max_points
        if sum(map(len, question.texts or ())) > _LONG:  # others are answered meanwhile
            rows = await asyncio.to_thread(rows_of, *asked_for)
        else:
            rows = rows_of(*asked_for)
        if has_names(question.labels) or has_names(question.exclude):
            # Of millions of labels the first time takes seconds: others are answered meanwhile.
            async with reading_names:
                await asyncio.to_thread(lambda: exact.id_of_name)
        among = among_of(question.labels, exact, rows.shape[0])
        count = min(k or 5, most)
        left_out = left_out_of(question.exclude, exact, rows.shape[0])
        found = count + max(map(len, left_out), default=0)
        if found > most < model.spec.num_labels:
            expected = f"at most {most} with those to leave out (see --max-k)"
            raise InputError("exclude", f"{found} labels to find", expected)
        asked, reasons = (rows, min(found, most), among), None
        if question.explain:
            gone = request.is_disconnected
            (labels, scores), reasons = await app.state.engine.explained(*asked, gone)
        else:
            labels, scores = await app.state.engine.answer(*asked)
        p = None
        if exact.calibration is not None:
            p = exact.probabilities(scores, ranked=among is None)
        blank = exact.weighting.blank(rows)
        kept = _kept(labels, p, threshold, left_out, count)
        return _as_answers(labels, scores, p, kept, blank, reasons, exact)

    @app.get("/health")
    async def health() -> Health:
        """Whether the service is up, and the properties of its model."""
        return Health(
            labels=model.spec.num_labels,
            features=model.num_features,
            texts=exact.vectorizer is not None,
            names=predictor.label_names is not None,
            probabilities=exact.calibration is not None,
            search="exact" if predictor is exact else "index",
            max_k=most,
        )

    app.head("/health", include_in_schema=False)(health)  # as load balancers ask

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(meters.text(), media_type="text/plain; version=0.0.4")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(_HERE / "page.html")

    @app.get("/favicon.svg", include_in_schema=False)
    async def favicon() -> FileResponse:
        return FileResponse(_HERE / "favicon.svg")

    return app


def _kept(
    labels: NDArray[np.int32],
    p: NDArray[np.float32] | None,
    threshold: Threshold | None,
    left_out: list[NDArray[np.int32]],
    count: int,
) -> NDArray[np.bool_]:
    """Which labels are answers, bool [n, k], `count` a point at most.

    Args:
      labels: int32 [n, k], best first; -1 where there is none, as an index may find fewer, and
        there may be fewer to choose from.
      p: float32 [n, k], probabilities, if the model has them.
      threshold: what leaves answers out, or None; it needs probabilities.
      left_out: labels that are no answers, of each point, or none.
      count: the number of labels that are asked for.
    """
    kept = labels >= 0
    if threshold is not None:
        assert p is not None
        kept = threshold(labels, p)
    for number, ids in enumerate(left_out):
        kept[number] &= ~np.isin(labels[number], ids)
    return kept & (np.cumsum(kept, axis=1) <= count)


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
                scores=rounded(scores[number][found].tolist()),
                probabilities=None if p is None else rounded(p[number][found].tolist()),
                unknown=bool(blank[number]),
                **why,
            )
        )
    return Answers(answers=answers)


def _answer_errors(app: FastAPI, example: str) -> None:
    """Gives every error the shape of `Problem`.

    Args:
      app: the application.
      example: a body that its model answers.
    """

    def no_json(reason: str) -> JSONResponse:
        found = f"no JSON ({reason})"
        return refusal(400, str(InputError("body", found, f"JSON such as {example}")))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return no_json(f"{first['ctx']['error']} at {first['loc'][-1]}")
        place = first["loc"][1] if len(first["loc"]) > 1 else ""
        if place in ("labels", "exclude"):  # pydantic would tell of one of the two forms
            expected = "names or ids of labels, or a list of these for each point"
            found = "no label" if first["type"] == "too_short" else "something else"
            return refusal(400, str(InputError(place, found, expected)))
        if place == "threshold":  # the same
            return refusal(400, str(InputError(place, shortened(first["input"]), EXPECTED)))
        return refusal(400, str(as_input_error(first, list(Question.model_fields), example)))

    @app.exception_handler(InputError)
    async def unusable(request: Request, error: InputError) -> JSONResponse:
        return refusal(400, str(error))

    @app.exception_handler(TooLargeError)
    async def large(request: Request, error: TooLargeError) -> JSONResponse:
        return refusal(413, str(error))

    @app.exception_handler(FullError)
    async def full(request: Request, error: FullError) -> JSONResponse:
        return refusal(503, str(error), {"Retry-After": "1"})

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> JSONResponse:
        if isinstance(error.__cause__, InputError):  # of the body
            return refusal(400, str(error.__cause__))
        if error.status_code == 400:  # FastAPI's, of a body that is no Unicode or nested too deeply
            return no_json(type(error.__cause__).__name__)
        text = f"{request.method} {request.url.path}: {error.detail.lower()}"
        return refusal(error.status_code, text, error.headers)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        return refusal(500, "internal error; the server's log has more")


def _as_fields(reasons: list[Reason], predictor: Predictor) -> dict[str, Any]:
    """The terms of the scores of a point, and who voted for its labels if there is a memory."""
    words = None if predictor.vectorizer is None else predictor.vectorizer.vocabulary
    parts = [Parts(**reason.as_json(words)) for reason in reasons]
    if predictor.memory is None:
        return {"parts": parts}
    voters = [reason.witnesses_as_json(words) for reason in reasons]
    because = [[Witness(**one) for one in of_label] for of_label in voters]
    return {"parts": parts, "because": because}
