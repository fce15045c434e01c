"""Compares margins with all scores, risks with the evaluation, and terms with hand arithmetic."""

import dataclasses
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from command_line import call, refused
from scipy import sparse

import snm
from snm.bounds.cli import verdicts
from snm.bounds.measure import _theorem_5, bounds_of_run, measure_margins, sampled_vartheta
from snm.head.spec import HeadSpec
from snm.losses.rank_weights import epsilon_tail, top
from snm.losses.sampled import LossOptions
from snm.losses.surrogates import SURROGATES, Phi, PhiConstants
from snm.losses.theta import lemma2_bound
from snm.prediction.predictor import Predictor
from snm.runs.stored_run import load
from snm.sampling.samplers import SAMPLERS
from snm.sampling.uniform import UniformSampler
from snm.theory.complexity import linear_complexity
from snm.theory.generalization import Complexity
from snm.theory.retrieval import margins


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.write(tmp_path_factory.mktemp("data") / "tiny")


@pytest.fixture(scope="module", params=["bowl", pytest.param("softmax", marks=pytest.mark.slow)])
def run(data, tmp_path_factory, request):
    """A finished run with a bias; with the softmax, two members."""
    folder = tmp_path_factory.mktemp("runs") / request.param
    members = 2 if request.param == "softmax" else 1
    config = dataclasses.replace(tiny.CONFIG, loss=request.param, members=members, epochs=2)
    snm.train(data, config, folder)
    return folder


@pytest.mark.parametrize("k", [1, 3, tiny.LABELS - 1])
def test_margins_against_all_scores(run, data, k):
    predictor, points = load(run), snm.load_data(data).train
    found = measure_margins(predictor, points, k)
    ids, ordered = predictor.predict(points.features, tiny.LABELS)
    scores = np.empty(ordered.shape)
    np.put_along_axis(scores, ids, ordered.astype(np.float64), axis=1)
    rows, labels = points.labels.nonzero()
    np.testing.assert_allclose(found.margins, margins(scores[rows], labels, k), atol=2e-6)
    assert found.weights.sum() == pytest.approx(points.num_points)
    # The sign is what the risk is made of: never decided by rounding.
    assert ((found.margins > 0) == (margins(scores[rows], labels, k) > 0)).all()


def test_the_risk_is_one_less_recall(run, data):
    predictor, dataset = load(run), snm.load_data(data)
    recall = json.loads((run / "result.json").read_text())["metrics"]
    for k in (1, 5):
        train, test = (
            measure_margins(predictor, part, k) for part in (dataset.train, dataset.test)
        )
        found = bounds_of_run(predictor, train, test, k=k, delta=0.05)
        assert found["test_risk"] == pytest.approx(1 - recall[f"R@{k}"] / 100, abs=1e-9)


def test_terms_by_hand(run, data):
    predictor, dataset = load(run), snm.load_data(data)
    train = measure_margins(predictor, dataset.train, 1)
    found = bounds_of_run(predictor, train, None, k=1, delta=0.1, rhos=(0.25, 0.5))
    # The class is that of rows with their bias, on embeddings with one more entry.
    state = predictor.state
    rows, bias = np.asarray(state.head.table.rows), np.asarray(state.head.bias)
    radius, longest = found["class"]["radius"], found["class"]["longest_embedding"]
    assert radius * longest >= np.abs(predictor.predict(dataset.train.features, 20)[1]).max() - 1e-6
    own = math.sqrt((rows**2).sum(axis=1).max())
    t = math.sqrt(longest**2 - train.squares.max())
    assert radius == pytest.approx(math.hypot(own, np.abs(bias).max() / t), rel=1e-5)
    n = dataset.train.num_points
    g = np.random.default_rng(0).standard_normal((20_000, n))
    z = embeddings(predictor, dataset)
    inner = z @ z.T + t * t
    whole = np.sqrt(np.einsum("ri,ij,rj->r", g, inner, g, optimize=True)).mean()
    assert found["complexity"]["gaussian_completion"] == pytest.approx(radius / n * whole, rel=0.02)
    assert found["complexity"]["rademacher_completion"] == pytest.approx(
        radius * longest / math.sqrt(n)
    )
    for row in found["theorem_6"]:
        c, rho = found["complexity"], row["rho"]
        gaussian = (tiny.LABELS * c["gaussian_completion"] + c["gaussian"]) / rho
        assert row["gaussian"] == pytest.approx(gaussian)
        share = train.weights[train.margins <= rho].sum() / train.weights.sum()
        assert row["empirical"] == pytest.approx(share)
        # delta = 0.1 for two margins at once.
        tail = 3 * math.sqrt(math.log(2 / 0.05) / (2 * n))
        assert row["confidence"] == pytest.approx(tail)
        assert row["proved"] == pytest.approx(share + 2 * math.sqrt(math.pi) * gaussian + tail)
        rademacher = 2 * math.sqrt(tiny.LABELS) * c["rademacher_completion"] / rho
        assert row["rademacher"] == pytest.approx(rademacher)
        assert row["unit_factors"] == pytest.approx(share + min(gaussian, rademacher) + tail)


def test_a_collapsed_model_has_vacuous_bounds(run, data):
    predictor, dataset = load(run), snm.load_data(data)
    zeros = jax.tree.map(jnp.zeros_like, predictor.state)
    collapsed = Predictor(predictor.model, zeros, predictor.weighting)
    train = measure_margins(collapsed, dataset.train, 1)
    found = bounds_of_run(collapsed, train, None, k=1, delta=0.05)
    assert found["class"]["largest_score"] == 0
    assert found["train_risk"] == 1
    assert {row["empirical"] for row in found["theorem_6"]} == {1.0}


def embeddings(predictor, dataset):
    """The scaled embedding of each training point, measured one by one."""
    train = dataset.train
    each = (train.take(np.array([row])) for row in range(train.num_points))
    return np.array([measure_margins(predictor, point, 1).sums for point in each])


def test_complexities_agree_with_those_of_the_embeddings(run, data):
    predictor, dataset = load(run), snm.load_data(data)
    flat = dataclasses.replace(
        predictor,
        state=dataclasses.replace(
            predictor.state, head=dataclasses.replace(predictor.state.head, bias=None)
        ),
    )
    train = measure_margins(flat, dataset.train, 1)
    found = bounds_of_run(flat, train, None, k=1, delta=0.05)
    z = embeddings(flat, dataset)
    radius = found["class"]["radius"]
    expected = linear_complexity(z, sparse.csr_array(dataset.train.labels), radius=radius)
    assert found["complexity"]["gaussian_completion"] == pytest.approx(
        expected.estimate.gaussian_completion, rel=1e-6
    )
    assert found["complexity"]["gaussian"] == pytest.approx(expected.above.gaussian, rel=1e-6)
    assert expected.estimate.gaussian <= found["complexity"]["gaussian"] * 1.05


def test_vartheta_of_a_head():
    tail = LossOptions(vartheta="epsilon-tail", tail_epsilon=0.5)
    spec = HeadSpec(num_labels=50, sampled=10, mined=3, options=tail)
    found = sampled_vartheta(spec.head_loss.ranks)
    assert found == pytest.approx(epsilon_tail(10, 3, 0.5), rel=1e-6)
    spec = dataclasses.replace(spec, options=LossOptions())
    found = sampled_vartheta(spec.head_loss.ranks)
    assert found[:3] == pytest.approx(top(3), rel=1e-6) and found[3:].tolist() == [0.0] * 7
    all_mined = dataclasses.replace(spec, mined=10).head_loss.ranks
    assert sampled_vartheta(all_mined) == pytest.approx(top(10))


def theorem_5_of(spec, *, max_score=1.0, sampler="uniform", positive_weights="mean"):
    """For 100 points and complexities of 1."""
    of_class = Complexity(1.0, 1.0, 1.0)
    return _theorem_5(spec, of_class, 100, 0.05, max_score, sampler, positive_weights)


@pytest.mark.parametrize(
    ("positives", "sampler", "weights", "said"),
    [
        ("one", "frequency", "mean", "drawn by the frequency sampler, and theta is for uniform"),
        ("all", "uniform", "sum", "a sum over its labels, and the theorem is on one label"),
        ("all", "uniform", "mean", None),
        ("one", "uniform", "sum", None),
    ],
)
def test_losses_that_the_theorem_is_not_on(positives, sampler, weights, said):
    spec = HeadSpec(num_labels=50, sampled=10, mined=3, loss="bowl", positives=positives)
    found = theorem_5_of(spec, sampler=sampler, positive_weights=weights)
    assert said in found["why_not"] if said else "proved" in found


def test_the_theorem_is_on_any_uniform_sampler(monkeypatch):
    monkeypatch.setitem(SAMPLERS, "even", type("Even", (UniformSampler,), {}))
    monkeypatch.setitem(SAMPLERS, "skewed", type("Skewed", (UniformSampler,), {"uniform": False}))
    spec = HeadSpec(num_labels=50, sampled=10, mined=3, loss="bowl")
    assert "proved" in theorem_5_of(spec, sampler="even")
    assert "drawn by the skewed sampler" in theorem_5_of(spec, sampler="skewed")["why_not"]


def test_a_surrogate_of_which_no_constant_is_known_has_no_bound(monkeypatch):
    def cubic(margin):
        return jnp.maximum(1 - margin, 0) ** 3

    monkeypatch.setitem(SURROGATES, "cubic", Phi(cubic))
    spec = HeadSpec(
        num_labels=50, sampled=10, mined=3, loss="bowl", options=LossOptions(phi="cubic")
    )
    assert "the Lipschitz constant of phi cubic is not known" in theorem_5_of(spec)["why_not"]
    constants = PhiConstants(
        slope=lambda lowest: 3 * max(1 - lowest, 0.0) ** 2,
        largest=lambda lowest: max(1 - lowest, 0.0) ** 3,
    )
    monkeypatch.setitem(SURROGATES, "cubic", Phi(cubic, constants=constants))
    found = theorem_5_of(spec)
    assert found["lipschitz"] == 12.0 and found["range"] == pytest.approx(8 * 2)


def test_scores_whose_exponential_is_no_number_are_told():
    options = LossOptions(phi="exponential")
    spec = HeadSpec(num_labels=50, sampled=10, mined=3, loss="powl", options=options)
    of = {reach: theorem_5_of(spec, max_score=reach) for reach in (10.0, 350.0, 400.0)}
    assert of[10.0]["lipschitz"] == pytest.approx(math.exp(20))
    assert math.isfinite(of[350.0]["proved"])
    assert of[400.0] == {"why_not": "with scores up to 400, phi exponential is beyond float64"}


def test_the_command(run, data, capsys):
    call("bounds", run, "--json", "--delta", 0.001)
    found = json.loads(capsys.readouterr().out)
    assert len(found["theorem_6"]) == 8 and found["points"] == tiny.POINTS
    assert found["delta"] == 0.001
    tail = 3 * math.sqrt(math.log(2 * 8 / 0.001) / (2 * tiny.POINTS))
    assert found["theorem_6"][0]["confidence"] == pytest.approx(tail)
    margins_of_run = measure_margins(load(run), snm.load_data(data).train, found["k"]).margins
    # Two labels a point, so that all pairs weigh the same.
    quantiles = {f"{q:g}": np.quantile(margins_of_run, q, method="inverted_cdf")
                 for q in (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)}  # fmt: skip
    assert found["margin_quantiles"] == pytest.approx(quantiles)
    five = found["theorem_5"]
    if "softmax" in str(run):
        assert "softmax" in five["why_not"]
    else:
        spec = load(run).model.spec
        weights = sampled_vartheta(spec.head_loss.ranks)
        assert five["theta_l1"] == pytest.approx(1.0, rel=1e-6)
        assert five["theta_l2"] <= lemma2_bound(weights, spec.sampled, spec.num_labels)
        reach = found["class"]["largest_score"]
        assert five["range"] == pytest.approx(2 * (1 + reach), rel=1e-6)
        least = min(five["gaussian"], five["rademacher"])
        assert five["unit_factors"] == pytest.approx(least + five["confidence"])
        assert five["proved"] == pytest.approx(five["gaussian_proved"] + five["confidence"])
        assert "leaves known labels out" in five["note"] and five["note"] in found["verdicts"][-1]
    call("bounds", run, "--points", "30")
    text = " ".join(capsys.readouterr().out.split())
    assert ", 30 training points, " in text and "vacuous" in text


def test_verdicts_in_plain_words():
    row = {"rho": 0.5, "empirical": 0.1, "unit_factors": 0.4, "proved": 0.9, "points_needed": 50.0}
    five = {"proved": 0.2, "range": 2.0, "points_needed": 3.0}
    said = verdicts({"points": 100, "theorem_6": [row], "theorem_5": five})
    assert "at most 0.900 at rho 0.5" in said[0] and "at most 0.2 above" in said[2]
    assert said[1] == (
        "Theorem 6 with hidden factors 1: nothing proved, but the sum is 0.400 at rho 0.5."
    )
    bad = {**row, "unit_factors": 3.0, "proved": 9.0, "points_needed": None}
    said = verdicts({"points": 100, "theorem_6": [bad], "theorem_5": {"why_not": "no"}})
    assert "vacuous" in said[0] and "no number of points" in said[0] and "vacuous" in said[1]
    large = {**bad, "points_needed": 12_345_678.9}
    five = {"proved": 9.0, "range": 2.0, "points_needed": 607.3}
    said = verdicts({"points": 500, "theorem_6": [large], "theorem_5": five})
    assert "more than 12,345,678 points would be needed to come below 1 (500 now)" in said[0]
    assert "more than 607 points would be needed to come below (500 now)" in said[2]


def test_bad_input_is_one_line(run, capsys, tmp_path):
    for words, what in (
        ((tmp_path / "none",), "no such folder"),
        ((run, "--delta", "1"), "--delta"),
        ((run, "--k", tiny.LABELS), "--k"),
        ((run, "--rho", "0"), "--rho"),
        ((run, "--points", "0"), "--points"),
    ):
        assert what in refused(capsys, "bounds", *words)


def test_other_data_give_the_test_points_alone(tmp_path, capsys):
    own, run = tiny.write(tmp_path / "own", names=True), tmp_path / "run"
    snm.train(own, dataclasses.replace(tiny.CONFIG, epochs=1), run)
    other = tiny.write(tmp_path / "other", names=True)
    for part in ("train", "test"):
        rows = (other / f"{part}.txt").read_text().splitlines()[1:6]
        text = "\n".join([f"{len(rows)} {tiny.FEATURES} {tiny.LABELS}", *rows])
        (other / f"{part}.txt").write_text(text + "\n")

    def told(*words):
        call("bounds", run, "--json", *words)
        return json.loads(capsys.readouterr().out)

    usual, found = told(), told("--data", other)
    assert found["points"] == usual["points"] == tiny.POINTS
    assert found["train_risk"] == usual["train_risk"]
    assert found["margin_quantiles"] == usual["margin_quantiles"]
    assert found["test_risk"] != usual["test_risk"]
    moved = own.rename(tmp_path / "moved")
    assert told("--data", moved) == usual
    assert refused(capsys, "bounds", run, "--data", other).startswith(f"{own}: found no such")


def test_other_data_without_names_need_same_ids(run, tmp_path, capsys):
    other = tiny.write(tmp_path / "other", test=False)
    assert "--same-ids if ids mean the same" in refused(capsys, "bounds", run, "--data", other)
    call("bounds", run, "--data", other, "--same-ids")
    assert "found no --data" in refused(capsys, "bounds", run, "--same-ids")


def test_data_that_were_in_memory(tmp_path, capsys):
    data, made = tiny.write(tmp_path / "data"), tmp_path / "made"
    in_memory = dataclasses.replace(snm.load_data(data), name="synthetic")
    snm.train(in_memory, dataclasses.replace(tiny.CONFIG, epochs=1), made)
    assert refused(capsys, "bounds", made) == (
        "the data of the run: found data that a program had in memory (synthetic), "
        "expected --data with a folder of them"
    )
    call("bounds", made, "--data", data)
    other = tiny.write(tmp_path / "other", test=False)
    assert refused(capsys, "bounds", made, "--data", other, "--same-ids") == (
        f"{other.name}: found other content than the data of the run, which a program had in "
        "memory, expected that content, for its training points"
    )
