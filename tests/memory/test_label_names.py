"""Whether label names pay: against votes by brute force, and with names that mean nothing."""

import dataclasses

import named_texts
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snm.data.dataset import Points
from snm.data.load import load
from snm.data.weighting import Weighting
from snm.memory import label_names
from snm.memory.gain import Gain
from snm.memory.label_names import try_names


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return load(named_texts.write(tmp_path_factory.mktemp("names") / "data"))


def shuffled(data):
    order = np.random.default_rng(3).permutation(named_texts.LABELS)
    names = tuple(named_texts.NAMES[i] for i in order)
    return dataclasses.replace(data, label_names=names)


def by_hand(points, names, weighting):
    """P@1, P@3 and P@5 of the votes, in float64, one point at a time."""
    order = np.random.default_rng(0).permutation(points.num_points)
    count = min(2000, points.num_points // 10)
    held, stored = np.sort(order[:count]), np.sort(order[count:])
    dense = weighting.apply(points.features).toarray().astype(np.float64)
    of_names = weighting.apply(names.features).toarray().astype(np.float64)
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (dense, of_names)]
    truth = points.labels.toarray() > 0
    told = []
    for more in (False, True):
        vectors, labels = unit[0][stored], truth[stored]
        if more:
            vectors = np.concatenate([vectors, unit[1]])
            labels = np.concatenate([labels, names.labels.toarray() > 0])
        gained = np.zeros(3)
        for row in held:
            cosines = np.maximum(vectors @ unit[0][row], 0)
            nearest = np.argsort(-cosines, kind="stable")[:50]
            votes = (cosines[nearest, None] ** 2 * labels[nearest]).sum(axis=0)
            best = [label for label in np.argsort(-votes, kind="stable")[:5] if votes[label] > 0]
            right = np.array([truth[row, label] for label in best] + [False] * (5 - len(best)))
            gained += right[:1].mean(), right[:3].mean(), right[:5].mean()
        told.append(100 * gained / len(held))
    return told


def test_the_trial_is_that_of_brute_force(data):
    weighting = Weighting.fit("tfidf", data.train.features)
    found = try_names(data.train, data.name_points, weighting)
    before, after = by_hand(data.train, data.name_points, weighting)
    # A tie for the last vote may fall otherwise in float32: one point of a hundred at most.
    np.testing.assert_allclose(found.before, before, atol=1.01)
    np.testing.assert_allclose(found.precision, after, atol=1.01)
    gain = np.mean(found.precision) - np.mean(found.before)
    assert found.gain == pytest.approx(gain) and found.error > 0


def test_many_names_take_no_votes_from_points():
    """More names than neighbours that vote, all of them near: the votes before are of points."""
    rng = np.random.default_rng(5)
    topic = rng.integers(0, 4, 400)
    words = np.zeros((400, 64), np.float32)
    words[np.arange(400), topic] = 1
    words[np.arange(400), 4 + topic * 15 + rng.integers(0, 15, 400)] = 1
    labels = topic * 50 + rng.integers(0, 50, 400)
    truth = csr_matrix((np.ones(400, np.float32), labels, np.arange(401)), shape=(400, 200))
    of_names = np.zeros((200, 64), np.float32)
    of_names[np.arange(200), np.arange(200) // 50] = 1  # they say the topic alone
    names = Points(csr_matrix(of_names), csr_matrix(np.eye(200, dtype=np.float32)))
    points = Points(csr_matrix(words), truth)
    weighting = Weighting.fit("none", points.features)
    found = try_names(points, names, weighting)
    before, after = by_hand(points, names, weighting)
    np.testing.assert_allclose(found.before, before, atol=2.6)
    np.testing.assert_allclose(found.precision, after, atol=2.6)


def test_names_are_drawn_in_the_share_of_stored_points(data, monkeypatch):
    """A third of the points that could be are stored, and with them a third of the names."""
    found, stored = label_names.nearest, []

    def counted(asked, by_feature, count):
        stored.append(by_feature.shape[1])
        return found(asked, by_feature, count)

    could = data.train.num_points - data.train.num_points // 10
    monkeypatch.setattr(label_names, "_MAX_STORED", could // 3)
    monkeypatch.setattr(label_names, "nearest", counted)
    try_names(data.train, data.name_points, Weighting.fit("tfidf", data.train.features))
    assert stored == [could // 3, -(-named_texts.LABELS // 3)]


def test_names_pay_where_texts_use_them_and_not_where_they_are_mixed_up(data):
    weighting = Weighting.fit("tfidf", data.train.features)
    assert try_names(data.train, data.name_points, weighting).pays
    assert not try_names(data.train, shuffled(data).name_points, weighting).pays


def test_what_pays():
    trial = Gain((50.0,), (50.5,), gain=0.5, error=0.2)
    assert trial.pays and not dataclasses.replace(trial, error=0.3).pays


def test_too_few_points_judge_nothing(data):
    few = data.train.take(np.arange(12))
    assert try_names(few, data.name_points, Weighting.fit("tfidf", few.features)) is None
    empty = csr_matrix((100, named_texts.LABELS), dtype=np.float32)
    none = Points(data.train.features[:100], empty)
    assert try_names(none, data.name_points, Weighting.fit("tfidf", none.features)) is None
