"""The table of verbs, from which the subcommands, `snm --help` and the hints are made.

A new verb needs two things: a dataclass with `__call__` in its package's `cli.py`, and an entry
here. The modules imported here must stay light: they import jax and the rest when a verb runs.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, Union, get_args

import tyro
from tyro.conf import FlagCreatePairsOff, OmitSubcommandPrefixes, Positional, subcommand

from snm.bench.cli import Bench
from snm.bounds.cli import Bounds
from snm.cli.data_verbs.fetch import Fetch, List
from snm.cli.data_verbs.import_files import Import
from snm.cli.data_verbs.interactions import Interactions
from snm.cli.data_verbs.split import Split
from snm.cli.data_verbs.stats import Stats
from snm.cli.data_verbs.synth import Synth
from snm.cli.evaluate import Evaluate
from snm.cli.help_text import unwrap_paragraphs
from snm.cli.plan import Plan
from snm.cli.predict.verb import Predict
from snm.cli.shown_types import fields_with_marks, in_groups, shown_type, with_groups
from snm.cli.train.verb import Train
from snm.compare.cli import Compare
from snm.config.settings import Config
from snm.doctor.cli import Doctor
from snm.errors import flag_of
from snm.export.cli import Export
from snm.grow.cli import Grow
from snm.serve.cli import Serve

__all__ = ["GROUPS", "VERBS", "Verb", "command_type", "find", "options", "overview"]


class Verb(NamedTuple):
    """A verb of the command line.

    Attributes:
      words: what the user types, such as `data stats`.
      kind: dataclass of its arguments; its docstring is the help, and calling an instance runs it.
      arguments: the required ones, for the overview.
      summary: what the verb does, for the overview.
      exits_at_once: whether its process ends by `exit_at_once`.
      again: what the same command does after an interruption, if it goes on.
    """

    words: str
    kind: type
    arguments: str
    summary: str
    exits_at_once: bool = False
    again: str = ""

    @property
    def takes_settings(self) -> bool:
        """Whether the verb takes every setting of a run as an option."""
        return "settings" in {field.name for field in dataclasses.fields(self.kind)}


VERBS = (
    Verb("data stats", Stats, "DATA", "describe a data set"),
    Verb("data synth", Synth, "OUT", "generate a data set"),
    Verb("data import", Import, "FILE --out DATA", "convert texts and labels to a data set"),
    Verb("data interactions", Interactions, "FILE --out DATA", "a data set of users and items"),
    Verb("data split", Split, "FILE --out DATA", "cut a file of points by row numbers"),
    Verb("data list", List, "", "list public data sets"),
    Verb("data fetch", Fetch, "NAME", "download a public data set",
         again="goes on with the download"),
    Verb("train", Train, "DATA --run-dir RUN", "train and evaluate a model",
         again="goes on from the last checkpoint, if there is one"),
    Verb("plan", Plan, "DATA", "predict memory and time of a run"),
    Verb("evaluate", Evaluate, "RUN", "evaluate a trained model on test points"),
    Verb("predict", Predict, "RUN INPUT", "write the best labels of each point"),
    Verb("doctor", Doctor, "DATA|RUN", "find problems and say how to fix them"),
    Verb("export", Export, "RUN --to KIND --out DIR", "write arrays or a search index"),
    Verb("serve", Serve, "RUN", "answer over HTTP", exits_at_once=True),
    Verb("grow", Grow, "RUN --data DATA --out RUN", "add labels and points to a model"),
    Verb("compare", Compare, "DATA --out DIR", "compare losses, samplers and packages",
         again="keeps what is done, and goes on"),  # before and after its runs
    Verb("bounds", Bounds, "RUN", "evaluate generalization bounds"),
    Verb("bench", Bench, "[PART ...]", "time parts against limits and peers"),
)  # fmt: skip
"""All verbs, in the order of `snm --help`, which says what each part of them is for."""

GROUPS = {"data": "Describe, generate, convert and download data sets."}
"""First words that several verbs share, with the help of each."""

_DATA = """DATA is a folder with train.txt and test.txt (other layouts: docs/formats.md),
the name of a fetched data set, or `synthetic`. snm COMMAND --help says more."""


def overview() -> str:
    """`snm --help`: a line for each verb, on one screen of 24 lines of 80 characters."""
    usages = [f"snm {verb.words} {verb.arguments}".rstrip() for verb in VERBS]
    width = max(map(len, usages))
    lines = [
        f"  {usage:<{width}}  {verb.summary}" for usage, verb in zip(usages, VERBS, strict=True)
    ]
    title = "usage: snm COMMAND (extreme classification with Stochastic Negative Mining)"
    versions = f"  {'snm --version':<{width}}  versions, and the devices of jax"
    order = "Commands for data, training and evaluation, deployment, and research:"
    return "\n".join([title, order, *lines, versions, "", _DATA])


def find(words: Sequence[str]) -> Verb | None:
    """The verb that a command line starts with."""
    for verb in VERBS:
        verb_words = verb.words.split()
        if list(words[: len(verb_words)]) == verb_words:
            return verb
    return None


def command_type(settings: Config, asked: Verb | None) -> Any:
    """The type that tyro parses: a union of the verbs; a group is a union within it.

    Args:
      settings: default of each setting, for verbs that take settings.
      asked: the verb of the command line. It alone has the types that help shows, since they take
        time to make. Without one, each verb is described in one line, instead of by its docstring.
    """
    members: dict[str, list[Any]] = {}
    for verb in VERBS:
        first, last = verb.words.split()[0], verb.words.split()[-1]
        members.setdefault(first, []).append(_member(verb, last, settings, asked))
    kinds = [
        Annotated[_union(of_group), subcommand(first, description=GROUPS[first])]
        if first in GROUPS
        else of_group[0]
        for first, of_group in members.items()
    ]
    return OmitSubcommandPrefixes[_union(kinds)]  # type: ignore[misc]


def _member(verb: Verb, name: str, settings: Config, asked: Verb | None) -> Any:
    if verb is not asked:
        return Annotated[verb.kind, subcommand(name, description=verb.summary)]
    description = _help_of(verb.kind)
    if not verb.takes_settings:
        return Annotated[shown_type(verb.kind), subcommand(name, description=description)]
    required = {
        field.name: tyro.MISSING
        for field in dataclasses.fields(verb.kind)
        if field.default is field.default_factory is dataclasses.MISSING
    }
    kind = with_groups(verb.kind)
    default = kind(**required, settings=in_groups(settings))
    return Annotated[kind, subcommand(name, default=default, description=description)]


def _help_of(kind: type) -> str:
    """The docstring with one line per paragraph, as tyro would keep some of its line breaks.

    Without the empty line before the examples, which tyro would double.
    """
    text, *examples = inspect.cleandoc(kind.__doc__ or "").split("For example:\n\n")
    return "\n\n".join(
        [unwrap_paragraphs(text), *(f"For example:\n{example}" for example in examples)]
    )


def _union(kinds: list[Any]) -> Any:
    return Union[tuple(kinds)]  # noqa: UP007 (the members are known at run time only)


# tyro has no public list of the options that it makes of a class.
_POSITIONAL = get_args(Positional[Any])[-1]  # type: ignore[misc]
_NO_NEGATION = get_args(FlagCreatePairsOff[Any])[-1]  # type: ignore[misc]


def options(kind: Any) -> list[str]:
    """The options that tyro derives from a dataclass; most booleans have two, --x and --no-x."""
    names = []
    for field, plain, marks in fields_with_marks(kind):
        name = flag_of(field.name)
        if dataclasses.is_dataclass(plain):
            names += options(plain)
        elif _POSITIONAL not in marks:
            has_negation = plain is bool and _NO_NEGATION not in marks
            names += [name, flag_of(f"no_{field.name}")] if has_negation else [name]
    return names
