"""The bodies of requests and answers of the HTTP service."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
)

from snm import __version__

__all__ = ["Answer", "Answers", "Health", "Label", "Parts", "Problem", "Question", "Witness"]

Label = StrictInt | StrictStr
"""An id, or a name."""


def _point_form(point: Any) -> str:
    return VECTOR if isinstance(point, list) else ENTRIES


ENTRIES, VECTOR = "entries", "vector"
"""The forms of a point; pydantic names them in the locations of its errors."""
_Point = Annotated[
    Annotated[dict[str, StrictFloat], Tag(ENTRIES)] | Annotated[list[StrictFloat], Tag(VECTOR)],
    Discriminator(_point_form),
]


def _text_form(text: Any) -> str:
    return LIST if isinstance(text, list) else TEXT


TEXT, LIST = "a text", "a list"
_Text = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[list[StrictStr], Tag(LIST)], Discriminator(_text_form)
]


class Question(BaseModel):
    """Points to label: texts, if the model was trained on texts, or features by id."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"texts": ["some words"], "k": 3}]}
    )

    texts: list[_Text] | None = Field(
        None, description="one text per point; of a recommender also a list of its items"
    )
    features: list[_Point] | None = Field(
        None, description="for each point, feature id -> raw value, or a list of all values"
    )
    k: StrictInt | None = Field(
        None,
        description="labels per point; by default 5, or as many as a threshold by name looks at",
        ge=1,
    )
    threshold: StrictFloat | StrictStr | None = Field(
        None,
        description="leave out labels of a lower probability, 0 to 1, or than the one that makes "
        "micro-f1, macro-f1 or f1@k highest",
    )
    labels: list[Label] | list[list[Label]] | None = Field(
        None,
        description="names or ids of the labels to choose from, by default all; or a list of them "
        "for each point. Names that no label has are left out, if there are others",
        min_length=1,
    )
    exclude: list[Label] | list[list[Label]] | None = Field(
        None,
        description="names or ids of labels that are no answers; or a list for each point. Names "
        "that no label has are left out",
    )
    explain: StrictBool = Field(False, description="tell what the scores are sums of")


class Parts(BaseModel):
    """What a score is the sum of."""

    features: list[tuple[int | str, float]] = Field(
        description="features or words that add or take most, and how much"
    )
    other_features: float = Field(description="what the other features add")
    bias: float = Field(description="of the label")
    votes: float = Field(description="of similar training points, where the run has a memory")


class Witness(BaseModel):
    """A training point, or the name of the label, that voted for it."""

    train_row: int | None = Field(description="its number in the training file, from 0")
    label_name: bool = Field(description="whether it is the label's own name")
    similarity: float
    shares: list[int | str] = Field(description="features or words that both points have")


class Answer(BaseModel):
    """The labels of a point with the highest scores, best first."""

    labels: list[int]
    names: list[str] | None
    scores: list[float]
    probabilities: list[float] | None = Field(
        description="that each label is right, if the run has fitted them"
    )
    unknown: bool = Field(
        description="whether the point has no feature, or its text no word or item that the model "
        "knows; its labels are then those that the model gives without any"
    )
    parts: list[Parts] | None = Field(None, description="of each score, with `explain`")
    because: list[list[Witness]] | None = Field(
        None,
        description="with `explain`, who voted for each label, if the run has a memory of "
        "neighbours",
    )


class Answers(BaseModel):
    """One answer per point, in the order of the request."""

    answers: list[Answer]
    unknown_labels: int | None = Field(
        default=None, description="names in labels and exclude that no label has, if there are some"
    )


class Health(BaseModel):
    """That the server answers, and what its model is."""

    status: Literal["ok"] = Field(
        default="ok",
        description="always ok: a server that cannot answer requests does not answer this one",
    )
    snm_version: str = Field(default=__version__, description="the version of snm that answers")
    num_labels: int = Field(description="labels that the model knows; their ids begin at 0")
    num_features: int = Field(description="features that the model knows; their ids begin at 0")
    inputs: list[Literal["texts", "features"]] = Field(
        description="what a request may have: texts, if the model was trained on texts; features"
    )
    label_names: bool = Field(
        description="whether labels have names, which answers tell and requests may use"
    )
    probabilities: bool = Field(
        description="whether answers have probabilities, and requests may have a threshold"
    )
    search: Literal["exact", "index"] = Field(
        description="exact: every label is scored; index: those that a search index finds"
    )
    max_k: int = Field(description="most labels that a request may ask for")
    opened: str = Field(description="when the model was opened, by ISO 8601; SIGHUP opens another")


class Problem(BaseModel):
    """The body of every error response."""

    error: str
