"""The HTTP service: its routes, and the statuses of errors; answers are found in `answering`."""

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
from snm.serve.answering import Answering
from snm.serve.docs_page import add_docs
from snm.serve.engine import FullError
from snm.serve.guards import Counted, HostChecked, Limited, Meters, refusal
from snm.serve.limits import Limits
from snm.serve.messages import Answers, Health, Problem, Question
from snm.serve.renewal import Current, Renewal
from snm.serve.requests import OnceRoute, TooLargeError, as_input_error, shortened

__all__ = ["make_app"]

_HERE = Path(__file__).parent
_PATHS = frozenset({"/", "/predict", "/health", "/metrics", "/docs", "/openapi.json"})
_REQUESTS = "POST /predict, or GET of /health, /metrics, /docs or /"

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
    predictor: Predictor,
    limits: Limits,
    hosts: Sequence[str] = (),
    renewal: Renewal[Predictor] | None = None,
) -> FastAPI:
    """Builds the application, which starts and stops its engine.

    Args:
      predictor: the model, or the model with an index.
      limits: of the requests.
      hosts: names that requests may use for this server, beside `localhost` and IP addresses; `*`
        allows all names.
      renewal: when another model takes the place of this one; None is never.
    """
    meters = Meters()
    current = Current(predictor, lambda served: Answering(served, limits, meters))

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            await current.answering.start()
        except Exception as error:
            app.state.failed = error  # for who runs the server
            raise
        async with current.renewed(renewal):
            yield
        await current.answering.stop()

    # The pages of /docs come with the package, so that they work without a network.
    app = FastAPIOffline(
        title="snm",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a POST whose path ends in one would be sent twice
        responses=_ANY_ERROR,
    )
    app.router.route_class = OnceRoute
    add_docs(app)
    app.add_middleware(Limited, most=limits.max_bytes, seconds=limits.patience)
    app.add_middleware(HostChecked, names=hosts)
    # Outermost, to count refused requests too.
    app.add_middleware(Counted, meters=meters, paths=_PATHS)
    _answer_errors(app, lambda: current.answering.example)

    @app.post("/predict", responses=_ERRORS, response_model_exclude_unset=True)
    async def predict(question: Question, request: Request) -> Answers:
        """The labels of each point with the highest scores.

        The body is JSON, whatever its Content-Type.
        """
        return await current.answering.answer(question, request.is_disconnected)

    @app.get("/health")
    async def health() -> Health:
        """That the server answers, and what its model is."""
        return current.answering.health()

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


def _answer_errors(app: FastAPI, example: Callable[[], str]) -> None:
    """Gives every error the shape of `Problem`.

    Args:
      app: the application.
      example: a body that its model answers now.
    """

    def no_json(reason: str) -> JSONResponse:
        found = f"no JSON ({reason})"
        return refusal(400, str(InputError("body", found, f"JSON such as {example()}")))

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
            return refusal(400, str(InputError(place, shortened(first["input"]), THRESHOLD_FORMS)))
        return refusal(400, str(as_input_error(first, list(Question.model_fields), example())))

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
        where, allowed = f"{request.method} {request.url.path}", (error.headers or {}).get("Allow")
        text = f"{where}: {error.detail.lower()}"
        if error.status_code == 404:
            text = str(InputError(where, "no such path", _REQUESTS))
        elif allowed is not None:
            text = str(InputError(where, request.method, allowed))
        return refusal(error.status_code, text, error.headers)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        return refusal(500, "internal error; the server's log has more")
