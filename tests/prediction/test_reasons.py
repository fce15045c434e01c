"""The terms of a score: features, bias, votes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from devices import mesh_here
from scipy import sparse

import snm
from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.memory.memory import Memory, MemorySettings
from snm.model.encoder import ENCODERS
from snm.model.from_config import make_model
from snm.model.inference import join_members
from snm.model.model import init_state
from snm.tables.int8 import as_bytes, int8_rows
from snm.tables.table import RowTable

D, K, POINTS = 40, 30, 19


def counts(count, seed):
    rng = np.random.default_rng(seed)
    kept = rng.random((count, D)) < 0.2
    kept[min(3, count - 1)] = False  # a point without a feature
    return sparse.csr_matrix((rng.integers(1, 4, (count, D)) * kept).astype(np.float32))


def predictor_of(encoder="residual", *, members=2, memory=False):
    """Random parameters; the dense layer of the residual encoder starts at zero otherwise."""
    config = dataclasses.replace(tiny.CONFIG, encoder=encoder, bias=True, score_scale=4.0)
    model = make_model(tiny.resolved(config), D, K)
    states = []
    for seed in range(members):
        state = init_state(model, seed)
        keys = jax.random.split(jax.random.key(seed + 50))
        tower = jax.tree.map(lambda x, key=keys[0]: jax.random.normal(key, x.shape) / 3,
                             state.tower)  # fmt: skip
        bias = 0.3 * jax.random.normal(keys[1], state.head.bias.shape)
        head = dataclasses.replace(state.head, bias=bias)
        states.append(dataclasses.replace(state, tower=tower, head=head))
    stored = counts(60, 1)
    weighting = Weighting.fit("tfidf", stored)
    model = dataclasses.replace(model, members=members)
    predictor = snm.Predictor(model, join_members(states), weighting)
    if not memory:
        return predictor
    rng = np.random.default_rng(2)
    labels = sparse.csr_matrix((rng.random((60, K)) < 0.1).astype(np.float32))
    queries = np.concatenate([*predictor.queries(stored)]).astype(np.float16)
    rows, settings = np.arange(60), MemorySettings(20, 2.0, 0.5, 3.0)
    kept = Memory(weighting.apply(stored), labels, queries, rows, settings)
    return dataclasses.replace(predictor, memory=kept)


@pytest.mark.parametrize(
    ("encoder", "members", "memory"),
    [*((encoder, 1, False) for encoder in ENCODERS), ("relu", 2, True), ("residual", 2, True)],
)
def test_terms_add_up_to_the_score(encoder, members, memory):
    predictor, features = predictor_of(encoder, members=members, memory=memory), counts(POINTS, 4)
    labels, scores = predictor.predict(features, 6)
    told = predictor.reasons(features, labels, most=3)
    for row, of_point in enumerate(told):
        ids = set(features[row].indices.tolist())
        for place, reason in enumerate(of_point):
            named = [f for f, _ in reason.features]
            assert len(named) == min(3, len(ids)) == len(set(named)) and set(named) <= ids
            sizes = [abs(part) for _, part in reason.features]
            assert sizes == sorted(sizes, reverse=True)
            total = sum(part for _, part in reason.features) + reason.other_features
            total += reason.bias + reason.votes
            assert total == pytest.approx(scores[row, place], abs=2e-5)
    votes = [reason.votes for of_point in told for reason in of_point]
    assert (max(votes) > 0) == memory
    assert any(reason.witnesses for of_point in told for reason in of_point) == memory


def test_the_part_of_a_feature_by_hand():
    """A linear encoder: x_f <e_f, w> times the multiplier, over the length of the sum."""
    predictor, features = predictor_of("linear", members=1), counts(2, 7)
    rows = np.asarray(predictor.state.features.rows, np.float64)
    classes = np.asarray(predictor.state.head.table.rows, np.float64)
    values = predictor.weighting.apply(features)[0].toarray()[0].astype(np.float64)
    factor = float(np.exp(predictor.state.head.log_scale)) / np.linalg.norm(values @ rows)
    ((reason,), _) = predictor.reasons(features, np.array([[5], [6]]), most=D)
    assert len(reason.features) == (values != 0).sum() > 3 and reason.other_features == 0
    for feature, part in reason.features:
        expected = values[feature] * (rows[feature] @ classes[5]) * factor
        assert part == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert reason.bias == pytest.approx(float(predictor.state.head.bias[5]))


def test_units_that_are_not_active_add_nothing():
    """Active units stay as they are: a relu encoder's part of a feature, in float64."""
    predictor, features = predictor_of("relu", members=1), counts(5, 8)[:1]
    state = predictor.state
    rows, classes = (
        np.asarray(x, np.float64) for x in (state.features.rows, state.head.table.rows)
    )
    (kernel,) = (np.asarray(x, np.float64) for x in jax.tree.leaves(state.tower))
    values = predictor.weighting.apply(features).toarray()[0].astype(np.float64)
    active = (values @ rows > 0).astype(np.float64)
    unscaled = ((values @ rows) * active) @ kernel
    factor = float(np.exp(state.head.log_scale)) / np.linalg.norm(unscaled)
    ((reason,),) = predictor.reasons(features, np.array([[11]]), most=D)
    for feature, part in reason.features:
        expected = values[feature] * ((rows[feature] * active) @ kernel @ classes[11]) * factor
        assert part == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_what_has_no_terms():
    predictor = predictor_of(memory=True)
    features = counts(5, 9)
    told = predictor.reasons(features, np.array([[4, -1]] * 5))
    assert all(one[1] == ([], 0.0, 0.0, 0.0, []) for one in told)
    empty = told[3][0]  # the point without a feature has the bias alone
    assert empty.features == [] and empty.other_features == 0 and empty.bias != 0
    assert predictor.reasons(features[:0], np.zeros((0, 2), int)) == []
    mesh = dataclasses.replace(predictor, mesh=mesh_here("data=2", K, 16))
    with pytest.raises(InputError, match="a model on a mesh"):
        mesh.reasons(features, np.zeros((5, 1), int))


def test_rows_of_int8():
    predictor, features = predictor_of(), counts(POINTS, 6)
    tables = {}
    for name in ("features", "head"):
        part = getattr(predictor.state, name)
        rows = np.asarray(part.rows if name == "features" else part.table.rows)
        table = RowTable(jnp.asarray(as_bytes(int8_rows(rows))))
        tables[name] = table if name == "features" else dataclasses.replace(part, table=table)
    small = dataclasses.replace(predictor, state=dataclasses.replace(predictor.state, **tables))
    labels, scores = small.predict(features, 4)
    for of_point, of_row in zip(small.reasons(features, labels), scores, strict=True):
        for reason, score in zip(of_point, of_row, strict=True):
            terms = [part for _, part in reason.features] + [reason.other_features, reason.bias]
            assert sum(terms) == pytest.approx(score, abs=2e-5)


def test_as_json():
    ((reason,),) = predictor_of().reasons(counts(5, 3)[:1], np.array([[2]]), most=2)
    assert reason.as_json() == {
        "features": [[f, round(part, 4)] for f, part in reason.features],
        "other_features": round(reason.other_features, 4),
        "bias": round(reason.bias, 4),
        "votes": 0.0,
    }


def test_features_are_words_where_the_model_knows_them():
    """A vectorizer that hashes keeps no words, so that features stay ids."""
    model, features = predictor_of(memory=True), counts(POINTS, 6)
    answers, _ = model.predict(features, 3)
    words = tuple(f"word{feature}" for feature in range(D))
    counting, hashing = Vectorizer("counts", D, vocabulary=words), Vectorizer("hashing", D)
    named, hashed = (dataclasses.replace(model, vectorizer=one) for one in (counting, hashing))
    plain, told = model.reasons(features, answers), named.reasons(features, answers)
    assert hashed.reasons(features, answers) == plain
    shared = 0
    for of_point, of_named in zip(plain, told, strict=True):
        for ids, reason in zip(of_point, of_named, strict=True):
            assert reason.features == [(f"word{f}", part) for f, part in ids.features]
            for before, one in zip(ids.witnesses, reason.witnesses, strict=True):
                assert one == before._replace(features=[f"word{f}" for f in before.features])
                shared += len(one.features)
    assert shared
    spoken = [[reason.witnesses for reason in of_point] for of_point in told]
    assert named.witnesses(features, answers) == spoken


def test_standardized_words_that_a_text_lacks_are_no_reasons():
    """Their values are not 0 and count in the score, but a reader would look for the words."""
    stored, points = counts(60, 1), counts(POINTS, 4)
    model = predictor_of(memory=True)
    standard = Weighting.fit("standard", stored)
    assert standard.apply(points).nnz == POINTS * D
    memory = dataclasses.replace(model.memory, features=standard.apply(stored))
    numbers = dataclasses.replace(model, weighting=standard, memory=memory)
    words = dataclasses.replace(numbers, vectorizer=Vectorizer("hashing", D))
    answers, scores = words.predict(points, 4)
    named, shared = words.reasons(points, answers, most=D), 0
    for row, of_point in enumerate(named):
        has = set(points[row].indices.tolist())
        for place, reason in enumerate(of_point):
            assert {feature for feature, _ in reason.features} == has
            total = sum(part for _, part in reason.features) + reason.other_features
            total += reason.bias + reason.votes
            assert total == pytest.approx(scores[row, place], abs=2e-5)
            for one in reason.witnesses:
                assert set(one.features) <= has & set(stored[one.row].indices.tolist())
                shared += len(one.features)
    assert shared
    assert words.witnesses(points, answers) == [[one.witnesses for one in of] for of in named]
    # Where features are numbers, a 0 is a value like others.
    all_listed = numbers.reasons(points, answers, most=D)
    assert all(len(one.features) == D for of_point in all_listed for one in of_point)


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([[K]], f"label {K}, expected an id from 0 to {K - 1}, or -1 for none"),
        ([[3, -2]], "label -2"),
        ([[2**40]], f"label {2**40}"),
        ([[3], [4]], r"an array of int64 \(2, 1\), expected ids of labels, 1 x k"),
        ([3], r"an array of int64 \(1,\)"),
        ([[0.5]], "an array of float64"),
        ([[1], [1, 2]], "different numbers of labels for the points"),
    ],
)
def test_answers_that_are_no_labels(answers, found):
    model = predictor_of(memory=True)
    for explain in (model.reasons, model.witnesses):
        with pytest.raises(InputError, match=f"answers: found {found}"):
            explain(counts(1, 7), answers)
    assert model.reasons(counts(1, 7), [[-1]])[0][0].features == []
