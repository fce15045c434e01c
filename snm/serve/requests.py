"""Reads the points and labels of a request; errors say in one line what is wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from fastapi import Request, Response
from fastapi.routing import APIRoute
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.formats.records import repeated_key
from snm.errors import InputError
from snm.prediction.candidates.excluded import Excluded, parse_excluded
from snm.prediction.candidates.parse import parse_candidates, unknown_labels_error
from snm.prediction.inputs import drop_zeros
from snm.prediction.predictor import Predictor
from snm.serve.messages import ENTRIES, LIST, TEXT, VECTOR, Label, Question
from snm.text import counted, nearest

__all__ = [
    "TooLargeError",
    "UniqueKeysRoute",
    "as_input_error",
    "candidate_labels",
    "excluded_labels",
    "feature_rows",
    "has_names",
    "shorten",
]

_ID = re.compile("0|[1-9][0-9]{0,9}")
_MAX_SHOWN = 40  # characters of a wrong value in an error
_TYPE_NAMES = {"list": "a list", "string": "a text", "integer": "a whole number",
          "boolean": "true or false", "dictionary": "an object"}  # fmt: skip
# Parts of error locations that pydantic adds to the names of fields.
_PYDANTIC_PARTS = ("body", "[key]", ENTRIES, VECTOR, TEXT, LIST)
_RANGE_ERRORS = {"greater_than_equal": "ge", "less_than_equal": "le"}


class UniqueKeysRoute(APIRoute):
    """A route that refuses a body with a repeated key; `json` alone would keep the last value."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, with a request that checks its keys."""
        handler = super().get_route_handler()

        async def with_unique_keys(request: Request) -> Response:
            return await handler(_UniqueKeysRequest(request.scope, request.receive))

        return with_unique_keys


class _UniqueKeysRequest(Request):
    async def json(self) -> Any:
        """The body.

        Raises:
          InputError: an object has a key twice.
        """
        return json.loads(await self.body(), object_pairs_hook=_unique_keys)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if (key := repeated_key(pairs)) is not None:
        raise InputError("body", f"{shorten(key)} twice in one object", "each name once")
    return dict(pairs)


class TooLargeError(Exception):
    """A request with too many points."""


def has_names(labels: list[Label] | list[list[Label]] | None) -> bool:
    """Whether some of the labels are names, not ids."""
    return any(isinstance(label, str) for label in _all_labels(labels or []))


def _all_labels(labels: list[Label] | list[list[Label]]) -> Iterator[Label]:
    for of_point in labels:
        yield from of_point if isinstance(of_point, list) else [of_point]


def candidate_labels(
    labels: list[Label] | list[list[Label]] | None, predictor: Predictor, num_points: int
) -> tuple[NDArray[np.int32] | csr_matrix | None, int]:
    """The labels to choose from: int32 [S] for all points, or CSR [n, K]; None is all labels.

    Returns:
      These, and the number of unknown names, which are left out.

    Raises:
      InputError: an id out of range, only unknown names, or another number of lists than of points.
    """
    if labels is None:
        return None, 0
    known, unknown = _known_ids(labels, predictor)
    if unknown and not any(np.size(ids) for ids in known):
        raise unknown_labels_error("labels", next(_all_labels(labels)), unknown)
    return parse_candidates(known, num_points, predictor.model.spec.num_labels), unknown


def excluded_labels(
    labels: list[Label] | list[list[Label]] | None, predictor: Predictor, num_points: int
) -> tuple[Excluded | None, int]:
    """Labels that may not be answers; None if there are none.

    Returns:
      These, and the number of unknown names.

    Raises:
      InputError: an id out of range, or another number of lists than of points.
    """
    if not labels:
        return None, 0
    try:
        known, unknown = _known_ids(labels, predictor)
    except InputError as error:
        raise InputError("exclude", error.found, error.expected) from error
    return parse_excluded(known, num_points, predictor.model.spec.num_labels), unknown


def _known_ids(
    labels: list[Any], predictor: Predictor
) -> tuple[NDArray[np.int32] | list[NDArray[np.int32]], int]:
    """The ids of known labels, int32 [S] or a list of these, and the number of unknown names."""
    if not isinstance(labels[0], list):
        ids = predictor.ids_of(labels, skip_unknown=True)
        return ids, len(labels) - len(ids)
    each = [predictor.ids_of(of_point, skip_unknown=True) for of_point in labels]
    return each, sum(map(len, labels)) - sum(map(len, each))


def feature_rows(question: Question, predictor: Predictor, max_points: int) -> csr_matrix:
    """The points of a request as raw features, CSR [n, d].

    Raises:
      InputError: texts for a model without a vectorizer; ids or values out of range.
      TooLargeError: more points than `max_points`.
    """
    if (question.texts is None) == (question.features is None):
        both_or_neither = "neither texts nor" if question.texts is None else "both texts and"
        raise InputError("body", f"{both_or_neither} features", "one of them")
    points: list[Any] = question.texts if question.texts is not None else question.features or []
    if not points:
        raise InputError("body", "no point", "at least one")
    if len(points) > max_points:
        raise TooLargeError(
            f"{counted(len(points), 'point')}, where a request may have {max_points} "
            "(see --max-points)"
        )
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
        entry = int(np.argmin(np.isfinite(data)))
        where = f"features.{np.searchsorted(starts, entry, side='right') - 1}"
        found = f"a value that is not finite of feature {ids[entry]}"
        raise InputError(where, found, "finite float32 numbers")
    if predictor.weighting.kind == "tfidf" and (data < 0).any():
        raise InputError("features", "a negative value", "counts of at least 0 (tfidf weighting)")
    stored = data, np.asarray(ids, np.int32), starts
    return drop_zeros(csr_matrix(stored, shape=(len(points), width)))


def as_input_error(error: Mapping[str, Any], fields: Sequence[str], example: str) -> InputError:
    """Converts an error of pydantic's.

    Args:
      error: one of pydantic's `ValidationError.errors()`, of a field of the body.
      fields: names of the fields of a request.
      example: a valid body.
    """
    path = [str(part) for part in error["loc"] if part not in _PYDANTIC_PARTS]
    where, kind = ".".join(path) or "body", error["type"]
    if kind == "missing":
        return InputError(where, "nothing", f"JSON such as {example}")
    if kind == "extra_forbidden":
        expected = nearest(where, fields, f"one of {', '.join(fields)}")
        return InputError(where, "an unknown field", expected)
    if kind in _RANGE_ERRORS:
        limit = error["ctx"][_RANGE_ERRORS[kind]]
        expected = f"{limit} or {'more' if kind == 'greater_than_equal' else 'less'}"
        return InputError(where, shorten(error["input"]), expected)
    if kind == "dict_type":
        return InputError(where, shorten(error["input"]), "ids and values, or all values")
    message = error["msg"].removeprefix("Input should be ")
    named = re.match(r"a valid (\w+)", message)
    expected = _TYPE_NAMES.get(named[1], f"a {named[1]}") if named else message
    return InputError(where, shorten(error["input"]), expected)


def shorten(value: Any) -> str:
    """A value as JSON, cut to 40 characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."
