"""Class rows from names: against scikit-learn's pieces and a dense solution, and on real labels."""

import dataclasses

import numpy as np
import pytest
from command_line import call
from real_data import real_data_folder
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer

import snm
from snm.grow.name_rows import names_predict_rows, predict_rows_from_names

NAMES = ["graph-theory", "data-mining", "graph drawing", "Mining", "go", "C++", "web_data"]


@pytest.mark.parametrize("dim", [5, 200])  # fewer columns than new names, and more
def test_it_is_the_ridge_regression_on_pieces_of_names(dim):
    rng = np.random.default_rng(0)
    names = NAMES + [f"{a}-{b}" for a in ("deep", "web", "text") for b in ("data", "graphs", "net")]
    rows = rng.normal(size=(len(names), dim))
    new = ["graph-mining", "webs", "zzz", "Go!", *(f"graph{i}" for i in range(90))]
    clean = [[n.replace("_", " ").replace("-", " ").replace("+", " ").replace("!", " ")
              for n in some] for some in (names, new)]  # fmt: skip
    pieces = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5))
    old = pieces.fit_transform(clean[0]).toarray()
    others = pieces.transform(clean[1]).toarray()
    wanted = others @ np.linalg.solve(old.T @ old + np.eye(old.shape[1]), old.T @ rows)
    found = predict_rows_from_names(rows, names, new)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert not found[2].any()  # zzz shares nothing


def test_names_that_are_codes_tell_nothing():
    rng = np.random.default_rng(1)
    stems = [
        f"{a}{b}" for a in ("graph", "data", "deep", "text", "web") for b in ("ed", "ing", "s")
    ]
    names = [f"{stems[i % 15]}-{i}" for i in range(150)]
    of_stem = rng.normal(size=(15, 8))
    rows = of_stem[np.arange(150) % 15] + 0.1 * rng.normal(size=(150, 8))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert names_predict_rows(rows, names)
    codes = [f"B{number:08d}" for number in rng.permutation(10**6)[:150]]
    assert not names_predict_rows(rows, codes)
    assert not names_predict_rows(rows[:19], names[:19])  # too few


def test_no_name_and_no_piece():
    rows = np.ones((2, 3))
    assert predict_rows_from_names(rows, ["a", "b"], []).shape == (0, 3)
    assert not predict_rows_from_names(rows, ["++", "--"], ["words"]).any()
    assert not predict_rows_from_names(rows, ["++", "--"], ["++"]).any()


@pytest.mark.slow
def test_labels_that_no_point_has_are_found_by_their_names(tmp_path):
    """A tenth of the labels is taken out, and added again by name alone."""
    data = snm.load_data(real_data_folder("citeulike-t-14k"))
    count = data.train.num_labels
    order = np.random.default_rng(0).permutation(count)
    kept, held = np.sort(order[count // 10 :]), np.sort(order[: count // 10])
    train = dataclasses.replace(data.train, labels=csr_matrix(data.train.labels[:, kept]))
    names = [data.label_names[label] for label in kept]
    part = dataclasses.replace(data, train=train, test=None, label_names=tuple(names),
                               sha256="0" * 64)  # fmt: skip
    snm.train(part, dataclasses.replace(snm.preset("fast"), memory="off"), tmp_path / "run")
    lines = "".join(f"{data.label_names[label]}\n" for label in held)
    (tmp_path / "new.txt").write_text(lines)
    call("grow", tmp_path / "run", "--labels", tmp_path / "new.txt", "--out", tmp_path / "grown")
    truth = csr_matrix(data.test.labels[:, held])
    rows = np.flatnonzero(np.diff(truth.indptr))
    best, _ = snm.load(tmp_path / "grown").predict(
        data.test.features[rows], 5, labels=np.arange(len(kept), count)
    )
    true = [set((len(kept) + row.indices).tolist()) for row in truth[rows]]
    recall = np.mean([len(t & set(b)) / len(t) for t, b in zip(true, best.tolist(), strict=True)])
    chance = 5 / len(held)
    assert recall > 20 * chance, f"recall@5 {100 * recall:.1f}%, by chance {100 * chance:.2f}%"
    print(f"recall@5 {100 * recall:.1f}%, by chance {100 * chance:.2f}%")
