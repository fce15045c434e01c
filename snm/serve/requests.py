"""What a request asks for: its points and its labels; or what is wrong with it, in one line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import numpy as np
from fastapi import Request, Response
from fastapi.routing import APIRoute
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.errors import InputError, counted, nearest
from snm.prediction.candidates import parse_candidates, unknown_labels_error
from snm.prediction.exclusion import Excluded, parse_excluded
from snm.prediction.inputs import drop_zeros
from snm.prediction.predictor import Predictor
from snm.serve.messages import ENTRIES, LIST, TEXT, VECTOR, Label, Question
from snm.system.repeated_keys import repeated_key

__all__ = [
    "OnceRoute",
    "TooLargeError",
    "among_of",
    "as_input_error",
    "has_names",
    "left_out_of",
    "rows_of",
    "shortened",
]

_ID = re.compile("0|[1-9][0-9]{0,9}")
_SHOWN = 40  # characters of what was found
_NAMES = {"list": "a list", "string": "a text", "integer": "a whole number",
          "boolean": "true or false", "dictionary": "an object"}  # fmt: skip
# Parts of places that pydantic adds.
_NOT_OF_THE_BODY = ("body", "[key]", ENTRIES, VECTOR, TEXT, LIST)
_LEAST = {"greater_than_equal": "ge", "less_than_equal": "le"}


class OnceRoute(APIRoute):
    """A route whose body has each key once: of two values, JSON would keep the last unasked."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, of requests that read their body so."""
        handler = super().get_route_handler()

        async def once(request: Request) -> Response:
            return await handler(_Once(request.scope, request.receive))

        return once


class _Once(Request):
    async def json(self) -> Any:
        """The body.

        Raises:
          InputError: an object has a key twice.
        """
        return json.loads(await self.body(), object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if (twice := repeated_key(pairs)) is not None:
        raise InputError("body", f"{shortened(twice)} twice in one object", "each name once")
    return dict(pairs)


class TooLargeError(Exception):
    """A request of more points than one may have."""


def has_names(labels: list[Label] | list[list[Label]] | None) -> bool:
    """Whether some of the labels are names, not ids."""
    return any(
        isinstance(label, str)
        for of_point in labels or ()
        for label in (of_point if isinstance(of_point, list) else (of_point,))
    )


def among_of(
    labels: list[Label] | list[list[Label]] | None, predictor: Predictor, num_points: int
) -> tuple[NDArray[np.int32] | csr_matrix | None, int]:
    """The labels to choose from: int32 [S] for all points, or CSR [n, K]; None is all.

    Returns:
      These, and the number of names that were left out because no label has them.

    Raises:
      InputError: an id out of range, no known label but unknown ones, or lists of another number
        of points.
    """
    if labels is None:
        return None, 0
    every, each = _flat_or_each(labels)
    known, unknown = _known(each or [every], predictor)
    if unknown and not any(map(len, known)):
        first = (every or [label for of_point in each for label in of_point])[0]
        raise unknown_labels_error("labels", first, unknown)
    if not each:
        return known[0], unknown
    found_of_each = parse_candidates(known, num_points, predictor.model.spec.num_labels)
    assert not isinstance(found_of_each, np.ndarray)
    return found_of_each, unknown


def _flat_or_each(
    labels: list[Label] | list[list[Label]],
) -> tuple[list[Label], list[list[Label]]]:
    """Labels for all points, and those of each; one of the two is empty."""
    every = [label for label in labels if not isinstance(label, list)]
    return every, [of_point for of_point in labels if isinstance(of_point, list)]


def _known(lists: list[list[Label]], predictor: Predictor) -> tuple[list[NDArray[np.int32]], int]:
    """The ids of the known labels of each list, and the number of unknown names."""
    known = [predictor.ids_of(labels, skip_unknown=True) for labels in lists]
    return known, sum(map(len, lists)) - sum(map(len, known))


def left_out_of(
    labels: list[Label] | list[list[Label]] | None, predictor: Predictor, num_points: int
) -> tuple[Excluded | None, int]:
    """Labels that are no answers; None if there are none.

    Returns:
      These, and the number of names that no label has.

    Raises:
      InputError: an id out of range, or lists of another number of points.
    """
    if not labels:
        return None, 0
    every, each = _flat_or_each(labels)
    try:
        known, unknown = _known(each or [every], predictor)
    except InputError as error:
        raise InputError("exclude", error.found, error.expected) from error
    num_labels = predictor.model.spec.num_labels
    return parse_excluded(known if each else known[0], num_points, num_labels), unknown


def rows_of(question: Question, predictor: Predictor, most: int) -> csr_matrix:
    """The points of a request as raw features, CSR [n, d].

    Raises:
      InputError: texts for a model without a vectoriser; ids or values out of range.
      TooLargeError: more points than `most`.
    """
    if (question.texts is None) == (question.features is None):
        raise InputError("body", "both or neither of texts and features", "one of them")
    points: list[Any] = question.texts if question.texts is not None else question.features or []
    if not points:
        raise InputError("body", "no point", "at least one")
    if len(points) > most:
        raise TooLargeError(f"{counted(len(points), 'point')}, where a request may have {most}")
    if question.texts is not None:
        if predictor.vectorizer is None:
            raise InputError("texts", "a model of features", "features")
        return predictor.vectorizer.transform(question.texts)
    return _as_matrix(points, predictor)


def _as_matrix(
    points: Sequence[dict[str, float] | list[float]], predictor: Predictor
) -> csr_matrix:
    """Points as feature id -> raw value, or as d values, as CSR [n, d].

    Raises:
      InputError: an id or a value out of range, or another number of values.
    """
    width = predictor.model.num_features
    ids: list[int] = []
    values: list[float] = []
    starts = [0]
    for number, point in enumerate(points):
        if isinstance(point, list):
            if len(point) != width:
                found = counted(len(point), "value")
                raise InputError(f"features.{number}", found, f"{width}, or ids and values")
            ids.extend(range(width))
            values.extend(point)
            starts.append(len(ids))
            continue
        for name in point:
            if not _ID.fullmatch(name) or int(name) >= width:  # "1" and "01" would be one feature
                expected = f"an id from 0 to {width - 1}"
                raise InputError(f"features.{number}", f"feature {name[:40]}", expected)
        for index, value in sorted((int(name), value) for name, value in point.items()):
            ids.append(index)
            values.append(value)
        starts.append(len(ids))
    with np.errstate(over="ignore"):
        data = np.asarray(values, np.float32)
    if not np.isfinite(data).all():
        raise InputError("features", "a value that is not finite", "finite float32 numbers")
    if predictor.weighting.kind == "tfidf" and (data < 0).any():
        raise InputError("features", "a negative value", "counts of at least 0 (tfidf weighting)")
    stored = data, np.asarray(ids, np.int32), starts
    return drop_zeros(csr_matrix(stored, shape=(len(points), width)))


def as_input_error(error: Mapping[str, Any], fields: Sequence[str], example: str) -> InputError:
    """Pydantic's error of a field: where, what was found, and what was expected.

    Args:
      error: one of pydantic's `ValidationError.errors()`, of a field of the body.
      fields: of a request.
      example: a valid body.
    """
    place = [str(part) for part in error["loc"] if part not in _NOT_OF_THE_BODY]
    where, kind = ".".join(place) or "body", error["type"]
    if kind == "missing":
        return InputError(where, "nothing", f"JSON such as {example}")
    if kind == "extra_forbidden":
        expected = nearest(where, fields, f"one of {', '.join(fields)}")
        return InputError(where, "an unknown field", expected)
    if kind in _LEAST:
        limit = error["ctx"][_LEAST[kind]]
        expected = f"{limit} or {'more' if kind == 'greater_than_equal' else 'less'}"
        return InputError(where, shortened(error["input"]), expected)
    said = error["msg"].removeprefix("Input should be ")
    named = re.match(r"a valid (\w+)", said)
    expected = _NAMES.get(named[1], f"a {named[1]}") if named else said
    return InputError(where, shortened(error["input"]), expected)


def shortened(value: Any) -> str:
    """A part of a body as JSON, at most 40 characters of it."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
