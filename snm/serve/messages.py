"""The JSON bodies of requests and responses of the HTTP service.

Validation stops at the first wrong value: a body of a million of them would fill the memory with
errors, of which one is told.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    model_validator,
)

from snm import __version__
from snm.data.formats.records import json_name

__all__ = [
    "ENTRIES",
    "LIST",
    "TEXT",
    "VECTOR",
    "Answer",
    "Answers",
    "Health",
    "Label",
    "Parts",
    "Problem",
    "Question",
    "Witness",
]

_T = TypeVar("_T")
_List = Annotated[list[_T], Field(fail_fast=True)]

Label = StrictInt | StrictStr
"""The id or the name of a label."""
_Labels = _List[Label] | _List[_List[Label]]


def _detect_point_form(point: Any) -> str:
    return VECTOR if isinstance(point, list) else ENTRIES


def _first_wrong_entry(point: Any) -> Any:
    """Of an object with values that are no numbers, the first of these alone."""
    entries = point.items() if isinstance(point, dict) else ()
    wrong = ({name: value} for name, value in entries if type(value) not in (int, float))
    return next(wrong, point)


ENTRIES, VECTOR = "entries", "vector"
"""The forms of a point, as pydantic names them in the locations of its errors."""
_Entries = Annotated[dict[str, StrictFloat], BeforeValidator(_first_wrong_entry)]
_Point = Annotated[
    Annotated[_Entries, Tag(ENTRIES)] | Annotated[_List[StrictFloat], Tag(VECTOR)],
    Discriminator(_detect_point_form),
]


def _detect_text_form(text: Any) -> str:
    return LIST if isinstance(text, list) else TEXT


def _as_name(item: Any) -> Any:
    name = json_name(item)
    return item if name is None else name


TEXT, LIST = "a text", "a list"
_Item = Annotated[StrictStr, BeforeValidator(_as_name, json_schema_input_type=str | float)]
_Text = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[_List[_Item], Tag(LIST)],
    Discriminator(_detect_text_form),
]


class Question(BaseModel):
    """Points to label: texts, if the model was trained on texts, or features by id."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"texts": ["some words"], "k": 3}]}
    )

    texts: _List[_Text] | None = Field(
        None,
        description="one text per point; for a recommender, a text or a list of names or numbers",
    )
    features: _List[_Point] | None = Field(
        None, description="for each point, feature id -> raw value, or a list of all values"
    )
    k: StrictInt | None = Field(
        None,
        description="labels per point; by default 5, or the k of the named threshold",
        ge=1,
    )
    threshold: StrictFloat | StrictStr | None = Field(
        None,
        description="omit labels whose probability is lower, 0 to 1; or micro-f1, macro-f1 or "
        "f1@k, for the threshold that maximizes this metric",
    )
    labels: _Labels | None = Field(
        None,
        description="names or ids of the labels to choose from, by default all; or a list of them "
        "for each point. Unknown names are ignored, unless all are unknown",
        min_length=1,
    )
    exclude: _Labels | None = Field(
        None,
        description="names or ids of labels to exclude; or a list of them for each point. Unknown "
        "names are ignored",
    )
    explain: StrictBool = Field(False, description="explain the scores: `parts` and `because`")

    @model_validator(mode="before")
    @classmethod
    def _first_unknown_field(cls, body: Any) -> Any:
        """Of a body with unknown fields, the first of these and the known ones."""
        if not isinstance(body, dict):
            return body
        unknown = next((name for name in body if name not in cls.model_fields), None)
        return {name: body[name] for name in (*cls.model_fields, unknown) if name in body}


class Parts(BaseModel):
    """The terms of a score."""

    features: list[tuple[int | str, float]] = Field(
        description="the features or words with the largest contributions, and these contributions"
    )
    other_features: float = Field(description="sum of the contributions of the other features")
    bias: float = Field(description="bias of the label")
    votes: float = Field(description="votes of similar training points, if the run has a memory")


class Witness(BaseModel):
    """A training point, or the name of the label, that voted for a label."""

    train_row: int | None = Field(description="its row in the training file, from 0")
    label_name: bool = Field(description="whether it is the name of the label")
    similarity: float
    shares: list[int | str] = Field(description="features or words that it shares with the point")


class Answer(BaseModel):
    """The labels of a point with the highest scores, best first."""

    labels: list[int]
    names: list[str] | None
    scores: list[float]
    probabilities: list[float] | None = Field(
        description="probability that each label is right, if the run has a calibration"
    )
    unknown: bool = Field(
        description="whether the point has no feature, or its text no word or item that the model "
        "knows; its labels are then those of an empty point"
    )
    parts: list[Parts] | None = Field(None, description="with `explain`, the terms of each score")
    because: list[list[Witness]] | None = Field(
        None,
        description="with `explain`, the training points that voted for each label, if the run "
        "has a memory",
    )


class Answers(BaseModel):
    """One answer per point, in the order of the request."""

    answers: list[Answer]
    unknown_labels: int | None = Field(
        default=None, description="number of unknown names in labels and exclude, if there are any"
    )


class Health(BaseModel):
    """The state of the server, and a description of its model."""

    status: Literal["ok"] = Field(
        default="ok",
        description="always ok: a server that cannot answer requests does not answer this either",
    )
    snm_version: str = Field(default=__version__, description="the version of snm that answers")
    num_labels: int = Field(description="labels of the model; their ids begin at 0")
    num_features: int = Field(description="features of the model; their ids begin at 0")
    inputs: list[Literal["texts", "features"]] = Field(
        description="the inputs that a request may have; texts, if the model was trained on texts"
    )
    label_names: bool = Field(
        description="whether labels have names, which answers contain and requests may use"
    )
    probabilities: bool = Field(
        description="whether answers have probabilities, and requests may have a threshold"
    )
    search: Literal["exact", "index"] = Field(
        description="exact: all labels are scored; index: those that a search index finds"
    )
    max_k: int = Field(description="largest number of labels that a request may ask for")
    opened: str = Field(description="when the model was opened, in ISO 8601; SIGHUP opens it anew")


class Problem(BaseModel):
    """The body of every error response."""

    error: str
