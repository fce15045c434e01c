"""The HTTP application: its routes, and the statuses of errors; `service` finds the answers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException

from snm import __version__
from snm.errors import InputError
from snm.prediction.predictor import Predictor
from snm.prediction.thresholds import THRESHOLD_FORMS
from snm.serve.engine import FullError
from snm.serve.http.docs_page import add_docs
from snm.serve.http.middleware import (
    BodyMiddleware,
    HostMiddleware,
    MetricsMiddleware,
    error_response,
)
from snm.serve.limits import Limits
from snm.serve.messages import Answers, Health, Problem, Question
from snm.serve.metrics import Metrics
from snm.serve.reloading import CurrentService, Reload
from snm.serve.requests import TooLargeError, UniqueKeysRoute, as_input_error, shorten
from snm.serve.service import PredictionService

__all__ = ["make_app"]

_FOLDER = Path(__file__).parent
_PATHS = frozenset({"/", "/predict", "/health", "/metrics", "/docs", "/openapi.json"})
_VALID_REQUESTS = "POST /predict, or GET of /health, /metrics, /docs or /"

_ANY_ERROR: dict[int | str, dict[str, Any]] = {
    "default": {"model": Problem, "description": "any other error"}
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in (
        (400, "the request is invalid"),
        (408, "the request took too long to arrive"),
        (413, "the request is too large"),
        (415, "the body has a Content-Encoding"),
        (421, "the Host header has a name that is not allowed"),
        (503, "too many requests are waiting, or the server is stopping"),
    )
}


def make_app(
    predictor: Predictor, limits: Limits, hosts: Sequence[str], reload: Reload[Predictor]
) -> FastAPI:
    """Builds the application, which starts and stops its engine.

    Args:
      predictor: the model, with or without an index.
      limits: of the requests.
      hosts: allowed names in the Host header, beside `localhost` and IP addresses; `*` allows all.
      reload: when and how to reload the model.
    """
    metrics = Metrics()
    current = CurrentService(predictor, lambda model: PredictionService(model, limits, metrics))

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            await current.service.start()
        except Exception as error:
            app.state.failed = error  # `server.run` raises it
            raise
        async with current.reloading(reload):
            yield
        await current.service.stop()

    # The pages of /docs come with the package, so that they work without a network.
    app = FastAPIOffline(
        title="snm",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a client would have to send a POST twice
        responses=_ANY_ERROR,
    )
    app.router.route_class = UniqueKeysRoute
    add_docs(app)
    app.add_middleware(BodyMiddleware, max_bytes=limits.max_bytes, timeout=limits.patience)
    app.add_middleware(HostMiddleware, names=hosts)
    # Outermost, to count refused requests too.
    app.add_middleware(MetricsMiddleware, metrics=metrics, paths=_PATHS)
    _add_error_handlers(app, lambda: current.service.example)

    @app.post("/predict", responses=_ERRORS, response_model_exclude_unset=True)
    async def predict(question: Question, request: Request) -> Answers:
        """The labels of each point with the highest scores.

        The body is JSON, whatever its Content-Type.
        """
        return await current.service.answer(question, request.is_disconnected)

    @app.get("/health")
    async def health() -> Health:
        """That the server answers, and properties of its model."""
        return current.service.health()

    app.head("/health", include_in_schema=False)(health)  # for load balancers

    @app.get("/metrics", include_in_schema=False)
    async def get_metrics() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(_FOLDER / "page.html")

    @app.get("/favicon.svg", include_in_schema=False)
    async def favicon() -> FileResponse:
        return FileResponse(_FOLDER / "favicon.svg")

    return app


def _add_error_handlers(app: FastAPI, example: Callable[[], str]) -> None:
    """Registers handlers that answer every error with a `Problem`.

    Args:
      app: the application.
      example: returns a valid body for the current model.
    """

    def invalid_json(reason: str) -> JSONResponse:
        found = f"no JSON ({reason})"
        return error_response(400, str(InputError("body", found, f"JSON such as {example()}")))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return invalid_json(f"{first['ctx']['error']} at {first['loc'][-1]}")
        field = first["loc"][1] if len(first["loc"]) > 1 else ""
        if field in ("labels", "exclude"):  # pydantic would mention one of the two forms only
            expected = "names or ids of labels, or a list of these for each point"
            found = "no label" if first["type"] == "too_short" else "something else"
            return error_response(400, str(InputError(field, found, expected)))
        if field == "threshold":  # the same
            return error_response(
                400, str(InputError(field, shorten(first["input"]), THRESHOLD_FORMS))
            )
        return error_response(
            400, str(as_input_error(first, list(Question.model_fields), example()))
        )

    @app.exception_handler(InputError)
    async def invalid_input(request: Request, error: InputError) -> JSONResponse:
        return error_response(400, str(error))

    @app.exception_handler(TooLargeError)
    async def too_large(request: Request, error: TooLargeError) -> JSONResponse:
        return error_response(413, str(error))

    @app.exception_handler(FullError)
    async def queue_full(request: Request, error: FullError) -> JSONResponse:
        return error_response(503, str(error), {"Retry-After": "1"})

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        if isinstance(error.__cause__, InputError):  # of the body
            return error_response(400, str(error.__cause__))
        if error.status_code == 400:  # FastAPI's, if a body is not Unicode or nested too deeply
            return invalid_json(type(error.__cause__).__name__)
        where, allowed = f"{request.method} {request.url.path}", (error.headers or {}).get("Allow")
        text = f"{where}: {error.detail.lower()}"
        if error.status_code == 404:
            text = str(InputError(where, "no such path", _VALID_REQUESTS))
        elif allowed is not None:
            text = str(InputError(where, request.method, allowed))
        return error_response(error.status_code, text, error.headers)

    @app.exception_handler(Exception)
    async def internal_error(request: Request, error: Exception) -> JSONResponse:
        return error_response(500, "internal error; the server's log has more")
