"""Recomputes scores from exported arrays with NumPy, and compares indexes with exact search."""

import dataclasses
import importlib
import json
import resource
import shutil
import sys
import zlib
from unittest import mock

import jax
import numpy as np
import pytest
import tiny
from command_line import call, refused
from data import documents
from scipy.sparse import random_array

import snm
from snm.cli.main import main
from snm.config.resolve import resolve
from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.evaluation.popularity import Popularity
from snm.export.arrays import make_manifest, model_arrays
from snm.export.index import GraphIndex, bias_scale, build_index, with_index
from snm.export.index_libraries import LIBRARIES, GraphSettings
from snm.export.manifest import read_manifest, write_manifest
from snm.export.measure import measure_recall, recall
from snm.losses.reductions import MASKED
from snm.model.from_config import make_model
from snm.model.placement import init_state_on
from snm.prediction.predictor import Predictor
from snm.runs.stored_run import StoredRun
from snm.trainer import run_data


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with two members, names, a bias and a tower: every term that a score can have."""
    place = tmp_path_factory.mktemp("export")
    tiny.write(place / "data", names=True)
    config = dataclasses.replace(tiny.CONFIG, members=2)
    snm.train(place / "data", config, place / "run")
    return place / "run"


def scores_by_numpy(arrays, manifest, features):
    """Computes scores by the formula of the manifest, in float64."""
    x = features.toarray().astype(np.float64)
    if manifest["weighting"] == "tfidf":
        x = np.where(x < 1, x, 1 + np.log(np.maximum(x, 1))) * arrays["idf"]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    total = np.tile(arrays["bias"].astype(np.float64), (len(x), 1))
    dim = manifest["dim"]
    for member in range(manifest["members"]):
        columns = slice(member * dim, (member + 1) * dim)
        h = x @ arrays["feature_rows"][:, columns]
        q = h + np.maximum(h, 0) @ arrays["tower"][member]
        q /= np.linalg.norm(q, axis=1, keepdims=True)
        total += arrays["multipliers"][member] * (q @ arrays["class_rows"][:, columns].T)
    return total


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "--vectorizer tfidf --token-pattern [a-z]{3,} --stop-words english --strip-accents",
        "--vectorizer hashing --features 64 --ngrams 1 2",
    ],
)
def test_features_of_texts_follow_from_the_manifest(tmp_path, kind):
    """By scikit-learn's class and the options that it names, without this package."""
    (source,) = documents.write(tmp_path / "docs", "jsonl")
    call("data", "import", source, "--out", tmp_path / "data", *kind.split())
    data = snm.load_data(tmp_path / "data")
    train, weighting = data.train, "l2" if "tfidf" in kind else "tfidf"
    config = dataclasses.replace(tiny.CONFIG, sampled=2, mined=1, weighting=weighting)
    model = make_model(resolve(config, data), train.num_features, train.num_labels)
    fitted_weighting = Weighting.fit(weighting, train.features)
    vectorizer = Vectorizer.read(data.vectorizer)
    predictor = Predictor(model, init_state_on(model), fitted_weighting, vectorizer=vectorizer)
    manifest = make_manifest(predictor, {})
    module, name = manifest["text"]["class"].rsplit(".", 1)
    options = manifest["text"]["options"]
    options["ngram_range"] = tuple(options["ngram_range"])
    assert ("idf" in manifest["text"]["v"]) == (vectorizer.idf is not None)
    if vectorizer.vocabulary is not None:
        options["vocabulary"] = vectorizer.vocabulary
    theirs = getattr(importlib.import_module(module), name)(**options)
    if vectorizer.idf is not None:
        theirs.idf_ = np.array(vectorizer.idf)
    texts = ["Une POMME, a saw; été and the apple"]
    features = theirs.transform(texts)
    expected = scores_by_numpy(model_arrays(predictor), manifest, features)
    labels, scores = predictor.predict(texts, k=3)
    np.testing.assert_allclose(expected[0][labels[0]], scores[0], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_index_of_few_labels_is_exact(run, tmp_path, capsys, library):
    out = tmp_path / "index"
    call("export", run, "--to", library, "--out", out)
    shown = capsys.readouterr().out
    assert "recall@10" in shown and "queries/s" in shown and "1.0000" in shown
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["index"]["measured"]["recall"] == {"1": 1, "5": 1, "10": 1}
    assert manifest["index"]["measured"]["queries_per_second"] > 0
    predictor = snm.load(run)
    searched = with_index(predictor, out)
    test = snm.load_data(run.parent / "data").test
    for mine, theirs in zip(searched.predict(test.features, 7), predictor.predict(test.features, 7),
                            strict=True):  # fmt: skip
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
    among = [searched.predict(test.features, 2, labels) for labels in ([3, 5, 8], iter([3, 5, 8]))]
    np.testing.assert_array_equal(*(labels for labels, _ in among))
    with (
        mock.patch.object(StoredRun, "load", autospec=True, side_effect=StoredRun.load) as load,
        mock.patch.object(run_data, "load_dataset", side_effect=snm.load_data) as load_data,
        mock.patch.object(Popularity, "of", side_effect=Popularity.of) as popularity,
    ):
        call("evaluate", run, "--index", out, "--json")
    # And not once more for the index.
    assert load.call_count == load_data.call_count == popularity.call_count == 1
    found = json.loads(capsys.readouterr().out)
    assert found["by_index"] == found["metrics"]
    call("evaluate", run, "--index", out)
    assert "lost by approximate search" in capsys.readouterr().out


@pytest.fixture(scope="module")
def wide():
    """An untrained model of 3000 labels, with biases."""
    config = tiny.resolved(dataclasses.replace(tiny.CONFIG, dim=16, score_scale=4.0))
    model = make_model(config, 40, 3000)
    state = init_state_on(model)
    bias = np.random.default_rng(0).normal(size=3000).astype(np.float32)
    head = dataclasses.replace(state.head, bias=jax.numpy.asarray(bias))
    features = random_array((200, 40), density=0.2, rng=1, format="csr", dtype=np.float32)
    state = dataclasses.replace(state, head=head)
    return Predictor(model, state, Weighting("l2")), features


@pytest.mark.parametrize("library", LIBRARIES)
def test_large_biases_of_few_labels_hide_no_others(wide, tmp_path, library):
    """As on short texts: a few frequent labels have a high bias, and queries are long."""
    predictor, features = wide
    state = predictor.state
    bias = np.random.default_rng(1).pareto(2, 3000).clip(max=5).astype(np.float32)
    head = dataclasses.replace(
        state.head, bias=jax.numpy.asarray(bias), log_scale=jax.numpy.log(10.0)
    )
    predictor = dataclasses.replace(predictor, state=dataclasses.replace(state, head=head))
    queries = np.concatenate(list(predictor.queries(features))).astype(np.float64)
    np.testing.assert_allclose(np.linalg.norm(queries, axis=1), 10, rtol=1e-5)
    scores = queries @ np.asarray(head.table.rows, np.float64).T + bias
    best = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    searched = built(predictor, library, GraphSettings(16, 100, 64), tmp_path)
    labels, found = searched.predict(features, 5)
    hit = labels[:, :1] == best[:, :1]
    # By (r, b, a column that makes rows equally long), a tenth of the best was not found.
    assert hit.mean() > 0.99 and recall(labels, best) > 0.98
    exact = np.take_along_axis(scores, labels.astype(int), axis=1)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)


def test_an_index_that_finds_too_little_is_refused_or_said(run, tmp_path, capsys, monkeypatch):
    """Index search loses the last label of each answer, so that recall@5 is 4/5."""
    search = GraphIndex.search

    def worse(self, queries, k):
        return np.where(np.arange(k) < max(k - 1, 1), search(self, queries, k), -1)

    monkeypatch.setattr(GraphIndex, "search", worse)
    asked = ("export", run, "--to", "hnswlib", "--out", tmp_path / "index")
    said = refused(capsys, *asked, "--min-recall", "0.85")
    found = "--min-recall 0.85: found recall@5 0.8000, expected at least that; "
    assert said == found + "a higher --search-effort, such as 512, finds more"
    assert list(tmp_path.iterdir()) == []
    assert "expected 0 to 1" in refused(capsys, *asked, "--min-recall", "95")
    arrays = ("export", run, "--to", "npz", "--out", tmp_path / "arrays")
    assert "--min-recall: found --to npz" in refused(capsys, *arrays, "--min-recall", "0.9")
    call(*asked, "--min-recall", "0.8")
    assert "recall@" not in capsys.readouterr().out.partition("warning")[2]
    call(*asked[:-1], tmp_path / "other")
    told = " ".join(capsys.readouterr().out.split())
    assert "warning: recall@5 is 0.8000, so answers get worse; a higher --search-effort" in told


@pytest.mark.parametrize("library", LIBRARIES)
def test_recall_is_what_brute_force_counts(wide, tmp_path, library):
    predictor, features = wide
    rows = np.asarray(predictor.state.head.table.rows, np.float64)
    queries = np.concatenate(list(predictor.queries(features))).astype(np.float64)
    scores = queries @ rows.T + np.asarray(predictor.state.head.bias)
    exact = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    shares = []
    for effort in (1, 300):
        folder = tmp_path / str(effort)
        folder.mkdir()
        searched = built(predictor, library, GraphSettings(16, 200, effort), folder)
        # At the search effort as set: a larger k would raise it.
        shares.append(np.mean(searched.predict(features, 1)[0] == exact[:, :1]))
        if effort == 1:
            found = measure_recall(predictor, searched, features)
            labels, _ = searched.predict(features, 10)
            share = np.mean([len(set(a) & set(b)) / 10 for a, b in
                             zip(labels, exact, strict=True)])  # fmt: skip
            assert found["recall"][10] == pytest.approx(share)
            assert found["points"] == 200
    assert shares[1] > 0.97 and shares[0] < shares[1]


def built(predictor, library, settings, folder):
    """An index of a model that is no run, and so has no manifest to open it by."""
    of = LIBRARIES[library]
    file = folder / build_index(predictor, of, settings, folder)
    width = predictor.state.head.table.rows.shape[1] + 1
    graph = of.open(file, width)
    index = GraphIndex(of, graph, settings.search_effort, bias_scale(predictor))
    return dataclasses.replace(predictor, index=index)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_search_that_finds_too_few_labels_is_padded(wide, tmp_path, library):
    """Links lead to few labels, but the scores of those are right, and the rest is -1."""
    predictor, features = wide
    queries = np.concatenate(list(predictor.queries(features)))
    head = predictor.state.head
    scores = queries @ np.asarray(head.table.rows).T + np.asarray(head.bias)
    searched = built(predictor, library, GraphSettings(2, 1, 1), tmp_path)
    labels, found = searched.predict(features, 400)
    assert labels.shape == found.shape == (200, 400)
    counts = (labels >= 0).sum(axis=1)
    assert counts.min() >= 1 and len(set(counts)) > 1
    for row, count in enumerate(counts):
        here = labels[row, :count]
        assert (labels[row, count:] == -1).all() and (found[row, count:] == MASKED).all()
        assert len(set(here)) == count and (np.diff(found[row, :count]) <= 0).all()
        np.testing.assert_allclose(found[row, :count], scores[row, here], rtol=1e-4, atol=1e-4)
        if library == "hnswlib" and count < 400:  # it finds no more
            column = np.float32([bias_scale(predictor)])
            with pytest.raises(RuntimeError):
                searched.index.graph.knn_query(np.concatenate([queries[row], column]), count + 1)


def test_invalid_options(run, tmp_path, capsys, monkeypatch):
    out = tmp_path / "index"
    assert "no config.toml" in refused(capsys, "export", tmp_path, "--to", "faiss", "--out", out)
    for flag in ("--links=1", "--build-effort=0", "--search-effort=0"):
        name = flag.partition("=")[0]
        said = refused(capsys, "export", run, "--to", "faiss", "--out", out, flag)
        assert said.startswith(f"{name}: found")
    for library, name in (("faiss", "faiss"), ("hnswlib", "hnswlib"),
                          ("safetensors", "safetensors.numpy")):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, name, None)
            said = refused(capsys, "export", run, "--to", library, "--out", out)
        how = "pip install -e '.[export]' -c constraints.txt"
        assert said == f"--to {library}: found no {library}, expected {how}"
    words = ("export", run, "--out", out, "--to")
    for option in ("--links=64", "--build-effort=64", "--search-effort=512", "--data=synthetic"):
        flag, more = option.split("=")[0], ", or --rows int8" * option.startswith("--data")
        for form in ("npz", "npy", "hub"):
            expected = f"{flag}: found --to {form}, expected --to faiss or hnswlib{more}"
            assert refused(capsys, *words, form, option) == expected
    said = refused(capsys, *words, "npy", "--rows=int8", "--search-effort=512")
    assert said == "--search-effort: found --to npy, expected --to faiss or hnswlib"
    assert list(tmp_path.iterdir()) == []
    call("export", run, "--to", "hnswlib", "--out", out)
    said = refused(capsys, "export", run, "--to", "npz", "--out", out)
    assert "a file or folder of that name" in said

    other = snm.load(run)
    rows = other.state.head.table.rows
    moved = dataclasses.replace(other.state.head.table, rows=rows + 1)
    head = dataclasses.replace(other.state.head, table=moved)
    other = dataclasses.replace(other, state=dataclasses.replace(other.state, head=head))
    with pytest.raises(InputError, match="the index of another model"):
        with_index(other, out)

    broken = shutil.copytree(out, tmp_path / "broken")
    manifest = json.loads((broken / "manifest.json").read_text())
    (broken / "manifest.json").write_text("{}")
    said = refused(capsys, "evaluate", run, "--index", broken)
    assert "no manifest, or a damaged one" in said
    (broken / "index.hnswlib").write_bytes(b"x" * 10)
    write_manifest(broken, manifest)  # which vouches for it
    assert "a damaged index" in refused(capsys, "evaluate", run, "--index", broken)
    del manifest["index"]["query"]
    write_manifest(broken, manifest)
    assert "other columns" in refused(capsys, "evaluate", run, "--index", broken)
    write_manifest(broken, {})
    assert "no index" in refused(capsys, "evaluate", run, "--index", broken)
    assert "no such file" in refused(capsys, "evaluate", run, "--index", tmp_path / "none")
    searched = with_index(snm.load(run), out)
    with pytest.raises(InputError, match="1 to 20, the number of labels"):
        searched.predict(snm.load_data(run.parent / "data").test.features, 21)


@pytest.mark.parametrize("library", ["faiss", "npz"])
def test_every_changed_byte_of_an_export_is_named(run, tmp_path, library):
    """A changed link or row of an index would give other answers without a word."""
    out = tmp_path / "out"
    call("export", run, "--to", library, "--out", out)
    predictor, rng = snm.load(run), np.random.default_rng(0)
    manifest = json.loads((out / "manifest.json").read_text())
    files = sorted(path.name for path in out.iterdir())
    assert files == sorted([*manifest["files"], "manifest.json"]) and len(files) == 4
    for name in files:
        raw = (out / name).read_bytes()
        size, crc = manifest["files"].get(name, [len(raw), zlib.crc32(raw)])
        assert (size, crc) == (len(raw), zlib.crc32(raw))
        for place in rng.integers(0, len(raw), 10):
            changed = bytearray(raw)
            changed[place] ^= 1 << rng.integers(8)
            (out / name).write_bytes(changed)
            try:
                found = read_manifest(out, library)
            except InputError as error:
                assert f"out/{name}: found" in str(error)
            else:  # white space of the manifest
                same = {key: value for key, value in manifest.items() if key != "crc"}
                assert name == "manifest.json" and found == same
        (out / name).write_bytes(raw)
    read_manifest(out, library)
    if library == "faiss":
        (out / "index.faiss").unlink()
        with pytest.raises(InputError, match=r"index\.faiss: found no such file"):
            with_index(predictor, out)


@pytest.mark.parametrize("form", ["npy", "npz", "safetensors", "hub", *LIBRARIES])
def test_a_full_disk(run, tmp_path, capsys, form):
    """One line that names the folder asked for, not the hidden one, and no file is left."""
    out = tmp_path / "out"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))
    try:
        with pytest.raises(SystemExit, match=r"^1$"):
            main(["export", str(run), "--to", form, "--out", str(out)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not any(tmp_path.iterdir())
    line = capsys.readouterr().err.splitlines()[-1]
    assert f"--out {out}: found" in line and line.endswith(
        "expected room for it, on the disk and under `ulimit -f`"
    )


def test_recall_is_measured_on_the_data_of_the_run(tmp_path, capsys):
    """Data that changed since may have other features by the same numbers."""
    tiny.write(tmp_path / "data")
    snm.train(tmp_path / "data", tiny.CONFIG, tmp_path / "run")
    tiny.write(tmp_path / "other")
    shutil.copy(tmp_path / "data" / "train.txt", tmp_path / "data" / "test.txt")
    words = ["export", tmp_path / "run", "--to", "faiss", "--out", tmp_path / "out"]
    assert refused(capsys, *words) == (
        f"{tmp_path / 'data'}: found other content than when the run was trained, expected the "
        "same, or --data with another place"
    )
    assert not (tmp_path / "out").exists()
    call(*words, "--data", tmp_path / "other")
    assert "recall@1" in capsys.readouterr().out
