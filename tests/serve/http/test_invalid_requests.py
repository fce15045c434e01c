"""Requests that are refused, each with one line that says what is wrong with it."""

import pytest
from pydantic import ValidationError
from serve.served import post

from snm.serve.messages import Question

INVALID = {
    "no JSON": (b"{", "body: found no JSON"),
    "a form": (b"texts=word1", 'expected JSON such as {"texts": ["some words"]}'),
    "a name twice": (b'{"texts": ["a"], "texts": ["b"]}', 'found "texts" twice in one object'),
    "an id twice": (b'{"features": [{"3": 1, "3": 2}]}', 'found "3" twice in one object'),
    "deep JSON": (b"[" * 5000, "body: found no JSON"),
    "no Unicode": (b'{"texts": ["\xff"]}', "body: found no JSON"),
    "nothing": (b"{}", "found neither texts nor features, expected one of them"),
    "both": (b'{"texts": ["a"], "features": [{}]}', "found both texts and features, expec"),
    "an unknown key": (
        b'{"text": ["a"]}',
        "text: found an unknown field, expected for example texts",
    ),
    "no points": (b'{"texts": []}', "no point, expected at least one"),
    "k of 0": (b'{"texts": ["a"], "k": 0}', "k: found 0, expected 1 or more"),
    "a text for k": (b'{"texts": ["a"], "k": "5"}', 'k: found "5", expected a whole number'),
    "true for k": (b'{"texts": ["a"], "k": true}', "k: found true, expected a whole number"),
    "a large k": (b'{"texts": ["a"], "k": 16}', "k: found 16, expected 1 to 15"),
    "an id": (b'{"features": [{}, {"30": 1}]}', "features.1: found feature 30, expected an"),
    "a negative id": (b'{"features": [{"-1": 1}]}', "feature -1, expected an id from 0 to 29"),
    "a word": (
        b'{"features": [{"x": 1}]}',
        "features.0: found feature x, expected an id from 0 to 29",
    ),
    "an id in another form": (b'{"features": [{"1": 1, "01": 2}]}', "found feature 01, expec"),
    "half of a pair": (b'{"features": [{"\\ud800": 1}]}', "found feature \\ud800, expected an"),
    "half of a pair as a threshold": (
        b'{"texts": ["a"], "threshold": "\\ud800"}',
        "threshold: found ",
    ),
    "a number as a threshold of text": (
        b'{"texts": ["a"], "threshold": "0.5"}',
        'threshold: found "0.5", expected ',
    ),
    "a text": (b'{"texts": "a"}', 'texts: found "a", expected a list'),
    "a number": (b'{"texts": [1]}', "texts.0: found 1, expected a text"),
    "a value of text": (
        b'{"features": [{"1": "x"}]}',
        'features.0.1: found "x", expected a number',
    ),
    "true for a number": (
        b'{"features": [{"1": true}]}',
        "features.0.1: found true, expected a number",
    ),
    "a number as a text": (b'{"features": [{"1": "2"}]}', 'found "2", expected a number'),
    "a short list": (
        b'{"features": [{}, [1, 2.5]]}',
        "features.1: found 2 values, expected 30, or ids and values",
    ),
    "a text in a list": (b'{"features": [["x"]]}', 'features.0.0: found "x", expected a num'),
    "a number for a point": (
        b'{"features": [3]}',
        "features.0: found 3, expected ids and values, or",
    ),
    "true for a threshold": (
        b'{"features": [{}], "threshold": true}',
        "threshold: found true, expected a probability from 0 to 1, micro-f1",
    ),
    "a text for explain": (
        b'{"features": [{}], "explain": "yes"}',
        'explain: found "yes", expected true or false',
    ),
    "a list for a body": (b"[]", "body: found [], expected an object"),
    "another field": (b'{"zzz": 1}', "zzz: found an unknown field, expected one of texts, fea"),
    "no body": (b"", "body: found nothing, expected JSON such as"),
    "an overflow": (
        b'{"features": [{"1": 1}, {"0": 1, "1": 1e300}]}',
        "features.1: found a value that is not finite of feature 1",
    ),
    "a negative value": (b'{"features": [{"1": -1}]}', "a negative value"),
    "no labels": (b'{"texts": ["a"], "labels": []}', "labels: found no label"),
    "a label": (b'{"texts": ["a"], "labels": [20]}', "label 20, expected an id from 0 to 19"),
    "a name": (b'{"texts": ["a"], "labels": ["x"]}', "labels: found an unknown label 'x'"),
    "a flag": (b'{"texts": ["a"], "labels": [true]}', "labels: found something else"),
}
"""Body and message of requests that get 400."""

TOO_LARGE = {
    "many points": (b'{"texts": [' + b'"a",' * 20 + b'"a"]}', "21 points, where"),
    "many bytes": (b'{"texts": ["' + b"a" * 10_000 + b'"]}', "a body of over 10000 bytes"),
}
"""The same of 413."""


@pytest.mark.parametrize(
    "body",
    [
        {"texts": [1] * 1000},
        {"texts": [[True] * 1000]},
        {"features": [[""] * 1000]},
        {"features": [dict.fromkeys(map(str, range(1000)), "")]},
        {"labels": [1.5] * 1000},
        {"labels": [[1.5] * 1000]},
        dict.fromkeys(map(str, range(1000))),
    ],
)
def test_the_first_wrong_value_ends_the_validation(body):
    with pytest.raises(ValidationError) as error:
        Question.model_validate(body)
    assert error.value.error_count() <= 4  # one for each form of labels


@pytest.mark.parametrize("what", [*INVALID, *TOO_LARGE])
def test_invalid_requests(address, what):
    body, said = (INVALID | TOO_LARGE)[what]
    answer = post(f"{address}/predict", content=body)
    assert answer.status_code == (400 if what in INVALID else 413), answer.text
    assert list(answer.json()) == ["error"] and said in answer.json()["error"]
    assert post(f"{address}/predict", json={"texts": ["word1"]}).status_code == 200
