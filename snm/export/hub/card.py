"""The model card of a hub folder: YAML that the Hub reads, and a text for people.

The keys of the YAML are those of the Hub's model cards (huggingface.co/docs/hub/model-cards), with
the metrics as a `model-index`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator

from snm.config.resolved import ResolvedConfig
from snm.config.settings import config_text
from snm.text import counted

__all__ = ["Card", "model_card"]

_METRIC = re.compile(r"(\w+)@(\d+)")
_PLACEHOLDER = "path/to/this/folder"


@dataclasses.dataclass(frozen=True)
class Card:
    """The content of a model card.

    Attributes:
      name: the name of the model.
      data: the name of the data set.
      counts: `training point`, `label`, `feature` -> how many there are.
      metrics: name -> value on the test points; empty if there were none, or unless finished.
      settings: the settings of the run.
      reads_texts: whether the model takes texts; else only features.
      stored: training points that are part of the model.
      license: the id of the licence on the Hub, or None if unknown.
      datasets: ids of data sets on the Hub.
      repository: `owner/name` on the Hub, or None if it is not there.
      finished: whether the training is finished.
    """

    name: str
    data: str
    counts: dict[str, int]
    metrics: dict[str, float]
    settings: ResolvedConfig
    reads_texts: bool
    stored: int = 0
    license: str | None = None
    datasets: tuple[str, ...] = ()
    repository: str | None = None
    finished: bool = True


def model_card(card: Card) -> str:
    """The content of `README.md`.

    Example:
      >>> from snm.config.resolved import RESOLVED, ResolvedConfig, unresolved_values
      >>> from snm.config.settings import preset
      >>> given = unresolved_values(preset("default")) | dict.fromkeys(RESOLVED, 1)
      >>> card = Card("wood", "tools", {}, {}, ResolvedConfig(**given), reads_texts=True)
      >>> model_card(card).splitlines()[:3]
      ['---', 'library_name: "snm"', 'license: "unknown"']
    """
    return "\n".join(["---", *_metadata(card), "---", "", *_body(card)]) + "\n"


def _metadata(card: Card) -> Iterator[str]:
    yield 'library_name: "snm"'
    yield f"license: {_yaml_string(card.license or 'unknown')}"
    if card.reads_texts:
        yield 'pipeline_tag: "text-classification"'
    yield "tags:"
    for tag in ("extreme-classification", "multi-label-classification", "jax", "snm"):
        yield f'- "{tag}"'
    if card.datasets:
        yield "datasets:"
        yield from (f"- {_yaml_string(dataset)}" for dataset in card.datasets)
    metrics = _percentages(card.metrics)
    if not metrics:
        return
    yield "model-index:"
    yield f"- name: {_yaml_string(card.name)}"
    yield "  results:"
    yield "  - task:"
    yield f'      type: "{"text-classification" if card.reads_texts else "other"}"'
    yield '      name: "Extreme multi-label classification"'
    yield "    dataset:"
    yield f"      type: {_yaml_string(card.datasets[0] if card.datasets else card.data)}"
    yield f"      name: {_yaml_string(card.data)}"
    yield '      split: "test"'
    yield "    metrics:"
    for name, value in metrics.items():
        yield f"    - type: {_yaml_string(name)}"
        yield f"      name: {_yaml_string(name)}"
        yield f"      value: {json.dumps(value)}"


def _body(card: Card) -> Iterator[str]:
    config = card.settings
    yield f"# {_without_markup(card.name)}"
    yield ""
    inputs = "texts" if card.reads_texts else "sparse features"
    yield (
        f"An extreme classification model of `snm`, which takes {inputs} and answers with the "
        f"exact best labels. It was trained with Stochastic Negative Mining: loss {config.loss}, "
        f"dim {config.dim}, {counted(config.members, 'member')}."
    )
    yield from ("", "## Use", "", "It needs `snm` with its extra `hub`.", "")
    yield from ("```python", "import snm", "")
    where = _PLACEHOLDER if card.repository is None else f"hf://{card.repository}"
    yield f'model = snm.load("{where}")'
    if card.reads_texts:
        yield 'labels, scores = model.predict(["some text"], k=5)'
    else:
        yield "labels, scores = model.predict(features, k=5)  # SciPy CSR [points, features]"
    yield "```"
    yield ""
    yield f"`snm predict {where} INPUT` and `snm serve {where}` take it too. The files hold arrays"
    yield "and JSON; nothing in them is run."
    yield from ("", "## Data", "")
    counts = ", ".join(counted(count, what) for what, count in card.counts.items())
    yield f"`{_without_markup(card.data)}`: {counts}."
    if card.stored:
        yield ""
        yield (
            f"**This model holds {counted(card.stored, 'training point')}**, whose labels vote for "
            "those of their neighbours: features and labels of each are in `memory.safetensors`. "
            "Share it only where the data may be shared."
        )
    yield from ("", "## Results", "")
    if card.finished:
        yield from _results(card.metrics)
    else:
        yield "None: the training is not finished. The model is its first member as it was."
    yield from ("", "## Licence", "")
    yield (
        _without_markup(card.license) if card.license else "Unknown: ask whoever trained the model."
    )
    yield from ("", "## Settings", "")
    yield (
        "Of the training. `memory` and `logit_adjustment` say what was tried; each is part of the "
        "model only where it paid."
    )
    yield from ("", "```toml", config_text(config).rstrip("\n"), "```")


def _results(metrics: dict[str, float]) -> Iterator[str]:
    """A table of metrics by k."""
    percentages = _percentages(metrics)
    if not percentages:
        yield "None: the data had no test points."
        return
    matches = {name: _METRIC.fullmatch(name) for name in percentages}
    cells = {(m[1], int(m[2])): percentages[name] for name, m in matches.items() if m}
    ks, stems = sorted({k for _, k in cells}), list(dict.fromkeys(stem for stem, _ in cells))
    yield f"On the test points, {int(metrics.get('points', 0)):,} of them, in percent:"
    yield ""
    yield f"| | {' | '.join(f'@{k}' for k in ks)} |"
    yield "|---" * (len(ks) + 1) + "|"
    for stem in stems:
        values = (cells.get((stem, k)) for k in ks)
        shown = " | ".join("" if value is None else f"{value:.2f}" for value in values)
        yield f"| {stem} | {shown} |"
    yield ""
    yield (
        "P is precision, R recall; PSP and PSnDCG count rare labels more (Jain et al., 2016); "
        "coverage is the share of the test points' labels that are right for at least one point."
    )


def _percentages(metrics: dict[str, float]) -> dict[str, float]:
    """The metrics of the best k labels, which are percentages."""
    return {
        name: value
        for name, value in metrics.items()
        if _METRIC.fullmatch(name) and math.isfinite(value)
    }


def _without_markup(text: str) -> str:
    """Removes characters with a meaning in Markdown or for a terminal."""
    return "".join(c for c in text if c.isprintable() and c not in "`<>[]|*")


def _yaml_string(text: str) -> str:
    r"""A quoted YAML string, in ASCII.

    Example:
      >>> print(_yaml_string('a "b": é'))
      "a \"b\": \U000000e9"
    """
    escaped = (c if c.isascii() and c.isprintable() else f"\\U{ord(c):08x}" for c in text)
    return '"' + "".join("\\" + c if c in '"\\' and len(c) == 1 else c for c in escaped) + '"'
