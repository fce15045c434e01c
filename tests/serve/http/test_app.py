"""Tests the application: its answers, and the errors of requests."""

import asyncio
import dataclasses
import gzip
import http.client
import json
import re

import httpx
import numpy as np
import pytest
from command_line import call
from serve.http.test_invalid_requests import INVALID
from serve.served import WORDS, as_question, get, many, post, serving

import snm
from snm.prediction.calibration import Calibration, Curve
from snm.prediction.thresholds import Threshold
from snm.serve.limits import Limits


def test_answers_are_those_of_the_model(address, served, tiny_run):
    test = snm.load_data(tiny_run / "data").test.features
    labels, scores = served.predict(test, k=7)
    found = post(f"{address}/predict", json={"features": as_question(test), "k": 7})
    assert found.status_code == 200
    answers = found.json()["answers"]
    assert [answer["labels"] for answer in answers] == labels.tolist()
    assert answers[0]["names"] == [f"name {label}" for label in labels[0]]
    np.testing.assert_allclose([a["scores"] for a in answers], scores, rtol=1e-5)
    text = " ".join(f"{WORDS[j]} " * int(v) for j, v in zip(test[0].indices, test[0].data,
                                                            strict=True))  # fmt: skip
    found = post(f"{address}/predict", json={"texts": [text, text]}).json()["answers"]
    assert found[0] == found[1] and found[0]["labels"] == labels[0, :5].tolist()


def test_labels_to_choose_from(address, served, tiny_run):
    """Also requests that choose from other labels at the same time."""
    test = snm.load_data(tiny_run / "data").test.features
    questions = as_question(test)

    async def ask(session, labels, points):
        body = {"features": questions[points], "k": 3}
        body |= {} if labels is None else {"labels": labels}
        answer = await session.post(f"{address}/predict", json=body)
        assert answer.status_code == 200, answer.text
        ids = None if labels is None else served.ids_of(labels)
        expected, scores = served.predict(test[points], 3, ids)
        for one, row, of_row in zip(answer.json()["answers"], expected, scores, strict=True):
            assert one["labels"] == row[row >= 0].tolist()
            assert one["names"] == [f"name {label}" for label in one["labels"]]
            np.testing.assert_allclose(one["scores"], of_row[row >= 0], rtol=1e-5)

    async def everyone():
        async with many() as session:
            await asyncio.gather(*(
                ask(session, labels, slice(first, first + 2))
                for first in range(0, 20, 2)
                for labels in (None, [3, 7, 9, 12], ["name 4", 3, "name 19"], [5])
            ))  # fmt: skip

    asyncio.run(everyone())


def test_labels_to_leave_out(address, served, tiny_run):
    """The answer is that of all labels without them, also of each point."""
    test = snm.load_data(tiny_run / "data").test.features[:4]
    body = {"features": as_question(test), "k": 3}
    order, scores = served.predict(test, 20)
    best = order[:, 0].tolist()
    each = [best[:1], [f"name {label}" for label in order[1, :5].tolist()], [], [3, "name 19"]]
    gone = [set(best[:1]), set(order[1, :5].tolist()), set(), {3, 19}]
    for asked, of_points in ((each, gone), (["name 4", best[0]], [{4, best[0]}] * 4)):
        found = post(f"{address}/predict", json={**body, "exclude": asked})
        assert found.status_code == 200, found.text
        for one, row, of_row, without in zip(
            found.json()["answers"], order, scores, of_points, strict=True
        ):
            left = [place for place, label in enumerate(row) if label not in without][:3]
            assert one["labels"] == row[left].tolist()
            assert one["names"] == [f"name {label}" for label in one["labels"]]
            np.testing.assert_allclose(one["scores"], of_row[left], rtol=1e-5)
    both = post(f"{address}/predict", json={**body, "labels": [1, 2, 5], "exclude": [2]})
    assert all(sorted(one["labels"]) == [1, 5] for one in both.json()["answers"])
    none = post(f"{address}/predict", json={**body, "exclude": []})
    assert none.json() == post(f"{address}/predict", json=body).json()
    told = post(f"{address}/predict", json={**body, "exclude": [best[0]], "explain": True})
    assert all(len(one["parts"]) == len(one["labels"]) == 3 for one in told.json()["answers"])
    known = post(f"{address}/predict", json={**body, "exclude": [best[0]]}).json()
    for asked, count in (
        (["no such", best[0], "nor this"], 2),
        ([[best[0]]] * 3 + [["x", best[0]]], 1),
    ):
        found = post(f"{address}/predict", json={**body, "exclude": asked}).json()
        assert found == {**known, "unknown_labels": count}
    for wrong, said in (
        ([[3]], "exclude: found labels of 1 point, expected of 4, a sequence"),
        ([20], "exclude: found label 20, expected an id from 0 to 19"),
        ("name 4", "exclude: found something else, expected names or ids of labels"),
        (
            list(range(13)),
            "found 13 labels to leave out and k 3, expected at most 15 together (see",
        ),
    ):
        refused = post(f"{address}/predict", json={**body, "exclude": wrong})
        assert refused.status_code == 400 and said in refused.json()["error"]


def test_labels_of_each_point(address, served, tiny_run):
    test = snm.load_data(tiny_run / "data").test.features[:4]
    body = {"features": as_question(test), "k": 3}
    each = [[3, "name 7", 9, 12], ["name 4"], [], [19, 3]]
    answer = post(f"{address}/predict", json={**body, "labels": each})
    assert answer.status_code == 200, answer.text
    labels, scores = served.predict(test, 3, [[3, 7, 9, 12], [4], [], [3, 19]])
    for one, row, of_row in zip(answer.json()["answers"], labels, scores, strict=True):
        assert one["labels"] == row[row >= 0].tolist()
        np.testing.assert_allclose(one["scores"], of_row[row >= 0], rtol=1e-5)
    assert "unknown_labels" not in answer.json()
    newer = [[*each[0], "no such"], each[1], ["nor this"], each[3]]
    again = post(f"{address}/predict", json={**body, "labels": newer}).json()
    assert again == {**answer.json(), "unknown_labels": 2}
    for wrong, said in (
        ([[3]], "labels: found labels of 1 point, expected of 4"),
        ([3, [4]], "labels: found something else, expected names or ids of labels, or a list"),
        ([["no such"], [], ["nor this"], []], "labels: found 2 unknown labels, such as 'no such'"),
        ([[True]] * 4, "labels: found something else"),
        ("name 4", "labels: found something else"),
    ):
        refused = post(f"{address}/predict", json={**body, "labels": wrong})
        assert refused.status_code == 400 and said in refused.json()["error"]


def test_probabilities(address, served, tiny_run):
    test = snm.load_data(tiny_run / "data").test.features
    body = {"features": as_question(test), "k": 4}
    refused = post(f"{address}/predict", json={**body, "threshold": 0.5})
    assert refused.status_code == 400
    assert "threshold: found a run without probabilities" in refused.json()["error"]
    answers = post(f"{address}/predict", json=body).json()["answers"]
    assert answers[0]["probabilities"] is None
    curve = Curve(
        "logistic", (1.0, -0.5, 0.1, 0.0), (-5.0, 0.0, 9.0), (0.05, 0.3, 0.95), (-1e9, 1e9)
    )
    alone = dataclasses.replace(curve, weights=(1.0, 0.0, 0.0, 0.0))
    chosen = {"f1@2": Threshold(0.4, 2)}
    likely = dataclasses.replace(served, calibration=Calibration(9, curve, alone, chosen))
    with serving(likely, max_k=15) as (address, _):
        assert get(f"{address}/health").json()["probabilities"]
        for labels in (None, [3, 5, 7, 9, 11, 13]):
            _, p = likely.predict_proba(test, 4, labels)
            more = {} if labels is None else {"labels": labels}
            answers = post(f"{address}/predict", json={**body, **more}).json()["answers"]
            np.testing.assert_allclose([one["probabilities"] for one in answers], p, atol=1e-5)
            least = float(np.median(p))
            more["threshold"] = least
            answers = post(f"{address}/predict", json={**body, **more}).json()["answers"]
            assert [len(one["labels"]) for one in answers] == pytest.approx(
                (p >= least).sum(axis=1), abs=1
            )
            assert min(p for one in answers for p in one["probabilities"]) >= least - 1e-6
            assert sum(len(one["labels"]) for one in answers) == pytest.approx(40, abs=2)
        for gone in ([3, 7], [[number % 20, 5] for number in range(test.shape[0])]):
            labels, p = likely.predict_proba(test, 4, exclude=gone, threshold=0.3)
            more = {"exclude": gone, "threshold": 0.3}
            answers = post(f"{address}/predict", json={**body, **more}).json()["answers"]
            for one, of_point, row in zip(answers, labels, p, strict=True):
                assert one["labels"] == of_point[of_point >= 0].tolist()
                np.testing.assert_allclose(one["probabilities"], row[of_point >= 0], atol=1e-5)
        del body["k"]
        answers = post(f"{address}/predict", json={**body, "threshold": "f1@2"}).json()
        two, _ = likely.predict_proba(test, threshold="f1@2")
        assert [one["labels"] for one in answers["answers"]] == [
            row[row >= 0].tolist() for row in two
        ]
        assert 0 < (two >= 0).sum() < 40
        for wrong in (1.5, "best"):
            refused = post(f"{address}/predict", json={**body, "threshold": wrong})
            assert refused.status_code == 400
            assert f"threshold: found {wrong}, expected a prob" in refused.json()["error"]


def test_concurrent_requests_get_their_own_answers(address, served, tiny_run):
    """64 concurrent clients with different points, four requests each, every second one bad."""
    features = snm.load_data(tiny_run / "data").train.features
    labels, _ = served.predict(features, k=5)
    questions = as_question(features)

    async def client(session, number):
        rng = np.random.default_rng(number)
        wrong = list(INVALID.values())
        for turn in range(4):
            if turn % 2:
                body, said = wrong[rng.integers(len(wrong))]
                answer = await session.post(f"{address}/predict", content=body)
                assert answer.status_code == 400 and said in answer.json()["error"]
                continue
            chosen = rng.integers(0, len(questions), rng.integers(1, 4))
            body = {"features": [questions[i] for i in chosen]}
            answer = await session.post(f"{address}/predict", json=body)
            assert answer.status_code == 200, answer.text
            got = [one["labels"] for one in answer.json()["answers"]]
            assert got == labels[chosen].tolist()

    async def everyone():
        async with many() as session:
            await asyncio.gather(*(client(session, number) for number in range(64)))

    asyncio.run(everyone())
    told = get(f"{address}/metrics").text
    batches = float(re.search(r"snm_batch_points_count (\S+)", told)[1])
    points = float(re.search(r"snm_batch_points_sum (\S+)", told)[1])
    assert points > 1.5 * batches  # they were answered together


def test_a_large_body_without_a_content_length_is_refused(address):
    def pieces():
        for _ in range(100):
            yield b"x" * 1000

    answer = post(f"{address}/predict", content=pieces())
    assert answer.status_code == 413
    told = get(f"{address}/metrics").text  # counted by its path, though it never came there
    assert 'snm_requests_total{path="/predict",status="413"}' in told


def test_a_client_that_sends_too_much_sees_why(address):
    """Though it reads nothing before all is sent; its connection stays open."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    for _ in range(2):
        connection.request("POST", "/predict", b" " * 30_000_000)
        answer = connection.getresponse()
        assert answer.status == 413 and not answer.will_close
        said = "a body of over 10000 bytes (see --max-bytes)"
        assert json.loads(answer.read()) == {"error": said}
    connection.close()


def test_embeddings_fit_in_a_request():
    """As many as a request may have, of 1,024 values and length 1, as Python writes them."""
    rows = np.random.default_rng(0).normal(size=(Limits.max_points, 1024))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert len(json.dumps({"features": rows.tolist()})) < Limits.max_bytes


def test_points_as_lists_of_values(address, tiny_run):
    features = snm.load_data(tiny_run / "data").test.features[:5]
    bodies = features.toarray().tolist(), as_question(features)
    found = [post(f"{address}/predict", json={"features": body}).json() for body in bodies]
    assert found[0] == found[1] and len(found[0]["answers"]) == 5


def test_errors_have_the_shape_that_openapi_says(address):
    found = get(f"{address}/openapi.json").json()
    said = found["paths"]["/predict"]["post"]["responses"]
    assert set(said) == {"200", "400", "408", "413", "415", "421", "503", "default"}
    shapes = {answer["content"]["application/json"]["schema"]["$ref"] for status, answer in
              said.items() if status != "200"}  # fmt: skip
    assert shapes == {"#/components/schemas/Problem"}
    assert list(found["components"]["schemas"]["Problem"]["properties"]) == ["error"]


NOWHERE = "found no such path, expected POST /predict, or GET of /health, /metrics, /docs or /"


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ("GET /nothing", 404, NOWHERE),
        ("POST /predict/", 404, NOWHERE),  # a redirection would have the body sent twice
        ("GET /static-offline-docs/nothing", 404, NOWHERE),
        ("GET /predict", 405, "found GET, expected POST"),
        ("DELETE /health", 405, "found DELETE, expected GET"),
    ],
)
def test_paths_and_methods_that_there_are_not(address, asked, status, said):
    method, path = asked.split()
    answer = httpx.request(method, f"{address}{path}", timeout=60)
    assert answer.status_code == status
    assert answer.json() == {"error": f"{asked}: {said}"}
    assert status != 405 or answer.headers["Allow"] == said.split()[-1]


def test_docs_come_from_the_server_alone(address):
    """Whatever the page of /docs loads is here, so that it works without a network."""
    page = get(f"{address}/docs").text
    loaded = re.findall(r"""(?:src|href)=["']([^"']+)""", page)
    assert len(loaded) == 3  # script, style and icon
    for target in loaded:
        assert get(str(httpx.URL(f"{address}/docs").join(target))).status_code == 200
        assert "://" not in target
    assert "://" not in re.sub(r"SwaggerUIBundle\(.*", "", page, flags=re.DOTALL)


UNKNOWN = [
    ({"texts": ["word1 word2", "nothing of that", "", "the word3"]}, [0, 1, 1, 0]),
    ({"features": [{}, {"3": 0}, {"3": 0.5}]}, [1, 1, 0]),
]


@pytest.mark.parametrize("number", [0, 1])
def test_a_point_without_a_known_feature_is_answered_as_unknown(address, number):
    question, unknown = UNKNOWN[number]
    answers = post(f"{address}/predict", json=question).json()["answers"]
    assert [answer["unknown"] for answer in answers] == list(map(bool, unknown))
    assert all(len(answer["labels"]) == 5 for answer in answers)


def test_predictions_by_an_index(tiny_run, served, tmp_path):
    from snm.export.index import with_index

    call("export", tiny_run / "run", "--to", "hnswlib", "--out", tmp_path / "index")
    searched = with_index(served, tmp_path / "index")
    features = snm.load_data(tiny_run / "data").test.features
    with serving(searched) as (address, _):
        found = post(f"{address}/predict", json={"features": as_question(features)}).json()
        labels, _ = served.predict(features, k=5)
        assert [one["labels"] for one in found["answers"]] == labels.tolist()
        assert get(f"{address}/health").json()["search"] == "index"


def test_a_compressed_body_is_refused(address):
    body = gzip.compress(b'{"texts": ["word1"]}')
    for encoding, content, status in (("gzip", body, 415), ("Identity", b'{"texts": ["a"]}', 200)):
        headers = {"Content-Encoding": encoding}
        answer = post(f"{address}/predict", content=content, headers=headers)
        assert answer.status_code == status
        if status == 415:
            assert answer.json() == {"error": "Content-Encoding: found gzip, expected none"}
