"""JSON as typed values: what fits, what does not, and what stays out of a file."""

import dataclasses
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from snm.config.marks import at_least
from snm.errors import InputError
from snm.runs.schema import MemoryRecord, RunOrigin
from snm.runs.typed_json import as_json, parse_json


@dataclasses.dataclass(frozen=True)
class Point:
    at: tuple[float, float]
    count: Annotated[int, at_least(1)] | None = None

    def __post_init__(self):
        if self.at[0] > self.at[1]:
            raise ValueError("at that ascends")


@dataclasses.dataclass(frozen=True)
class Shape:
    flag: bool
    size: float
    names: tuple[str, ...]
    kind: Literal["open", "closed"]
    first: Point
    others: dict[str, Point]
    any: Any


class Loose(TypedDict):
    size: float
    count: NotRequired[int]


WHOLE = {"flag": True, "size": 3, "names": ["a", "b"], "kind": "open", "first": {"at": [1, 2.5]},
         "others": {"x": {"at": [0, 0], "count": 2}}, "any": [{}]}  # fmt: skip


def test_a_value_of_each_type():
    found = parse_json(Shape, WHOLE | {"more": 1}, "a.json")
    others = {"x": Point((0.0, 0.0), 2)}
    assert found == Shape(True, 3.0, ("a", "b"), "open", Point((1.0, 2.5)), others, [{}])
    assert type(found.size) is float


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"flag": 1}, "flag: found 1, expected true or false"),
        ({"size": True}, "size: found True, expected a number"),
        ({"size": None}, "size: found None, expected a number"),
        ({"size": 10**400}, f"size: found {'1' + 59 * '0'}, expected a number"),
        ({"names": "ab"}, "names: found 'ab', expected a list"),
        ({"names": ["a", 3]}, "names: found 3, expected a text"),
        ({"kind": []}, "kind: found a list of 0, expected open or closed"),
        ({"first": [1]}, "first: found a list of 1, expected an object"),
        ({"first": {}}, "first: at: found nothing, expected a list of 2"),
        ({"first": {"at": [1]}}, "first: at: found a list of 1, expected a list of 2"),
        ({"first": {"at": [2, 1]}}, "first: found a dict of 1, expected at that ascends"),
        ({"first": {"at": [1, 2], "count": 0}},
         "first: count: found 0, expected 1 or more or null"),
        ({"first": {"at": [1, 2], "count": 1.0}},
         "first: count: found 1.0, expected a whole number or null"),
        ({"others": {"x": 3}}, "others: x: found 3, expected an object"),
        ({"others": []}, "others: found a list of 0, expected an object"),
    ],
)  # fmt: skip
def test_the_first_value_that_does_not_fit_is_named(change, said):
    with pytest.raises(InputError) as error:
        parse_json(Shape, WHOLE | change, "a.json")
    assert str(error.value) == f"a.json: {said}"


def test_a_typed_dict_stays_what_it_is():
    value = {"size": 3, "more": [1]}
    assert parse_json(Loose, value, "a.json") is value
    for change, said in (({"count": None}, "count: found None"), ({"size": ""}, "size: found ''")):
        with pytest.raises(InputError, match=rf"^a\.json: {said}, expected a"):
            parse_json(Loose, value | change, "a.json")


MEMORY = {
    "used": True, "held_out": 6, "gain": 1.0, "error": 0.5, "before": [1.0], "precision": [2.0],
    "settings": {"neighbors": 3, "power": 1.0, "feature_share": 1.0, "weight": 2.0},
    "adjustment": {"strength": 0.5, "before": [1.0], "precision": [2.0]},
    "calibration": {
        "answers": 9,
        **{name: {"method": "logistic", "weights": [1.0, 0.0, 0.0, 0.0], "knots": [0.0, 1.0],
                  "probabilities": [0.1, 0.9], "best_scores": [-9.0, 9.0]}
           for name in ("ranked", "alone")},
        "thresholds": {"macro-f1": {"overall": 0.5, "k": 50, "labels": [1, 4], "own": [0.1, 0.2]}},
    },
    "points": 60, "bytes": 100, "seconds": 0.1,
}  # fmt: skip
ORIGIN = {"data": "a", "sha256": "0", "num_features": 30, "num_labels": 20, "warm_start": None}
GIVEN = {"given": {"epochs": "auto"}}


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (MemoryRecord, MEMORY),
        (MemoryRecord, MEMORY | {"adjustment": None, "calibration": None, "inherited_from": "b"}),
        (RunOrigin, ORIGIN | GIVEN),
        (RunOrigin, ORIGIN | GIVEN | {"in_memory": True, "grown_from": "c"}),
        (RunOrigin, ORIGIN | {"warm_start": "b", "inherited": None} | GIVEN),
        (
            RunOrigin,
            ORIGIN | {"warm_start": "b", "inherited": MEMORY | {"inherited_from": "b"}} | GIVEN,
        ),
    ],
)
def test_a_file_is_written_as_it_was_read(kind, content):
    """Keys that not every run has stay out; `inherited` of null is not one that is missing."""
    written = as_json(parse_json(kind, content, "a.json"))
    assert written == content and list(written) == [
        field.name for field in dataclasses.fields(kind) if field.name in content
    ]


def test_nobody_looked_is_no_content_of_a_file():
    assert parse_json(RunOrigin, ORIGIN, "run.json").inherited == "unknown"
    with pytest.raises(InputError, match=r"inherited: found 'unknown', expected an object or null"):
        parse_json(RunOrigin, ORIGIN | {"inherited": "unknown"}, "run.json")
