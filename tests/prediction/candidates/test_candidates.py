"""The best of some labels, against scores of all labels in float64."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from devices import mesh_here, same_program
from scipy import sparse

import snm
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.memory.memory import Memory, MemorySettings
from snm.model.from_config import make_model
from snm.model.inference import join_members
from snm.model.model import init_state
from snm.model.placement import join_members_on_mesh, shard_state
from snm.prediction import programs
from snm.prediction.candidates.parse import ids_by_name, ids_of_labels, parse_k
from snm.prediction.fitted_model import make_blocks
from snm.prediction.programs import jitted_pair_scores, jitted_queries, jitted_top

K, D, POINTS = 600, 600, 30


def points(count, seed):
    """CSR [count, D] of counts."""
    rng = np.random.default_rng(seed)
    kept = rng.random((count, D)) < 0.02
    return sparse.csr_matrix((rng.integers(1, 4, (count, D)) * kept).astype(np.float32))


def predictor_of(*, members=2, drop_seen=False, memory=True, mesh=None, bias=True):
    """Random parameters; a label has a bias, so that it matters."""
    config = tiny.resolved(dataclasses.replace(tiny.CONFIG, bias=bias, score_scale=4.0))
    model = make_model(config, D, K)
    model = dataclasses.replace(model, members=members, drop_seen=drop_seen)
    states = []
    for seed in range(members):
        state = init_state(dataclasses.replace(model, members=1), seed)
        if bias:
            random = 0.3 * jax.random.normal(jax.random.key(seed + 50), state.head.bias.shape)
            state = dataclasses.replace(state, head=dataclasses.replace(state.head, bias=random))
        states.append(state)
    stored = points(80, 1)
    weighting = Weighting.fit("tfidf", stored)
    state = join_members(states)
    if mesh is not None:
        states = [shard_state(one, mesh) for one in states]
        state = states[0] if members == 1 else join_members_on_mesh(states, mesh)
    predictor = snm.Predictor(model, state, weighting, mesh=mesh, block_rows=16)
    if not memory:
        return predictor
    rng = np.random.default_rng(2)
    labels = sparse.csr_matrix((rng.random((80, K)) < 0.03).astype(np.float32))
    queries = np.concatenate(list(predictor.queries(stored))).astype(np.float16)
    memory = Memory(
        weighting.apply(stored), labels, queries, np.arange(80), MemorySettings(20, 2.0, 0.5, 3.0)
    )
    return dataclasses.replace(predictor, memory=memory)


def all_scores(predictor, features):
    """float64 [n, K]; -inf for labels that are never an answer."""
    queries = np.concatenate(list(predictor.queries(features)))
    head = predictor.state.head
    rows = np.asarray(head.table.rows, np.float64)[:K]
    scores = queries.astype(np.float64) @ rows.T
    if head.bias is not None:
        scores += np.asarray(head.bias, np.float64)[:K]
    if predictor.memory is not None:
        weighted = predictor.weighting.apply(features)
        scores += predictor.memory.additions(weighted, queries).toarray()
    if predictor.model.drop_seen:
        scores[features.toarray() > 0] = -np.inf
    return scores


def check(predictor, found, features, allowed, k):
    """The answers are the best k of the labels in `allowed`, bool [n, K], by brute force."""
    labels, scores = found
    assert labels.shape == scores.shape == (features.shape[0], k)
    assert labels.dtype == np.int32 and scores.dtype == np.float32
    expected = np.where(allowed, all_scores(predictor, features), -np.inf)
    for row, of_all in enumerate(expected):
        best = np.argsort(-of_all, kind="stable")[:k]
        best = best[np.isfinite(of_all[best])]
        assert labels[row].tolist() == best.tolist() + [-1] * (k - len(best))
        np.testing.assert_allclose(scores[row, : len(best)], of_all[best], rtol=1e-4, atol=1e-5)


def shared(size, seed=3):
    rng = np.random.default_rng(seed)
    return rng.choice(K, size, replace=False)


CASES = [
    pytest.param({"drop_seen": True}, id="without labels that are features"),
    pytest.param({}, id="members with a memory", marks=pytest.mark.slow),
    pytest.param({"members": 1, "memory": False}, id="one member", marks=pytest.mark.slow),
    pytest.param({"bias": False, "memory": False}, id="without a bias", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("case", CASES)
def test_the_best_of_labels_for_all_points(case):
    predictor, features = predictor_of(**case), points(POINTS, 4)
    k = 7
    for size in (3, 40, 256):
        labels = shared(size)
        allowed = np.zeros((POINTS, K), bool)
        allowed[:, labels] = True
        twice = np.concatenate([labels, labels[:2]])  # in any order, and more than once
        check(predictor, predictor.predict(features, k, twice), features, allowed, k)
    twice = predictor.predict(features, 2, iter([5, 9, 2]))  # which can be read once
    once = predictor.predict(features, 2, [2, 5, 9])
    np.testing.assert_array_equal(twice[0], once[0])
    same_program(twice[1], once[1])
    for some, count in (([5, 9], 2), ([[5]] * POINTS, 5)):
        assert predictor.predict(features, labels=some)[0].shape == (POINTS, count)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_all_labels_as_candidates(case):
    predictor, features = predictor_of(**case), points(POINTS, 4)
    with_all = predictor.predict(features, 5, np.arange(K))
    for found, expected in zip(with_all, predictor.predict(features, 5), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    # More to choose from than a block of the search holds, and many to find.
    check(predictor, predictor.predict(features, 300, shared(500)), features,
          np.isin(np.arange(K), shared(500))[None, :].repeat(POINTS, 0), 300)  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_best_of_labels_of_each_point(case):
    predictor, features = predictor_of(**case), points(POINTS, 4)
    rng = np.random.default_rng(5)
    allowed = rng.random((POINTS, K)) < rng.choice([0.005, 0.3], (POINTS, 1))
    allowed[7] = False
    check(predictor, predictor.predict(features, 6, sparse.csr_matrix(allowed)), features, allowed,
          6)  # fmt: skip
    lists = [np.flatnonzero(row).tolist() for row in allowed]
    check(predictor, predictor.predict(features, 6, lists), features, allowed, 6)
    mask = sparse.csr_matrix(allowed.astype(np.float32))
    mask.data[::2] = 0  # no entry
    check(predictor, predictor.predict(features, 6, mask), features, mask.toarray() > 0, 6)


def test_more_pairs_than_are_scored_at_once(monkeypatch):
    """256 at once, where a block of 16 points has 9,600."""
    monkeypatch.setattr(programs, "_PAIR_FLOATS", 1)
    predictor, features = predictor_of(memory=False), points(POINTS, 4)
    mask = sparse.csr_matrix(np.ones((POINTS, K), np.float32))
    found, expected = predictor.predict(features, 5, mask), predictor.predict(features, 5)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4, atol=1e-5)


def test_ties_go_to_the_lowest_label():
    predictor = predictor_of(members=1, memory=False, bias=False)
    state = predictor.state
    table = dataclasses.replace(state.head.table, rows=jnp.zeros_like(state.head.table.rows))
    state = dataclasses.replace(state, head=dataclasses.replace(state.head, table=table))
    predictor = dataclasses.replace(predictor, state=state)
    for labels in ([9, 2, 500, 4], [[9, 2, 500, 4]] * POINTS):
        found, _ = predictor.predict(points(POINTS, 4), 3, labels)
        assert found.tolist() == [[2, 4, 9]] * POINTS


@pytest.mark.slow
@pytest.mark.parametrize("text", ["data=2,label=4", "label=8", "data=8"])
@pytest.mark.parametrize("drop_seen", [False, True])
def test_on_a_mesh(text, drop_seen):
    mesh, features = mesh_here(text, K, 16), points(POINTS, 4)
    options = {"members": 1, "drop_seen": drop_seen}
    one, many = predictor_of(**options), predictor_of(**options, mesh=mesh)
    rng = np.random.default_rng(5)
    for labels in (shared(70), sparse.csr_matrix(rng.random((POINTS, K)) < 0.05)):
        expected, found = (each.predict(features, 8, labels) for each in (one, many))
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_few_programs_are_compiled_and_they_read_the_rows_of_the_labels_alone():
    predictor, features = predictor_of(), points(POINTS, 4)
    jitted_top.cache_clear()
    jitted_pair_scores.cache_clear()
    for size in (1, 10, 100, 256):
        predictor.predict(features, 5, shared(size))
        predictor.predict(features, 5, [shared(size, seed) for seed in range(POINTS)])
    assert jitted_top(predictor.model, 5, None)._cache_size() == 1
    assert jitted_pair_scores(predictor.model, None)._cache_size() <= 6  # 256 to over 4,096 pairs
    # 100 times as many labels, and the operations stay.
    counts = []
    for num_labels in (1000, 100_000):
        model = dataclasses.replace(
            predictor.model, spec=dataclasses.replace(predictor.model.spec, num_labels=num_labels)
        )
        block = next(make_blocks(predictor, None, POINTS).split(features))[1]
        state = jax.eval_shape(
            lambda model=model: join_members(
                [init_state(dataclasses.replace(model, members=1)) for _ in range(2)]
            )
        )
        ids = jax.ShapeDtypeStruct((256,), jnp.int32)
        queries = jax.eval_shape(jitted_queries(model, None), state, block)
        lowered = jitted_top(model, 5, None).lower(state, block, queries, None, ids)
        counts.append(lowered.compile().cost_analysis()["flops"])
    assert counts[0] == counts[1]


def test_ids_of_names():
    names = tuple(f"name {label}" for label in range(K))
    predictor = dataclasses.replace(predictor_of(memory=False), label_names=names)
    assert predictor.ids_of([7, np.int32(3)]).tolist() == [7, 3]
    assert "id_of_name" not in vars(predictor)  # of millions of labels it takes seconds
    assert predictor.ids_of(["name 7", 3, "name 599"]).tolist() == [7, 3, 599]
    with pytest.raises(InputError, match="labels: found an unknown label 'name 600', expected a n"):
        predictor.ids_of(["name 7", "name 600"])
    assert predictor.ids_of(["name 7", "name 600", 3], skip_unknown=True).tolist() == [7, 3]
    twice = dataclasses.replace(predictor, label_names=("a", "b", "a", *predictor.label_names[3:]))
    assert twice.ids_of(["b", 2, 0]).tolist() == [1, 2, 0]
    with pytest.raises(InputError, match="'a', the name of several labels, expected an id"):
        twice.ids_of(["b", "a"])
    with pytest.raises(InputError, match="the labels have no names"):
        predictor_of(memory=False).ids_of(["name 7"])


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([], "no label"),
        ([1, 600], "label 600, expected an id from 0 to 599"),
        ([-1], "label -1"),
        ([1.5], "an array of float64"),
        (["name"], "unknown label 'name', expected an id from 0 to 599: the labels have no names"),
        ([[1, 2]] * 29 + [3], "an array of int64 ()"),
        ([None, 1], "an array of object"),
        ([1, 10**30], f"label {10**30}, expected an id from 0 to 599"),
        ([[0]] * 29 + [[1, 2**64]], f"label {2**64}, expected"),
        ("name", "one text, expected a sequence of ids or names"),
        ([[1]] * 29 + ["name"], "one text, expected a sequence of ids or names"),
        ([True, False], "an array of bool"),
        ([1, [2, 3]], "ids and other things"),
        ([[1], [2]], "labels of 2 points, expected of 30"),
        ([[1]] * 29 + [[700]], "label 700"),
        (sparse.csr_matrix((30, 599)), "a matrix of shape (30, 599), expected (30, 600)"),
    ],
)
def test_bad_labels(labels, said):
    with pytest.raises(InputError) as error:
        predictor_of(memory=False).predict(points(POINTS, 4), 2, labels)
    assert said in str(error.value)


def test_names_stand_for_their_ids():
    names = tuple(f"name {label}" for label in range(K))
    predictor = dataclasses.replace(predictor_of(), label_names=names)
    features = points(POINTS, 4)
    of_each = [["name 7", "name 30"], [5], *[["name 8", 2, "name 9"]] * 28]
    for option in ("labels", "exclude"):
        for named, ids in (
            (["name 30", "name 7", 4, "name 7"], [4, 7, 30]),
            (np.array(["name 30", "name 7"]), [7, 30]),
            (np.array(["name 30", 7], object), [7, 30]),
            (of_each, [[7, 30], [5], *[[2, 8, 9]] * 28]),
        ):
            found = predictor.predict(features, 2, **{option: named})
            expected = predictor.predict(features, 2, **{option: ids})
            np.testing.assert_array_equal(found[0], expected[0])
            np.testing.assert_array_equal(found[1], expected[1])
        with pytest.raises(InputError, match=f"^{option}: found an unknown label 'name 600', exp"):
            predictor.predict(features, 2, **{option: [["name 600"]] * POINTS})


def test_no_points_have_no_candidates():
    predictor, features = predictor_of(), points(POINTS, 4)[:0]
    for labels in (None, [], np.zeros((0, 3), np.int32)):
        found, scores = predictor.predict(features, 3, labels)
        assert found.shape == scores.shape == (0, 3)


def test_a_name_is_found_in_either_spelling():
    """Names in a file may not be composed; two that look alike are told as two."""
    apart, whole = "cafe\u0301", "caf\u00e9"
    assert ids_of_labels([whole, apart], 2, ids_by_name(["tea", apart])).tolist() == [1, 1]
    assert ids_of_labels([apart, whole], 2, ids_by_name(["tea", whole])).tolist() == [1, 1]
    several = ids_by_name([apart, whole])
    assert ids_of_labels([apart], 2, several).tolist() == [0]
    assert ids_of_labels([whole], 2, several).tolist() == [1]
    with pytest.raises(InputError, match="an unknown label"):
        ids_of_labels(["caf"], 2, several)


def test_numbers_of_answers_that_are_none():
    """4.0 equals the 4 that a compiled program is kept by, and True the 1."""
    predictor, asked = predictor_of(), points(2, seed=9)
    for k in (4.0, True, "3", [3], 0, K + 1):
        found = str(k) if k in (0, K + 1) else repr(k).replace("[", r"\[").replace("]", r"\]")
        with pytest.raises(
            InputError, match=f"^k: found {found}, expected 1 to {K}, the number of labels"
        ):
            predictor.predict(asked, k=k)
    labels, _ = predictor.predict(asked, k=np.int64(4))
    np.testing.assert_array_equal(labels, predictor.predict(asked, k=4)[0])
    assert type(parse_k(np.int32(7), None, K)) is int


def test_labels_that_are_no_sequence():
    predictor = predictor_of()
    assert predictor.ids_of(label for label in (5, 3)).tolist() == [5, 3]
    for wrong, found in (("sky", "one text"), (3, "3"), (None, "None")):
        with pytest.raises(InputError, match=f"^labels: found {found}, expected a sequence"):
            predictor.ids_of(wrong)
    for wrong in (3, np.array(3)):
        with pytest.raises(InputError, match=r"^labels: found .*3.*, expected ids of labels"):
            predictor.predict(points(2, seed=9), k=1, labels=wrong)
