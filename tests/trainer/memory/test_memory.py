"""A run with a memory: the file, the answers, going on, and what is refused."""

import dataclasses
import json
import shutil
from types import SimpleNamespace

import command_line
import jax
import numpy as np
import pytest
import tiny
from devices import mesh_here
from edits import accept_edits
from scipy import sparse
from small_runs import log

import snm
from snm.config.resolve import resolve
from snm.data.formats.repository_text.writer import write_text
from snm.errors import InputError
from snm.memory.memory import Memory, MemorySettings
from snm.planning import fit_check
from snm.runs.stored_run import StoredRun, load
from snm.trainer.memory.stored import make_memory
from snm.trainer.memory.trial import split_for_memory

CONFIG = tiny.REMEMBERING


@pytest.fixture(scope="module")
def trained(remembering):
    return remembering / "data", remembering / "run"


@pytest.fixture(scope="module")
def model(trained):
    return load(trained[1])


@pytest.fixture(scope="module")
def unseen(trained):
    """The points of test."""
    return snm.load_data(trained[0]).test


def test_pays_and_says_so(trained):
    _, run = trained
    record = json.loads((run / "memory.json").read_text())
    assert record["used"] and record["gain"] > 2 * record["error"] > 0
    assert record["held_out"] == 60 and record["points"] == 600
    result = json.loads((run / "result.json").read_text())
    assert result["memory"] == record
    lines = log(run)
    (told,) = [line["text"] for line in lines if line["event"] == "noted"]
    assert told.startswith("memory of neighbours: used, ") and "of 600 training points" in told
    assert "; P@1/3/5 on 60 held-out points " in told and " without, " in told
    assert not any(line["event"] == "resumed" for line in lines)


def test_only_the_first_member_leaves_points_out(trained):
    steps = [line for line in log(trained[1]) if line["event"] == "stepped"]
    for phase, points in (("train", 540), ("member-2", 600)):
        assert sum(line["points"] for line in steps if line["phase"] == phase) == 2 * points


def test_the_disk_must_have_room_for_it_too(trained, tmp_path, monkeypatch):
    data, run = trained
    dataset = snm.load_data(data)
    free = (run / "memory.npz").stat().st_size  # and none for a checkpoint
    found = SimpleNamespace(disk_usage=lambda path: SimpleNamespace(free=free))
    monkeypatch.setattr(fit_check, "shutil", found)
    monkeypatch.setattr(fit_check, "EXTRA_BYTES", 0)
    config = resolve(CONFIG, dataset)
    told = fit_check.check_disk(dataset, config, tmp_path, tmp_path)
    assert told.endswith("checkpoints take up to 0 MiB, and memory.npz up to 0.1 MiB")
    without = dataclasses.replace(config, memory="off")
    assert fit_check.check_disk(dataset, without, tmp_path, tmp_path) is None


def test_the_host_searches_before_the_queries_are_done(model, unseen, monkeypatch):
    """They are still the device's when the memory gets them."""
    given, additions = [], Memory.additions

    def added(self, features, queries):
        given.append(queries)
        return additions(self, features, queries)

    monkeypatch.setattr(Memory, "additions", added)
    settings = dataclasses.replace(model.memory.settings, feature_share=0.5)
    queries = np.concatenate(list(model.queries(unseen.features)))
    stored = np.resize(queries, (len(model.memory.rows), queries.shape[1])).astype(np.float16)
    memory = dataclasses.replace(model.memory, queries=stored, settings=settings)
    dataclasses.replace(model, memory=memory).predict(unseen.features, 5)
    assert given and all(isinstance(queries, jax.Array) for queries in given)


def test_scores_are_those_of_the_model_and_the_memory(trained, model, unseen):
    features = unseen.features
    alone = load(trained[1], memory=False)
    labels, scores = model.predict(features, 5)
    everything, model_scores = alone.predict(features, 60)
    dense = np.zeros((150, 60))
    np.put_along_axis(dense, everything, model_scores, axis=1)
    queries = np.concatenate(list(alone.queries(features)))
    weighted = alone.weighting.apply(features)
    dense += model.memory.additions(weighted, queries).toarray()
    expected = np.sort(dense, axis=1)[:, ::-1][:, :5]
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(dense, labels, 1), expected, rtol=1e-4, atol=1e-4)
    # One point alone, and blocks of another size, get the same answers.
    assert model.predict(features[7], 5)[0].tolist() == labels[7:8].tolist()
    small = dataclasses.replace(model, block_rows=32)
    assert small.predict(features, 5)[0].tolist() == labels.tolist()


def test_evaluation_is_with_the_memory(trained, model, unseen):
    data, run = trained
    result = json.loads((run / "result.json").read_text())["metrics"]
    assert snm.evaluate(run, data=data)["metrics"] == result
    assert result["P@1"] > 5 + precision_of(load(run, memory=False), unseen)
    assert result["P@1"] == pytest.approx(precision_of(model, unseen))


def precision_of(predictor, test):
    labels, _ = predictor.predict(test.features, 1)
    return 100 * float(np.asarray(test.labels[np.arange(150), labels[:, 0]]).mean())


def test_a_finished_run_is_not_tried_again_unless_its_memory_is_damaged(trained, tmp_path):
    data, run = trained
    copy = shutil.copytree(run, tmp_path / "run")
    before = (copy / "memory.npz").read_bytes()
    (finished,) = snm.training(data, CONFIG, copy)
    assert finished.result == json.loads((run / "result.json").read_text())
    (copy / "memory.npz").write_bytes(before[:1000])
    with pytest.raises(InputError, match=r"memory\.npz"):
        load(copy)
    again = list(snm.training(data, CONFIG, copy))
    assert (copy / "memory.npz").read_bytes() == before
    assert again[-1].result["metrics"] == finished.result["metrics"]


def test_a_missing_memory_is_one_line(trained, tmp_path):
    _, run = trained
    copy = shutil.copytree(run, tmp_path / "run")
    (copy / "memory.npz").unlink()
    with pytest.raises(InputError, match=r"memory\.npz: found no such file"):
        load(copy)
    alone = load(copy, memory=False)
    (copy / "memory.json").unlink()
    damaged = load(copy, memory=False)
    for loaded in (alone, damaged):
        with pytest.raises(InputError, match="loaded with memory=False, expected memory=True"):
            loaded.fitted_calibration()


@pytest.mark.parametrize(
    "mesh",
    [
        "data=2,label=2",
        pytest.param("label=7", marks=pytest.mark.slow),
        pytest.param("data=4", marks=pytest.mark.slow),
    ],
)
def test_answers_on_a_mesh_are_those_of_one_device(trained, model, unseen, mesh):
    """With blocks of which the last is short, and one in which a part of the mesh has no point."""
    run, alone, test = trained[1], model, unseen.features
    parts = StoredRun.open(run).predictor(alone.weighting, None, mesh=mesh_here(mesh, 60, 16))
    spread = dataclasses.replace(parts, memory=alone.memory, block_rows=64)
    found, expected = spread.predict(test, 7), alone.predict(test, 7)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4, atol=1e-4)
    assert (found[0] == expected[0]).mean() > 0.99  # but for rounding
    queries = (np.concatenate(list(one.queries(test))) for one in (spread, alone))
    np.testing.assert_allclose(*queries, rtol=1e-4, atol=1e-4)
    told = [one.witnesses(test[:70], expected[0][:70, :2]) for one in (spread, alone)]
    assert [[[w.row for w in ws] for ws in of] for of in told[0]] == [
        [[w.row for w in ws] for ws in of] for of in told[1]
    ]


@pytest.mark.slow
def test_a_run_on_a_mesh_has_the_memory_of_one_device(trained, tmp_path):
    data, run = trained
    config = dataclasses.replace(CONFIG, mesh="data=2,label=2")
    result = snm.train(data, config, tmp_path / "run")
    expected = json.loads((run / "result.json").read_text())
    for key in ("used", "held_out", "points"):
        assert result["memory"][key] == expected["memory"][key]
    assert result["metrics"]["P@1"] == pytest.approx(expected["metrics"]["P@1"], abs=3)
    assert snm.evaluate(tmp_path / "run")["metrics"]["P@1"] == pytest.approx(
        result["metrics"]["P@1"], abs=1
    )
    # A run goes on on other devices.
    (finished,) = snm.training(data, config, shutil.copytree(run, tmp_path / "copy"))
    assert finished.result["metrics"] == expected["metrics"]


def test_predictions_are_explained(trained, model, tmp_path, capsys):
    data, run = trained
    dataset = snm.load_data(data)
    test, train = dataset.test, dataset.train
    out = tmp_path / "answers.jsonl"
    command_line.call("predict", run, data / "test.txt", "--k=3", "--out", out, "--explain")
    answers = [json.loads(line) for line in out.read_text().splitlines()]
    labels, _ = model.predict(test.features, 3)
    assert [answer["labels"] for answer in answers] == labels.tolist()
    spoken = 0
    for point, answer in enumerate(answers):
        assert len(answer["because"]) == 3
        for label, witnesses in zip(answer["labels"], answer["because"], strict=True):
            for witness in witnesses:
                row = witness["train_row"]
                assert train.labels[row, label] == 1
                shared = set(train.features[row].indices) & set(test.features[point].indices)
                assert witness["shares"] and set(witness["shares"]) <= shared
                spoken += 1
        for parts, score in zip(answer["parts"], answer["scores"], strict=True):
            total = sum(part for _, part in parts["features"]) + parts["other_features"]
            assert total + parts["bias"] + parts["votes"] == pytest.approx(score, abs=2e-3)
    assert spoken > 150
    # A threshold leaves out labels: the reasons are those of the labels that are left.
    command = ("predict", run, data / "test.txt", "--k=3", "--out", out, "--explain")
    command_line.call(*command, "--threshold", "macro-f1")
    left = [json.loads(line) for line in out.read_text().splitlines()]
    gaps = 0
    for before, after in zip(answers, left, strict=True):
        places = [before["labels"].index(label) for label in after["labels"]]
        gaps += places != list(range(len(places)))
        assert after["because"] == [before["because"][place] for place in places]
        assert after["parts"] == [before["parts"][place] for place in places]
    assert gaps > 0  # a label of its own threshold was left out before another
    none = sum(not after["labels"] for after in left)
    assert f"{none} of 150 points without a label that is as likely" in capsys.readouterr().err
    assert "--format sparse" in command_line.refused(capsys, *command, "--format=sparse")


def test_a_run_without_a_memory_explains_by_features(trained, tmp_path):
    data, run = trained
    copy = shutil.copytree(run, tmp_path / "run")
    record = json.loads((copy / "memory.json").read_text())
    (copy / "memory.json").write_text(json.dumps({**record, "used": False}))
    accept_edits(copy)
    out = tmp_path / "answers.jsonl"
    command_line.call("predict", copy, data / "test.txt", "--out", out, "--explain")
    for answer in map(json.loads, out.read_text().splitlines()):
        assert "because" not in answer and len(answer["parts"]) == 5
        assert all(parts["votes"] == 0 and parts["features"] for parts in answer["parts"])


def test_probabilities_of_a_run(trained, model, unseen, tmp_path, capsys):
    data, run = trained
    labels, _ = model.predict(unseen.features, 5)
    found, p = model.predict_proba(unseen.features, 5)
    np.testing.assert_array_equal(found, labels)
    assert p.shape == (150, 5) and (np.diff(p, axis=1) <= 1e-6).all() and 0 < p.min() < p.max() < 1
    # They were not fitted on these points: the error is within twice that of chance.
    result = json.loads((run / "result.json").read_text())
    told = result["reliability"]
    assert told["answers"] == 750 and told["ECE"] < 2 * told["ECE_by_chance"]
    right = np.take_along_axis(unseen.labels.toarray(), labels, axis=1)
    assert abs(p.mean() - right.mean()) < 0.03 and p[right > 0].mean() > 0.15 + p[right == 0].mean()
    assert snm.evaluate(run, data=data)["reliability"] == told
    among, of_some = model.predict_proba(unseen.features, 2, [[3, 7]] * 149 + [[]])
    assert (of_some[-1] == 0).all() and (among[-1] == -1).all() and (of_some[:-1] > 0).all()

    write_text(tmp_path / "test.txt", unseen.features, unseen.labels)
    lines = predicted(capsys, run, tmp_path / "test.txt", "--probabilities")
    assert [one["labels"] for one in lines] == labels.tolist()
    np.testing.assert_allclose([one["probabilities"] for one in lines], p, atol=1e-6)
    lines = predicted(capsys, run, tmp_path / "test.txt", "--threshold=0.4")
    assert [one["labels"] for one in lines] == [
        row[kept].tolist() for row, kept in zip(labels, p >= 0.4, strict=True)
    ]
    assert 50 < sum(len(one["labels"]) for one in lines) < 700 and "probabilities" not in lines[0]
    command_line.call("predict", run, tmp_path / "test.txt", "--threshold=0.4")
    none = (p < 0.4).all(axis=1).sum()
    said = f"{none} of 150 points without a label that is as likely as --threshold 0.4"
    assert none > 1 and said in capsys.readouterr().err
    command_line.call("evaluate", run)
    assert f"ECE@5 {told['ECE']:.4f}" in capsys.readouterr().out


def test_thresholds_of_a_run(trained, model, unseen, tmp_path, capsys):
    """Each makes its own F1 higher on other points than 0.5 does."""
    data, run = trained
    at = {one["threshold"]: one for one in snm.evaluate(
        run, data=data, thresholds=["0.5", "micro-f1", "macro-f1", "f1@5"]
    )["at_threshold"]}  # fmt: skip
    half = at["0.5"]
    assert at["micro-f1"]["micro-F1"] > half["micro-F1"] + 2
    assert at["macro-f1"]["macro-F1"] > half["macro-F1"] + 2
    assert at["f1@5"]["F1"] > half["F1"] + 2
    cut = model.threshold("micro-f1")
    assert cut.k == 50 and not cut.labels and 0.1 < cut.overall < 0.5
    labels, p = model.predict_proba(unseen.features, threshold="micro-f1")
    every, all_p = model.predict_proba(unseen.features, 50)
    np.testing.assert_array_equal(labels, np.where(all_p >= cut.overall, every, -1))
    np.testing.assert_array_equal(p > 0, labels >= 0)
    kept = (labels >= 0).sum() / 150
    assert kept == pytest.approx(at["micro-f1"]["answers"], rel=0.05)  # some points have no label

    write_text(tmp_path / "test.txt", unseen.features, unseen.labels)
    lines = predicted(capsys, run, tmp_path / "test.txt", "--threshold=micro-f1")
    assert [one["labels"] for one in lines] == [row[row >= 0].tolist() for row in labels]
    lines = predicted(capsys, run, tmp_path / "test.txt", "--threshold=f1@3", "--k=2")
    assert max(len(one["labels"]) for one in lines) == 2
    command_line.call("evaluate", run, "--threshold", "micro-f1", "0.5")
    told = capsys.readouterr().out
    assert f"{at['micro-f1']['micro-F1']:.2f}" in told and "labels a point" in told


def predicted(capsys, *words):
    command_line.call("predict", *words)
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_runs_without_probabilities_say_so(trained, tmp_path, capsys):
    _, run = trained
    copy = shutil.copytree(run, tmp_path / "copy")
    record = json.loads((copy / "memory.json").read_text())
    whole = record["calibration"]

    def with_curves(curves):
        (copy / "memory.json").write_text(json.dumps({**record, "calibration": curves}))
        return accept_edits(copy)

    without = load(with_curves(None))
    with pytest.raises(InputError, match=r"^probabilities: found a model without probabilities"):
        without.predict_proba(["text"])
    write_text(tmp_path / "test.txt", *(sparse.csr_matrix((2, n)) for n in (120, 60)))
    for flag in ("--probabilities", "--threshold=0.5"):
        said = command_line.refused(capsys, "predict", copy, tmp_path / "test.txt", flag)
        option, _, _ = flag.partition("=")
        assert said.startswith(f"{option}: found a model without probabilities")
    with pytest.raises(InputError, match=r"^threshold: found a model without prob"):
        without.predict_proba(["text"], threshold=0.5)
    said = command_line.refused(capsys, "predict", run, tmp_path / "test.txt", "--threshold=2")
    assert said.startswith("--threshold: found 2, expected a probability from 0 to 1, micro-f1")
    with_curves({**whole, "thresholds": {}})
    said = command_line.refused(
        capsys, "predict", copy, tmp_path / "test.txt", "--threshold=macro-f1"
    )
    assert said.startswith("--threshold: found macro-f1, which the run has not chosen, expected")
    wrongs = [
        (3, "calibration: found 3, expected an object or null"),
        ({"answers": 5}, "ranked: found nothing, expected an object"),
        (
            {**whole, "alone": {**whole["alone"], "knots": [1]}},
            "alone: found a dict of 5, expected at least one knot, and a probability at each",
        ),
        (
            {**whole, "ranked": {**whole["ranked"], "best_scores": [1.0]}},
            "ranked: best_scores: found a list of 1, expected a list of 2",
        ),
    ]
    one = whole["thresholds"]["macro-f1"]
    for part, said in (
        ({"own": [2.0]}, "own: found 2.0, expected 0 to 1"),
        ({"labels": [-1.5]}, "labels: found -1.5, expected a whole number"),
        ({"labels": [3, 1], "own": [0.5, 0.5]}, "found a dict of 4, expected labels that ascend"),
        ({"k": 0}, "k: found 0, expected 1 or more or null"),
        ({"overall": "high"}, "overall: found 'high', expected a number"),
    ):
        wrongs.append(({**whole, "thresholds": {"macro-f1": one | part}}, f"macro-f1: {said}"))
    for wrong, said in wrongs:
        with pytest.raises(InputError, match=rf"memory\.json: calibration: .*{said}|{said}"):
            load(with_curves(wrong))


def test_points_of_weight_0_neither_choose_nor_vote(trained, model):
    """And the others vote with their weights."""
    data, run = trained
    loaded = snm.load_data(data)
    weights = (np.arange(600) % 4 / 2).astype(np.float32)
    train = dataclasses.replace(loaded.train, weights=weights)
    config = snm.read_config(run / "config.toml")
    _, held = split_for_memory(config, dataclasses.replace(loaded, train=train))
    _, every = split_for_memory(config, loaded)
    np.testing.assert_array_equal(held, every[every % 4 > 0])
    settings = MemorySettings(10, 1.0, 1.0, 1.0)
    memory = make_memory(model, train, np.arange(600), settings)
    np.testing.assert_array_equal(memory.rows, np.flatnonzero(weights))
    np.testing.assert_array_equal(memory.weights, weights[weights > 0])


def test_at_most_two_thousand_points_choose():
    """Each second or third of the validation points, where there are more."""
    points, share = 6000, 0.75
    made = snm.generate(points=points, test_points=0, features=40, labels=60, seed=0)
    config = dataclasses.replace(CONFIG, validation_fraction=share)
    kept, held = split_for_memory(resolve(config, made), made)
    _, validation = made.rows_of_split(share, config.seed)
    assert len(validation) > 4000 and len(held) == -(-len(validation) // 3) <= 2000
    assert np.isin(held, validation).all() and not np.isin(held, kept).any()
