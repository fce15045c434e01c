"""Model cards, as another YAML library and the Hub's own client read them."""

import dataclasses
import re
import tomllib

import pytest
import tiny

from snm.export.hub.card import Card, model_card

METRICS = {"points": 1500, "points_without_labels": 3, "P@1": 41.5, "P@5": 20.25, "PSP@1": 19.0,
           "PSP@5": float("nan"), "AUC": 99.0}  # fmt: skip
CARD = Card(
    name="wood",
    data="tools",
    counts={"training point": 7000, "label": 1},
    metrics=METRICS,
    settings=tiny.resolved(dataclasses.replace(tiny.CONFIG, score_scale=4.0)),
    reads_texts=True,
    stored=7000,
    license="cc-by-4.0",
    datasets=("me/tools",),
    repository="me/wood",
)


def front(card):
    yaml = pytest.importorskip("yaml")
    text = model_card(card)
    assert text.startswith("---\n")
    return yaml.safe_load(text[4 : text.index("\n---\n", 4)])


def test_the_front_matter():
    found = front(CARD)
    assert found.pop("model-index") == [
        {
            "name": "wood",
            "results": [
                {
                    "task": {
                        "type": "text-classification",
                        "name": "Extreme multi-label classification",
                    },
                    "dataset": {"type": "me/tools", "name": "tools", "split": "test"},
                    "metrics": [
                        {"type": name, "name": name, "value": METRICS[name]}
                        for name in ("P@1", "P@5", "PSP@1")
                    ],
                }
            ],
        }
    ]
    assert found == {
        "library_name": "snm",
        "license": "cc-by-4.0",
        "pipeline_tag": "text-classification",
        "tags": ["extreme-classification", "multi-label-classification", "jax", "snm"],
        "datasets": ["me/tools"],
    }
    bare = front(dataclasses.replace(CARD, license=None, datasets=(), metrics={}))
    assert bare["license"] == "unknown" and not {"datasets", "model-index"} & set(bare)


@pytest.mark.parametrize(
    "name", ['a "b"\\c: d', "- x\n---\n", "näme 日本 \U0001f600", "\x00\x85\u2028"]
)
def test_odd_names_stay_texts(name):
    found = front(dataclasses.replace(CARD, name=name, data=name, license=name, datasets=()))
    assert found["license"] == name and found["model-index"][0]["name"] == name
    assert found["model-index"][0]["results"][0]["dataset"]["name"] == name
    html = model_card(dataclasses.replace(CARD, name="<script>`a`", data="`b`|<img>"))
    body = html[html.index("\n---\n", 4) :]
    assert "<" not in body and "# scripta" in body and "`bimg`" in body


def test_the_body():
    text = model_card(CARD)
    assert 'model = snm.load("hf://me/wood")' in text and "`snm predict hf://me/wood" in text
    assert "`tools`: 7,000 training points, 1 label." in text
    assert "This model holds 7,000 training points" in text
    assert "| P | 41.50 | 20.25 |\n| PSP | 19.00 |  |\n" in text and "1,500 of them" in text
    assert "\n## Licence\n\ncc-by-4.0\n" in text
    assert "with its extra `hub`" in text and "PSnDCG count rare labels more" in text
    assert "`memory` and `logit_adjustment` say what was tried" in text
    settings = tomllib.loads(re.search("```toml\n(.*?)```", text, re.DOTALL)[1])
    assert settings == dataclasses.asdict(CARD.settings)
    other = dataclasses.replace(CARD, reads_texts=False, stored=0, license=None, repository=None)
    text = model_card(other)
    assert "training points**" not in text and "Unknown: ask" in text
    assert 'snm.load("path/to/this/folder")' in text and "predict(features" in text


def test_the_hubs_own_client_reads_it(tmp_path):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    (tmp_path / "README.md").write_text(model_card(CARD), encoding="utf-8")
    data = hub.ModelCard.load(tmp_path / "README.md").data
    assert data.license == "cc-by-4.0" and data.model_name == "wood"
    assert {one.metric_name: one.metric_value for one in data.eval_results} == {
        name: METRICS[name] for name in ("P@1", "P@5", "PSP@1")
    }
