"""Tests `--seen`: labels that are features of the point itself can be dropped from predictions."""

import dataclasses
import json

import numpy as np
import pytest
import tiny
from scipy import sparse

import snm
from snm.batches.item_splits import add_splits
from snm.cli.main import main
from snm.config.resolve import resolve
from snm.config.resolved import read_resolved
from snm.config.settings import preset
from snm.data.dataset import Points
from snm.distributed.dataset import count_seen_labels
from snm.errors import InputError
from snm.evaluation.evaluate import Measures, evaluate_points
from snm.export.index import GraphIndex, bias_scale, build_index
from snm.export.index_libraries import LIBRARIES, GraphSettings
from snm.export.measure import measure_recall
from snm.importing.items import items_as_text
from snm.model import concordant_counts
from snm.prediction.programs import jitted_concordant_counts, jitted_top
from snm.runs.events import Started, Stepped
from snm.runs.stored_run import load
from snm.theory.auc import empirical_auc
from snm.topk import search as scoring

ITEMS = 40
CONFIG = dataclasses.replace(tiny.CONFIG, mined=5, epochs=4, learning_rate=5.0, memory="off")


def visits(*, again=0):
    """Points whose features are some of 40 neighbouring items, and whose labels are others.

    The first `again` points have one of their features among their labels.
    """
    rng = np.random.default_rng(0)

    def part(count):
        been, next_ = np.zeros((2, count, ITEMS), np.float32)
        for row in range(count):
            places = (rng.integers(ITEMS) + rng.permutation(7)) % ITEMS
            been[row, places[:5]] = next_[row, places[5:]] = 1
            if row < again:
                next_[row, places[0]] = 1
        return Points(sparse.csr_matrix(been), sparse.csr_matrix(next_))

    data = snm.generate(points=10, test_points=0, features=ITEMS, labels=ITEMS, seed=0)
    return dataclasses.replace(data, train=part(200), test=part(30))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seen") / "run"
    snm.train(visits(), CONFIG, folder)
    return folder


def unmasked(predictor):
    """The same model without dropping seen labels."""
    return dataclasses.replace(
        predictor, model=dataclasses.replace(predictor.model, drop_seen=False)
    )


def all_scores(predictor, features):
    labels, scores = unmasked(predictor).predict(features, ITEMS)
    whole = np.empty((features.shape[0], ITEMS), np.float32)
    np.put_along_axis(whole, labels, scores, axis=1)
    return whole


def test_auto_drops_seen_labels_if_hardly_one_occurs_but_chance_expects_some():
    data = visits()
    been, next_ = (x.toarray() != 0 for x in (data.train.features, data.train.labels))
    together, expected = count_seen_labels(data)
    assert (together, (been & next_).sum()) == (0, 0)
    assert expected == pytest.approx((been.mean(axis=0) * next_.mean(axis=0)).sum() * 200)
    assert expected > 20
    assert resolve(preset("default"), data).seen == "drop"
    assert resolve(dataclasses.replace(preset("default"), seen="keep"), data).seen == "keep"
    assert resolve(preset("paper"), data).seen == "keep"
    once = visits(again=1)
    assert count_seen_labels(once)[0] == 1 < 0.01 * once.train.labels.nnz
    assert resolve(preset("default"), once).seen == "drop"
    often = visits(again=5)
    assert count_seen_labels(often)[0] == 5 > 0.01 * often.train.labels.nnz
    assert resolve(preset("default"), often).seen == "keep"
    told = dataclasses.replace(preset("default"), seen="drop")
    assert resolve(told, often).seen == "drop"
    # With 10 points, chance expects too few pairs to decide.
    few = dataclasses.replace(data, train=data.train.take(np.arange(10)))
    assert count_seen_labels(few)[0] == 0 and resolve(preset("default"), few).seen == "keep"


def test_names_tell_whether_features_are_the_labels(tmp_path):
    """With too few pairs to tell by chance, or where features are words that are as many."""
    few = visits()
    few = dataclasses.replace(few, train=few.train.take(np.arange(10)))
    names = tuple(f"place {item}" for item in range(ITEMS))
    items_as_text(names, ",", ["items"]).write(tmp_path / "vectorizer.json")
    named = {"label_names": names, "vectorizer": tmp_path / "vectorizer.json"}
    assert resolve(preset("default"), dataclasses.replace(few, **named)).seen == "drop"
    others = {**named, "label_names": names[::-1]}
    assert resolve(preset("default"), dataclasses.replace(visits(), **others)).seen == "keep"
    with pytest.raises(InputError, match="drop, with 40 features and 40 labels of other names"):
        told = dataclasses.replace(preset("default"), seen="drop")
        resolve(told, dataclasses.replace(few, **others))
    with pytest.raises(InputError, match="found features that are the labels"):
        told = dataclasses.replace(preset("default"), label_text="on")
        resolve(told, dataclasses.replace(few, **named))


def test_labels_may_be_of_items_that_came_later(tmp_path):
    """Features are the first of the items; all is as with features that no point has."""
    data, later = visits(), ITEMS - 4
    narrow, padded = (
        dataclasses.replace(
            data,
            **{part: Points(_first(points.features, later, width), points.labels)
               for part, points in (("train", data.train), ("test", data.test))},
        )
        for width in (later, ITEMS)
    )  # fmt: skip
    assert count_seen_labels(narrow) == count_seen_labels(padded)
    settings = resolve(preset("default"), narrow)
    assert (settings.seen, settings.item_splits) == ("drop", 1)
    split, wanted = (add_splits(one.train, None, 1, 0)[0] for one in (narrow, padded))
    np.testing.assert_array_equal(split.labels.toarray(), wanted.labels.toarray())
    np.testing.assert_array_equal(split.features.toarray(), wanted.features.toarray()[:, :later])

    config = dataclasses.replace(CONFIG, item_splits=1, memory="on")
    snm.train(narrow, config, tmp_path / "run")
    labels, _ = snm.load(tmp_path / "run").predict(narrow.test.features, ITEMS)
    found = np.zeros((30, ITEMS), bool)
    for row, answers in enumerate(labels):
        found[row, answers[answers >= 0]] = True
    np.testing.assert_array_equal(found[:, :later], narrow.test.features.toarray() == 0)
    assert found[:, later:].all()

    names = tuple(f"place {item}" for item in range(ITEMS))
    items_as_text(names[:later], ",", ["items"]).write(tmp_path / "vectorizer.json")
    named = {"label_names": names, "vectorizer": tmp_path / "vectorizer.json"}
    few = dataclasses.replace(narrow, train=narrow.train.take(np.arange(10)))
    assert resolve(preset("default"), few).seen == "keep"  # too few to tell by chance
    assert resolve(preset("default"), dataclasses.replace(few, **named)).seen == "drop"
    others = {**named, "label_names": names[::-1]}
    assert resolve(preset("default"), dataclasses.replace(narrow, **others)).seen == "keep"


def _first(matrix, later, width):
    """The first `later` columns, and further ones without a value up to `width`."""
    found = matrix[:, :later].tocsr()
    found.resize((matrix.shape[0], width))
    return found


def test_drop_requires_no_more_features_than_labels():
    data = snm.generate(points=60, test_points=0, features=30, labels=20, seed=0)
    assert resolve(preset("default"), data).seen == "keep"
    with pytest.raises(InputError, match=r"^seen: found drop, with 30 features and 20 labels"):
        resolve(dataclasses.replace(preset("default"), seen="drop"), data)
    with pytest.raises(InputError, match="settings: seen: found a setting of runs"):
        from snm.estimator.parameters import make_config

        make_config("default", {}, {"seen": "drop"}, num_points=10, seed=0)


@pytest.mark.parametrize("block", [4096, 16], ids=["one block", "three, the last overlapping"])
def test_predictions_are_the_top_of_the_unseen_labels(trained, monkeypatch, block):
    monkeypatch.setattr(scoring, "_CPU_BLOCK", block)
    jitted_top.cache_clear()
    predictor, test = snm.load(trained), visits().test
    assert predictor.model.drop_seen
    whole = all_scores(predictor, test.features)
    whole[test.features.toarray() != 0] = -np.inf
    labels, scores = predictor.predict(test.features, ITEMS)
    expected = np.argsort(-whole, axis=1, kind="stable")
    left = ITEMS - 5
    np.testing.assert_array_equal(labels[:, :left], expected[:, :left])
    np.testing.assert_array_equal(labels[:, left:], -1)
    np.testing.assert_allclose(
        scores[:, :left],
        np.take_along_axis(whole, expected, axis=1)[:, :left],
        rtol=1e-5,
        atol=1e-6,
    )
    jitted_top.cache_clear()


@pytest.mark.parametrize("block", [4096, 16], ids=["one block", "three, the last overlapping"])
def test_auc_ranks_seen_labels_below_all_others(trained, monkeypatch, block):
    """Also a relevant seen label, which ties with the other seen ones."""
    monkeypatch.setattr(concordant_counts, "_BLOCK", block)
    jitted_concordant_counts.cache_clear()
    predictor, test = snm.load(trained), visits().test
    truth = test.labels.toarray()
    truth[0, test.features[0].indices[:2]] = 1
    whole = all_scores(predictor, test.features)
    whole[test.features.toarray() != 0] = -1e9
    expected = np.mean([empirical_auc(whole[i], truth[i] > 0) for i in range(30)])
    points = Points(test.features, sparse.csr_matrix(truth))
    found = evaluate_points(predictor, points, None, Measures(auc=True))
    assert found["metrics"]["AUC"] == pytest.approx(100 * expected, rel=1e-9)
    jitted_concordant_counts.cache_clear()


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_an_index_drops_seen_labels_too(trained, tmp_path, library):
    predictor, test = snm.load(trained), visits().test
    file = tmp_path / build_index(predictor, library, GraphSettings(16, 200, ITEMS), tmp_path)
    graph = library.open(file, predictor.state.head.table.rows.shape[1] + 1)
    index = GraphIndex(library, graph, ITEMS, bias_scale(predictor))
    searched = dataclasses.replace(predictor, index=index)
    labels, scores = predictor.predict(test.features, 6)
    found, found_scores = searched.predict(test.features, 6)
    np.testing.assert_array_equal(found, labels)
    np.testing.assert_allclose(found_scores, scores, rtol=1e-4)
    assert measure_recall(predictor, searched, test.features)["recall"][5] == 1


@pytest.mark.slow
def test_training_gains_and_the_command_line_writes_what_is_left(trained, tmp_path):
    data = visits()
    kept = snm.train(data, dataclasses.replace(CONFIG, seen="keep"), tmp_path / "kept")
    dropped = json.loads((trained / "result.json").read_text())
    assert dropped["metrics"]["P@1"] > kept["metrics"]["P@1"]
    source, out = tmp_path / "points.txt", tmp_path / "out.jsonl"
    rows = [" ".join(f"{j}:1" for j in row.indices) for row in data.test.features]
    source.write_text(f"30 {ITEMS}\n" + "\n".join(rows) + "\n")
    with pytest.raises(SystemExit) as ended:
        main(["predict", str(trained), str(source), "--k", str(ITEMS), "--out", str(out)])
    assert ended.value.code in (0, None)
    answers = [json.loads(line) for line in out.read_text().splitlines()]
    for answer, row in zip(answers, data.test.features, strict=True):
        assert len(answer["labels"]) == len(answer["scores"]) == ITEMS - 5
        assert not set(answer["labels"]) & set(row.indices.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["data=2,label=2", "label=4"])
def test_a_mesh_computes_what_one_device_does(mesh, tmp_path):
    """The device that holds a point drops its seen labels from the negatives."""
    one, many = (
        [
            event.loss
            for event in snm.training(visits(), dataclasses.replace(CONFIG, mesh=cut), folder)
            if isinstance(event, Stepped)
        ]
        for cut, folder in (("", tmp_path / "one"), (mesh, tmp_path / "many"))
    )
    np.testing.assert_allclose(many, one, rtol=1e-4)


def test_items_are_split_again_where_seen_ones_are_dropped():
    of = {"epochs": "auto"}
    dropped = resolve(dataclasses.replace(CONFIG, **of), visits())
    assert (dropped.item_splits, dropped.seen) == (1, "drop")
    kept = resolve(dataclasses.replace(CONFIG, **of, seen="keep"), visits())
    assert (kept.item_splits, kept.seen) == (0, "keep")
    many = dataclasses.replace(visits(), train=repeated(visits().train, 100))
    once, twice = (
        resolve(dataclasses.replace(CONFIG, **of, seen="drop", item_splits=n), many) for n in (0, 1)
    )
    assert (once.epochs, twice.epochs) == (12, 3)  # fewer visits, two in each pass


def begin(config, folder):
    """Begins a run and stops it before its first step."""
    events = snm.training(visits(), config, folder)
    started = next(event for event in events if isinstance(event, Started))
    events.close()
    return started


def test_splits_are_those_that_the_run_began_with(tmp_path, monkeypatch):
    """`auto` makes none in several processes, but a run may go on in another number of them."""
    config = dataclasses.replace(CONFIG, class_init="auto", epochs=1)
    monkeypatch.setattr("snm.config.resolve.has_several_processes", lambda: True)
    begin(config, tmp_path / "of two")
    monkeypatch.setattr("snm.config.resolve.has_several_processes", lambda: False)
    longer = dataclasses.replace(config, epochs=2)
    assert snm.train(visits(), longer, tmp_path / "of two")["epochs"] == 2
    found = read_resolved(tmp_path / "of two/config.toml")
    assert (found.item_splits, found.class_init) == (0, "centroid")

    begin(config, tmp_path / "of one")
    monkeypatch.setattr("snm.config.resolve.has_several_processes", lambda: True)
    with pytest.raises(InputError, match=r"^item_splits: found several processes, expected one"):
        snm.train(visits(), longer, tmp_path / "of one")


def repeated(points, times):
    return Points(
        sparse.vstack([points.features] * times, "csr"),
        sparse.vstack([points.labels] * times, "csr"),
    )


def test_splits_need_the_same_items():
    made = snm.generate(points=10, test_points=0, features=ITEMS + 1, labels=ITEMS, seed=0)
    with pytest.raises(InputError, match=r"^item_splits: found 1, with 41 features and 40 labels"):
        resolve(dataclasses.replace(CONFIG, item_splits=1), made)
    with pytest.raises(InputError, match=r"^item_splits: found -1"):
        dataclasses.replace(CONFIG, item_splits=-1).check()


def test_a_point_and_its_splits_are_visited(tmp_path):
    assert begin(CONFIG, tmp_path / "with").num_points == 400
    without = dataclasses.replace(CONFIG, item_splits=0)
    assert begin(without, tmp_path / "without").num_points == 200


@pytest.mark.slow
def test_a_neighbour_votes_for_all_of_its_items(tmp_path):
    config = dataclasses.replace(CONFIG, memory="on", members=2, learning_rate=1e-6)
    data = dataclasses.replace(visits(), train=repeated(visits().train, 3))
    snm.train(data, config, tmp_path / "run")
    memory = load(tmp_path / "run").memory
    assert memory is not None
    items = (data.train.features + data.train.labels).toarray() > 0
    np.testing.assert_array_equal(memory.labels.toarray() > 0, items)
    np.testing.assert_array_equal(memory.features.toarray() != 0, items)
