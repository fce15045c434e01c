"""Indexes are built as asked; cards and manifests say what the run is, and how it scores."""

import json
import re

import numpy as np
import pytest
from command_line import call
from export.exported import arrays_in

import snm
from snm.data.weighting import Weighting


def test_an_index_is_built_as_asked(tiny_run, tmp_path, capsys):
    import faiss

    call("export", tiny_run / "run", "--to", "faiss", "--out", tmp_path / "out", "--links=8",
         "--build-effort=50", "--search-effort=40")  # fmt: skip
    about = json.loads((tmp_path / "out" / "manifest.json").read_text())["index"]
    assert (about["links"], about["build_effort"], about["search_effort"]) == (8, 50, 40)
    assert "feature_rows" in about["arrays"] and "--to npz" in about["arrays"]
    index = faiss.read_index(str(tmp_path / "out" / "index.faiss"))
    assert index.hnsw.efConstruction == 50 and index.hnsw.nb_neighbors(1) == 8
    assert index.hnsw.efSearch == 40
    assert about["opening"].endswith("efSearch 40")
    assert f"in other programs: {about['opening']}" in capsys.readouterr().out


def test_the_search_effort_of_hnswlib(tiny_run, tmp_path, capsys):
    """Its file has no room for it, so the export says how to set it."""
    call("export", tiny_run / "run", "--to", "hnswlib", "--out", tmp_path / "out",
         "--search-effort=40")  # fmt: skip
    about = json.loads((tmp_path / "out" / "manifest.json").read_text())["index"]
    assert "call set_ef(40)" in about["opening"]
    assert f"in other programs: {about['opening']}" in capsys.readouterr().out


def test_the_card_of_a_run(remembering, tmp_path, capsys):
    call("export", remembering, "--to", "hub", "--out", tmp_path / "out", "--license", "mit",
         "--datasets", "me/wood")  # fmt: skip
    card = (tmp_path / "out" / "README.md").read_text()
    metrics = json.loads((remembering / "result.json").read_text())["metrics"]
    assert 'license: "mit"' in card and '- "me/wood"' in card
    assert f"| P | {metrics['P@1']:.2f} | " in card
    assert "`data`: 600 training points, 60 labels, 120 features." in card
    assert "**This model holds 600 training points**" in card
    assert "has 600 training points: share it only where" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["npz", "safetensors"])
def test_the_formula_of_the_manifest_is_the_score(remembering, tmp_path, form):
    """Its text is run: |v| is a length, of each row."""
    out = tmp_path / "out"
    call("export", remembering, "--to", form, "--out", out)
    manifest = json.loads((out / "manifest.json").read_text())
    arrays, score = arrays_in(out / manifest["file"]), manifest["score"]
    np.testing.assert_array_equal(Weighting.load(out / "weighting.npz").idf, arrays["idf"])
    assert (out / "labels.txt").read_bytes() == (remembering / "labels.txt").read_bytes()
    model = snm.load(remembering, memory=False)
    rows = snm.load_data(remembering.parent / "data").test.features[:7]
    dim, total = manifest["dim"], arrays["bias"].astype(np.float64)[None]
    known = {"where": np.where, "log": lambda v: np.log(np.maximum(v, 1)), "idf": arrays["idf"],
             "relu": lambda h: np.maximum(h, 0), "v": rows.toarray().astype(np.float64),
             "length": lambda x: np.linalg.norm(x, axis=1, keepdims=True)}  # fmt: skip

    def run(text):
        exec(re.sub(r"\|(\w)\|", r"length(\1)", text), known)

    run(score["weighting"])
    for member in range(manifest["members"]):
        columns = slice(member * dim, (member + 1) * dim)
        known["feature_rows"] = arrays["feature_rows"][:, columns]
        known["tower"] = arrays["tower"][member]
        run(score["of each member"])
        multiplier, rows_of = arrays["multipliers"][member], arrays["class_rows"][:, columns]
        total = total + multiplier * (known["q"] @ rows_of.T)
    labels, scores = model.predict(rows, 60)
    np.testing.assert_allclose(np.take_along_axis(total, labels.astype(int), 1), scores, atol=1e-3)
    assert manifest["seen"] == "keep" and manifest["run"] == "run" and manifest["versions"]["jax"]
    assert manifest["data"] == {
        "source": str(remembering.parent / "data"),
        "sha256": snm.load_data(remembering.parent / "data").sha256,
    }


@pytest.mark.parametrize("form", ["npz", "hub"])
def test_probabilities_follow_from_the_manifest(remembering, tmp_path, form):
    call("export", remembering, "--to", form, "--out", tmp_path / "out")
    file = "config.json" if form == "hub" else "manifest.json"
    manifest = json.loads((tmp_path / "out" / file).read_text())
    assert set(manifest["probability"]) == {"z", "p", "of all labels", "of some labels"}
    model = snm.load(remembering)
    rows = snm.load_data(remembering.parent / "data").test.features[:40]
    _, scores = model.predict(rows, 6)
    s, rank = scores.astype(np.float64) / manifest["members"], np.arange(6)

    def p(curve):
        best = np.clip(s[:, :1], *curve["best_scores"])
        terms = np.broadcast_arrays(s, np.log(1 + rank), best, rank == 0)
        z = sum(weight * term for weight, term in zip(curve["weights"], terms, strict=True))
        return np.interp(z, curve["knots"], curve["probabilities"])

    ranked, alone = (manifest["calibration"][name] for name in ("ranked", "alone"))
    expected = np.minimum.accumulate(p(ranked), axis=1)
    np.testing.assert_allclose(model.probabilities(scores), expected, atol=1e-6)
    assert np.ptp(expected) > 0.1
    chosen = model.probabilities(scores, ranked=False)
    np.testing.assert_allclose(chosen, p(alone), atol=1e-6)
