"""The references against definitions, generic solvers and scikit-learn, on tiny data."""

from pathlib import Path

import numpy as np
import pytest
from pages import ROOT
from reference_problem import problem
from scipy.optimize import LinearConstraint, lsq_linear, minimize
from scipy.sparse import csr_matrix

from experiments.references.__main__ import main
from experiments.references.dismec import Dismec
from experiments.references.leml import Leml, class_rows, feature_rows
from experiments.references.pd_sparse import PDSparse, nearest_feasible
from experiments.references.protocol import best_entries, best_scores
from experiments.references.sleec import Sleec, embeddings, near_labels, nearest_rows, regressors
from experiments.references.table import REFERENCES
from snm.data.formats.repository_text.writer import write_text
from snm.data.generated.synthetic import generate
from snm.runs.folder import read_json

# -- answers -----------------------------------------------------------------------------------


def test_answers_are_the_highest_scores() -> None:
    scores = np.array([[1.0, 5, 3, 4], [9, 8, 7, 6]], np.float32)
    found = best_scores(csr_matrix(np.eye(2)), 3, 4, lambda block: block @ scores)
    assert found.tolist() == [[1, 3, 2], [0, 1, 2]]
    some = csr_matrix(([2.0, 3, 2, 1], ([0, 0, 0, 2], [4, 1, 2, 0])), shape=(3, 5))
    assert best_entries(some, 2).tolist() == [[1, 2], [-1, -1], [0, -1]]


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_finds_labels_that_features_name(name: str) -> None:
    # Feature j is label j, and every point has two of the six.
    rng = np.random.default_rng(1)
    own = np.array([rng.choice(6, 2, replace=False) for _ in range(60)])
    x = np.zeros((60, 6), np.float32)
    np.put_along_axis(x, own, np.float32(np.sqrt(0.5)), axis=1)
    points = csr_matrix(x)
    labels = csr_matrix((x > 0).astype(np.float32))
    peer = REFERENCES[name].peer({})
    answers, seconds, predicting = peer.train_and_predict(
        points, labels, points, k=2, seed=0, threads=2
    )
    right = (answers[:, :, None] == own[:, None]).any(axis=2)
    assert right.mean() > 0.9
    assert answers.dtype == np.int64 and seconds > 0 and predicting > 0


# -- DiSMEC ------------------------------------------------------------------------------------


def test_dismec_minimizes_the_squared_hinge_and_drops_small_weights() -> None:
    x, y = problem(200, 12, 40)
    model = Dismec(pruned=0, tolerance=1e-10, threads=2).fit(x, y)
    assert model.known.tolist() == list(range(1, 40))
    dense = np.hstack([x.toarray(), np.ones((200, 1))]).astype(float)
    signs = 2 * y.toarray()[:, 1:].astype(float) - 1
    weights = model.weights.toarray().astype(float)
    short = np.maximum(1 - signs * (dense @ weights), 0)
    # The gradient of |w|^2 / 2 + C sum max(0, 1 - y w x)^2, with C = 1.
    np.testing.assert_allclose(weights - 2 * dense.T @ (signs * short), 0, atol=1e-4)

    pruned = Dismec(tolerance=1e-10).fit(x, y)
    small = np.abs(weights) < 0.01
    assert small.any()
    np.testing.assert_allclose(pruned.weights.toarray(), np.where(small, 0, weights), atol=1e-6)
    scores = dense @ pruned.weights.toarray()
    found = pruned.predict(x, 40)
    np.testing.assert_array_equal(found[:, 0], model.known[np.argmax(scores, axis=1)])
    assert (found[:, -1] == 0).all()  # the label without points


# -- LEML --------------------------------------------------------------------------------------


def test_leml_solves_for_both_factors() -> None:
    x, y = problem(50, 7, 9)
    rng = np.random.default_rng(2)
    dense_x, dense_y = x.toarray().astype(float), y.toarray().astype(float)
    w = rng.standard_normal((7, 3))
    a = dense_x @ w
    h = class_rows(a.astype(np.float32), y.T.tocsr(), 0.7)
    expected = np.linalg.solve(a.T @ a + 0.7 * np.eye(3), a.T @ dense_y).T
    np.testing.assert_allclose(h, expected, atol=1e-5)
    # The gradient of half the squares by vec(W) is (H'H (x) X'X + lambda I) vec(W) - vec(X'Y H).
    matrix = np.kron(expected.T @ expected, dense_x.T @ dense_x) + 0.7 * np.eye(21)
    best = np.linalg.solve(matrix, (dense_x.T @ dense_y @ expected).ravel(order="F"))
    start = rng.standard_normal((7, 3)).astype(np.float32)
    found = feature_rows(x, x.T.tocsr(), y @ h, h.T @ h, 0.7, start, steps=30)
    np.testing.assert_allclose(found, best.reshape(7, 3, order="F"), atol=1e-4)


def test_leml_of_full_rank_is_the_trace_norm_solution() -> None:
    """With orthonormal features, singular values of X'Y shrink by lambda (Srebro et al., 2004)."""
    x, y = csr_matrix(np.eye(8, dtype=np.float32)), problem(8, 5, 6)[1]
    model = Leml(rank=8, penalty=0.3, rounds=200).fit(x, y)
    u, sizes, v = np.linalg.svd(y.toarray(), full_matrices=False)
    expected = (u * np.maximum(sizes - 0.3, 0)) @ v
    np.testing.assert_allclose(model.w @ model.h.T, expected, atol=1e-3)
    shrunk = np.maximum(sizes - 0.3, 0)
    value = 0.5 * np.sum((y.toarray() - expected) ** 2) + 0.3 * shrunk.sum()
    assert model.objective(x, y) == pytest.approx(value, rel=1e-4)


# -- SLEEC -------------------------------------------------------------------------------------


def test_near_labels_are_those_of_the_largest_inner_products() -> None:
    _, y = problem(600, 5, 9)  # more than one block
    products = (y @ y.T).toarray()
    near = near_labels(y, 4)
    assert abs(near - near.T).max() == 0
    rows = np.repeat(np.arange(600), np.diff(near.indptr))
    np.testing.assert_array_equal(near.data, products[rows, near.indices])
    for row in range(0, 600, 7):
        kept = np.sort(near.data[near.indptr[row] : near.indptr[row + 1]])[::-1]
        np.testing.assert_array_equal(kept[:4], np.sort(products[row])[::-1][:4])


def test_embeddings_are_where_a_dense_projection_leaves_them() -> None:
    _, y = problem(40, 5, 9)
    near = near_labels(y, 6)
    stored = csr_matrix((np.ones(near.nnz), near.indices, near.indptr)).toarray() > 0
    wanted = near.toarray()
    z = embeddings(near, 5, 2000, np.random.default_rng(0)).astype(float)
    m = z @ z.T
    sizes, vectors = np.linalg.eigh(m + np.where(stored, wanted - m, 0))
    projected = (vectors[:, -5:] * np.maximum(sizes[-5:], 0)) @ vectors[:, -5:].T
    np.testing.assert_allclose(m, projected, atol=1e-3)
    assert np.square((m - wanted)[stored]).sum() < 0.01 * np.square(wanted).sum()


@pytest.mark.parametrize("points", [60, 8])  # more than features, and fewer
def test_regressors_minimize_their_objective(points: int) -> None:
    x, _ = problem(points, 10, 3)
    z = np.random.default_rng(3).standard_normal((points, 2)).astype(np.float32)
    v = regressors(x, z, 0.5, 0.6, 1.0, 2000).astype(float)
    dense = x.toarray().astype(float)
    regressed = dense @ v
    # 2 X'(XV - Z) + 2 lambda V + mu X's = 0 with s = sign(XV), or in [-1, 1] where XV is 0.
    zero = np.abs(regressed) < 1e-4
    assert zero.any(axis=0).all() and (~zero).any(axis=0).all()
    rest = 2 * dense.T @ (regressed - z + 0.3 * np.where(zero, 0, np.sign(regressed))) + v
    for column in range(2):
        at = zero[:, column]
        signs = lsq_linear(0.6 * dense[at].T, -rest[:, column], bounds=(-1, 1))
        np.testing.assert_allclose(signs.fun, 0, atol=2e-3)


def test_sleec_answers_with_the_labels_of_the_nearest_points() -> None:
    x, y = problem(150, 10, 12)
    other = problem(40, 10, 12, seed=5)[0]
    model = Sleec(dim=4, learners=2, points_a_cluster=50, neighbors=3, projections=20).fit(x, y)
    votes = np.zeros((40, 12))
    for clusters, parts in model.parts:
        assert clusters.n_clusters == 3
        centers = clusters.cluster_centers_
        for row, point in enumerate(other.toarray()):
            part = parts[np.argmin(np.sum((centers - point) ** 2, axis=1))]
            distances = np.sum((part.points - point @ part.regressors) ** 2, axis=1)
            votes[row] += part.labels.toarray()[np.argsort(distances)[:3]].sum(axis=0) / 3
    answers = model.predict(other, 4)
    for row, answer in enumerate(answers):
        known = answer[answer >= 0]
        best = np.sort(votes[row])[::-1][:4]
        np.testing.assert_allclose(votes[row, known], best[: len(known)], atol=1e-5)
        assert (best[len(known) :] == 0).all()


def test_nearest_rows_by_brute_force() -> None:
    rng = np.random.default_rng(4)
    queries, points = rng.standard_normal((30, 3)), rng.standard_normal((50, 3))
    found = nearest_rows(queries.astype(np.float32), points.astype(np.float32), 4)
    distances = np.linalg.norm(queries[:, None] - points, axis=2)
    np.testing.assert_array_equal(np.sort(found), np.sort(np.argsort(distances)[:, :4]))


# -- PD-Sparse ---------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [0.3, 1.0, 10.0])
def test_the_nearest_feasible_duals_are_those_of_a_generic_solver(C: float) -> None:
    rng = np.random.default_rng(6)
    for _ in range(5):
        wanted = rng.standard_normal(6).astype(np.float32)
        found = nearest_feasible(wanted, 2, C)
        equal = LinearConstraint([1, 1, 1, 1, 1, 1], 0, 0)
        most = LinearConstraint([1, 1, 0, 0, 0, 0], -np.inf, C)
        signs = [(0, None)] * 2 + [(None, 0)] * 4
        best = minimize(
            lambda alpha, wanted: np.sum((alpha - wanted) ** 2),
            np.zeros(6),
            args=(wanted,),
            jac=lambda alpha, wanted: 2 * (alpha - wanted),
            bounds=signs,
            constraints=[equal, most],
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 200},
        )
        np.testing.assert_allclose(found, best.x, atol=1e-4)
    assert nearest_feasible(np.array([-1, -1], np.float32), 1, C).tolist() == [0, 0]


@pytest.mark.parametrize("entering", [1, 3])
def test_pd_sparse_minimizes_its_objective(entering: int) -> None:
    x, y = problem(12, 4, 5)
    dense, right = np.hstack([x.toarray(), np.ones((12, 1))]).astype(float), y.toarray() > 0
    usable = right.any(axis=1)
    penalty = 0.05

    # w = p - q with p, q >= 0, and slacks s: a smooth problem with linear constraints.
    constraints = []
    for i in np.flatnonzero(usable):
        for n in np.flatnonzero(~right[i]):
            for p in np.flatnonzero(right[i]):
                row = np.zeros((5, 5))
                row[:, p] += dense[i]
                row[:, n] -= dense[i]
                slack = np.zeros(12)
                slack[i] = 1
                constraints.append(np.concatenate([row.ravel(), -row.ravel(), slack]))

    def value(v: np.ndarray) -> float:
        w = v[:25] - v[25:50]
        return float(0.5 * w @ w + penalty * v[:50].sum() + v[50:].sum())

    def slope(v: np.ndarray) -> np.ndarray:
        w = v[:25] - v[25:50]
        return np.concatenate([w + penalty, -w + penalty, np.ones(12)])

    best = minimize(
        value,
        np.concatenate([np.zeros(50), np.ones(12)]),
        jac=slope,
        bounds=[(0, None)] * 62,
        constraints=LinearConstraint(np.array(constraints), 1, np.inf),
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert best.success
    model = PDSparse(penalty=penalty, epochs=400, entering=entering, held_out=0).fit(x, y)
    w = model.w.toarray()
    scores = dense @ w
    margins = [
        max(0, 1 + scores[i, ~right[i]].max() - scores[i, right[i]].min())
        for i in np.flatnonzero(usable)
    ]
    primal = 0.5 * np.sum(w**2) + penalty * np.abs(w).sum() + sum(margins)
    assert primal == pytest.approx(best.fun, rel=2e-3)
    assert -model.dual() == pytest.approx(best.fun, rel=2e-3)
    np.testing.assert_allclose(w.ravel(), best.x[:25] - best.x[25:50], atol=0.02)
    assert (w == 0).any()


def test_pd_sparse_keeps_the_epoch_that_is_best_on_held_out_points() -> None:
    x, y = problem(150, 8, 12)
    place = np.random.default_rng(0).permutation(150)
    dense = np.hstack([x.toarray(), np.ones((150, 1))])[place < 30]
    truth = y.toarray()[place < 30] > 0

    def share(model: PDSparse) -> float:
        shares = []
        for scores, right in zip(dense @ model.w.toarray(), truth, strict=True):
            best = np.argsort(-scores, kind="stable")[: right.sum()]
            shares += [right[best].mean()] if right.any() else []
        return float(np.mean(shares))

    found = share(PDSparse(held_out=0.2, epochs=7, patience=7).fit(x, y))
    shares = [share(PDSparse(held_out=0.2, epochs=n, patience=n).fit(x, y)) for n in range(1, 8)]
    assert found == pytest.approx(max(shares)) and shares[0] < found
    (first,) = np.nonzero(np.diff(np.maximum.accumulate(shares)) == 0)  # an epoch without a rise
    ended = PDSparse(held_out=0.2, epochs=7, patience=1).fit(x, y)
    assert share(ended) == pytest.approx(max(shares[: first[0] + 1]))


# -- the measurement ---------------------------------------------------------------------------


@pytest.mark.slow
def test_runs_are_recorded_and_ended_at_the_limit(tmp_path: Path) -> None:
    # PD-Sparse needs 7 seconds for the second; the limit of a process is whole seconds.
    for name, points in (("made", 300), ("long", 40000)):
        made = generate(points=points, test_points=50, features=60, labels=20, seed=1)
        assert made.test is not None
        (tmp_path / name).mkdir()
        write_text(tmp_path / name / "train.txt", made.train.features, made.train.labels)
        write_text(tmp_path / name / "test.txt", made.test.features, made.test.labels)
    folder, out = tmp_path / "made", tmp_path / "out.json"
    main([str(folder)], out, names=("leml",))
    main([str(folder)], out, names=("leml/0", "leml"), held_out=True)
    main([str(tmp_path / "long")], out, names=("pd-sparse",), minutes=1 / 60)
    runs = read_json(out)["runs"]
    assert [(run["name"], run["split"]) for run in runs] == [
        ("leml", "test"), ("leml/0", "held-out"), ("leml", "held-out"), ("pd-sparse", "test")
    ]  # fmt: skip
    assert [run["metrics"]["points"] for run in runs[:3]] == [50, 60, 60]
    assert all(run["processor_seconds"] > 0 for run in runs[:3])
    assert "rank 200, penalty 1" in runs[1]["settings"]
    assert runs[3]["ended"] == "not done in 0.0166667 minutes of processor time"
    assert "metrics" not in runs[3]
    main([str(folder)], out, names=("leml",))  # is there already
    assert read_json(out)["runs"] == runs
    main([str(folder)], out, names=("leml",), seen="drop")  # another run
    assert [run["seen"] for run in read_json(out)["runs"]] == ["keep"] * 4 + ["drop"]


def test_the_page_has_the_measured_figures() -> None:
    page = (ROOT / "experiments/references/README.md").read_text(encoding="utf-8")
    keys = [f"{metric}@{k}" for metric in ("P", "R", "PSP") for k in (1, 3, 5)]
    for run in read_json(ROOT / "experiments/results/references.json")["runs"]:
        if run["split"] == "test" and "metrics" in run:
            figures = [f"{run['metrics'][key]:.2f}" for key in keys]
            figures.append(f"{run['processor_seconds']:,.0f}")
            figures.append(f"{run['peak_memory_bytes'] / 2**20:,.0f}")
            rows = [line for line in page.splitlines() if f" | {' | '.join(figures)} |" in line]
            assert len(rows) == 1 and rows[0].startswith(f"| `{run['data']}` |"), run["name"]


def test_settings_are_the_best_on_held_out_points() -> None:
    runs = read_json(ROOT / "experiments/results/references.json")["runs"]
    found = {(run["data"], run["name"]): run["metrics"]["P@1"]
             for run in runs if run["split"] == "held-out"}  # fmt: skip
    for name, entry in REFERENCES.items():
        names = [f"{name}/{number}" for number in range(len(entry.tried))]
        data = {on for on, _ in found if all((on, each) in found for each in names)}
        assert data or len(names) == 1
        means = [np.mean([found[on, each] for on in data]) for each in names] if data else [0]
        assert np.argmax(means) == entry.chosen
