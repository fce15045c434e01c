"""Weighting: formulas evaluated by hand, and rows without non-zero values."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import csr_matrix
from sklearn.preprocessing import StandardScaler, normalize

from snm.data import weighting
from snm.data.weighting import Weighting
from snm.errors import InputError

# Four points: word 0 is in all, 1 in two, 2 in one, 3 in none; the last row has only stored zeros.
COUNTS = np.array([[3, 1, 0, 0], [1, 2, 5, 0], [2, 0, 0, 0], [4, 0, 0, 0]], np.float32)


def test_none_and_l2():
    features = sparse.csr_matrix(np.array([[3, 0, 4], [0, 0, 0], [0, -2, 0]], np.float32))
    none = Weighting.fit("none", features).apply(features)
    assert none.toarray().tolist() == [[3, 0, 4], [0, 0, 0], [0, -2, 0]]
    unit = Weighting.fit("l2", features).apply(features)
    np.testing.assert_allclose(unit.toarray(), [[0.6, 0, 0.8], [0, 0, 0], [0, -1, 0]], rtol=1e-7)
    assert none.dtype == unit.dtype == np.float32


def test_tfidf_by_hand():
    """The formula of scikit-learn's TfidfTransformer(sublinear_tf=True), evaluated by hand."""
    weighting = Weighting.fit("tfidf", sparse.csr_matrix(COUNTS))
    # log((1 + 4) / (1 + df)) + 1 for df = 4, 2, 1, 0
    idf = [1, math.log(5 / 3) + 1, math.log(5 / 2) + 1, math.log(5) + 1]
    np.testing.assert_allclose(weighting.idf, idf, rtol=1e-6)
    assert weighting.idf.dtype == np.float32
    weighted = weighting.apply(sparse.csr_matrix(COUNTS)).toarray()
    row = np.array([(1 + math.log(1)) * idf[0], (1 + math.log(2)) * idf[1], 0, 0])
    row[2] = (1 + math.log(5)) * idf[2]
    np.testing.assert_allclose(weighted[1], row / math.sqrt((row**2).sum()), rtol=1e-6)
    np.testing.assert_allclose(weighted[2], [1, 0, 0, 0], rtol=1e-6)
    np.testing.assert_allclose((weighted**2).sum(1), 1, rtol=1e-6)


def test_tfidf_below_one_rises_and_never_turns_negative():
    values = np.array([0, 1e-30, 0.01, 0.3, 0.999999, 1, 1.000001, 2], np.float32)
    features = sparse.csr_matrix((values, ([0] * 8, range(8))), shape=(1, 8))
    weighting = Weighting("tfidf", np.ones(8, np.float32))
    # Rows have unit length, so compare ratios to the entry of count 1.
    weighted = weighting.apply(features).toarray()[0]
    damped = weighted / weighted[5]
    assert damped[0] == 0
    assert (np.diff(damped) > 0).all()
    np.testing.assert_allclose(damped[2:5], values[2:5], rtol=1e-6)
    np.testing.assert_allclose(damped[7], 1 + math.log(2), rtol=1e-6)


DENSE = np.array([[7, 0, 5, 1], [9, 2, 5, 0], [8, 0, 5, 3], [6, 1, 5, 9.5]], np.float32)


@pytest.mark.parametrize("entries", [1, 8, 1 << 20])
def test_standard_is_that_of_scikit_learn(monkeypatch, entries):
    monkeypatch.setattr(weighting, "_ENTRIES", entries)
    fitted = Weighting.fit("standard", sparse.csr_matrix(DENSE))
    scaler = StandardScaler().fit(DENSE.astype(np.float64))
    np.testing.assert_allclose(fitted.mean, scaler.mean_, rtol=1e-6)
    np.testing.assert_allclose(fitted.spread, scaler.scale_, rtol=1e-6)  # 1 where it is constant
    # A value that is not stored is a 0, in training and later.
    for rows in (DENSE, np.array([[0, 0, 0, 0], [1, 0, 7, 0]], np.float32)):
        given = sparse.csr_matrix(rows)
        found = fitted.apply(given)
        np.testing.assert_allclose(
            found.toarray(), normalize(scaler.transform(rows)), rtol=1e-5, atol=1e-6
        )
        assert found.dtype == np.float32 and found.has_sorted_indices
        np.testing.assert_array_equal(found.indptr, fitted.starts(given))


def test_standard_of_a_large_mean():
    """Times in seconds vary by little of their value."""
    times = np.float32(1.7e9) + 1024 * np.arange(50, dtype=np.float32)[:, None]
    fitted = Weighting.fit("standard", sparse.csr_matrix(times))
    np.testing.assert_allclose(fitted.spread, times.astype(np.float64).std(), rtol=1e-9)
    tiny = np.zeros((1000, 1), np.float32)
    tiny[0] = 1e-42
    weighted = Weighting.fit("standard", sparse.csr_matrix(tiny)).apply(sparse.csr_matrix(tiny))
    assert np.isfinite(weighted.data).all()


def test_standard_of_equal_values_is_nothing():
    equal = sparse.csr_matrix(np.full((3, 2), 0.1, np.float32))
    fitted = Weighting.fit("standard", equal)
    assert fitted.spread.tolist() == [1, 1]
    assert np.abs(fitted.apply(equal).toarray()).max() <= 1  # not infinite


def test_a_stored_zero_does_not_count_as_an_occurrence():
    stored = sparse.csr_matrix((np.array([0.0, 2], np.float32), ([0, 1], [0, 0])), shape=(2, 1))
    absent = sparse.csr_matrix(np.array([[0], [2]], np.float32))
    assert Weighting.fit("tfidf", stored).idf == Weighting.fit("tfidf", absent).idf


@pytest.mark.parametrize("kind", ["none", "l2", "tfidf"])
def test_empty_rows_extreme_values_and_no_mutation(kind):
    most = 1e12 if kind == "none" else 1e38
    dense = np.array([[0, 0], [1e-38, 0], [most, most], [1e-45, 1]], np.float32)
    features = sparse.csr_matrix(dense)
    before = features.copy()
    weighted = Weighting.fit(kind, features).apply(features)
    assert np.isfinite(weighted.data).all()
    assert weighted[0].nnz == 0
    if kind != "none":
        lengths = np.sqrt((weighted.toarray().astype(np.float64) ** 2).sum(1))
        np.testing.assert_allclose(lengths, [0, 1, 1, 1], rtol=1e-6)
    weighted.data[:] = 7
    assert np.shares_memory(weighted.indices, features.indices)  # large sets need it once
    assert (features != before).nnz == 0


def test_values_whose_squares_would_overflow_are_refused():
    large = sparse.csr_matrix(np.array([[1, -2e12]], np.float32))
    with pytest.raises(InputError, match=r"^features: found the value 2e\+12, expected .* l2$"):
        Weighting.fit("none", large).apply(large)
    assert Weighting.fit("l2", large).apply(large)[0, 1] == -1


def test_stored_zero_rows_stay_zero():
    features = sparse.csr_matrix((np.zeros(2, np.float32), [0, 1], [0, 2]), shape=(1, 2))
    for kind in ("none", "l2", "tfidf", "standard"):
        assert Weighting.fit(kind, features).apply(features).toarray().tolist() == [[0, 0]]


@pytest.mark.parametrize("entries", [1, 7, 40, 10**6])
@pytest.mark.parametrize("kind", ["none", "l2", "tfidf"])
def test_some_rows_at_a_time(kind, entries, monkeypatch):
    """As row by row in Python, to the last bit; a row may be longer than what is done at once."""
    monkeypatch.setattr(weighting, "_ENTRIES", entries)
    rng = np.random.default_rng(0)
    lengths = [0, 3, 0, 0, 30, 1, 9, 0]
    ids = np.concatenate([np.sort(rng.choice(40, n, replace=False)) for n in lengths])
    data = rng.integers(0, 5, len(ids)).astype(np.float32)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    features = csr_matrix((data, ids, starts), shape=(8, 40))
    fitted = Weighting.fit(kind, features)
    present = [sum(data[ids == j] > 0) for j in range(40)]
    np.testing.assert_array_equal(weighting.document_counts(features), present)
    found = fitted.apply(features)
    for row in range(8):
        here = slice(starts[row], starts[row + 1])
        values = data[here].astype(np.float64)
        if kind == "tfidf":
            values = np.where(values < 1, values, 1 + np.log(np.maximum(values, 1)))
            values *= fitted.idf[ids[here]]
        length = 0.0
        for value in values:
            length += value * value
        if kind != "none" and length:
            values = values / np.sqrt(length)
        np.testing.assert_array_equal(found.data[here], values.astype(np.float32))
    np.testing.assert_array_equal(found.indices, ids)


def test_save_and_load(tmp_path):
    features = sparse.csr_matrix(COUNTS)
    for kind in ("none", "l2", "tfidf"):
        weighting = Weighting.fit(kind, features)
        weighting.save(tmp_path / "weighting")
        back = Weighting.load(tmp_path / "weighting")
        assert back.kind == kind
        assert (back.apply(features) != weighting.apply(features)).nnz == 0


def test_errors(tmp_path):
    features = sparse.csr_matrix(COUNTS)
    negative = sparse.csr_matrix(np.array([[1, 0], [2, -3]], np.float32))
    with pytest.raises(InputError, match=r"negative value -3\.0 in row 1"):
        Weighting.fit("tfidf", negative)
    with pytest.raises(InputError, match=r"negative value -3\.0 in row 1"):
        Weighting("tfidf", np.ones(2, np.float32)).apply(negative)
    unknown = sparse.csr_matrix(np.array([[1, 0], [np.nan, 3]], np.float32))
    with pytest.raises(InputError, match="found a value that is no number in row 1"):
        Weighting.fit("tfidf", unknown)
    with pytest.raises(InputError, match="2 columns, expected 4"):
        Weighting.fit("tfidf", features).apply(negative)
    with pytest.raises(InputError, match="'tf', expected one of none, l2, tfidf, standard"):
        Weighting.fit("tf", features)
    file = tmp_path / "weighting.npz"
    with pytest.raises(InputError, match="no such file"):
        Weighting.load(file)
    file.write_text("rubbish")
    with pytest.raises(InputError, match="no weighting"):
        Weighting.load(file)
    np.savez(file, kind=np.array("l2"))
    with pytest.raises(InputError, match="no weighting"):
        Weighting.load(file)
    np.savez(file, kind=np.array("tfidf"), idf=np.zeros(0, np.float32))
    with pytest.raises(InputError, match="kind tfidf with 0 factors"):
        Weighting.load(file)
    ones = np.ones(3)
    for mean, spread in ((ones, ones[:2]), (ones, 0 * ones), (ones * np.nan, ones)):
        np.savez(
            file, kind=np.array("standard"), idf=np.zeros(0, np.float32), mean=mean, spread=spread
        )
        with pytest.raises(InputError, match="deviations that do not fit"):
            Weighting.load(file)
    np.savez(file, kind=np.array("standard"), idf=np.zeros(0, np.float32))
    with pytest.raises(InputError, match="no weighting"):
        Weighting.load(file)
    np.savez(file, kind=np.array("l3"), idf=np.zeros(0, np.float32))
    with pytest.raises(InputError, match="kind 'l3'"):
        Weighting.load(file)
