"""An export that is mapped into memory answers as its run does, to the bit, and copies nothing."""

import dataclasses
import json
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest
import tiny
from command_line import call, refused
from export.answers import assert_answer_alike
from scipy.sparse import random_array

import snm
from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.export import measure as measures
from snm.export.arrays import FORMAT, class_rows_sha256, model_arrays
from snm.export.manifest import read_manifest, write_manifest
from snm.export.npy.folder import open_npy, write_npy
from snm.export.npy.names import MappedNames, line_starts
from snm.model.from_config import make_model
from snm.model.placement import init_state_on
from snm.prediction.predictor import Predictor
from snm.runs.folder import RunFolder


@pytest.fixture(scope="module")
def run(remembering):
    return remembering


@pytest.fixture(scope="module")
def out(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("mapped") / "out"
    call("export", run, "--to", "npy", "--out", out)
    return out


def test_answers_are_those_of_the_run(run, out):
    here, there = snm.load(run), snm.load(out)
    points = snm.load_data(run.parent / "data").test.features
    assert_answer_alike(there, here, points)
    unchecked = snm.load(out, verify=False)
    np.testing.assert_array_equal(unchecked.predict(points, 2), here.predict(points, 2))
    alone = snm.load(out, memory=False)
    assert alone.memory is None and alone.calibration is None
    with pytest.raises(InputError, match="loaded with memory=False, expected memory=True"):
        alone.fitted_calibration()


def test_nothing_is_copied(out):
    opened = snm.load(out)
    state, memory = opened.state, opened.memory
    files = set(json.loads((out / "manifest.json").read_text())["files"])
    of_jax = {"feature_rows": state.features.rows, "class_rows": state.head.table.rows}
    for name, array in of_jax.items():
        assert not array.unsafe_buffer_pointer() % 64  # else XLA copies it
        assert is_mapped(np.asarray(array), out / f"model-{name}.npy")
        files.remove(f"model-{name}.npy")
    of_memory = {"queries": memory.queries, "rows": memory.rows,
                 "labels_indices": memory.labels.indices}  # fmt: skip
    for name, matrix in (("features", memory.features), ("by_feature", memory.by_feature)):
        of_memory |= {f"{name}_data": matrix.data, f"{name}_indices": matrix.indices}
    for name, array in of_memory.items():
        assert is_mapped(array, out / f"memory-{name}.npy"), name
        files.remove(f"memory-{name}.npy")
    # What is left is small: a number for each label, feature or point, at most.
    left = [name.removesuffix(".npy") for name in sorted(files) if name.endswith(".npy")]
    assert left == ["labels-starts", "memory-by_feature_indptr", "memory-features_indptr",
                    "memory-labels_indptr", "model-bias", "model-idf", "model-multipliers",
                    "model-tower"]  # fmt: skip


def is_mapped(array, path):
    """Whether an array's memory is a mapping of the file, as the kernel tells it."""
    address = array.__array_interface__["data"][0]
    for line in Path("/proc/self/maps").read_text().splitlines():
        ends, access, *_ = line.split()
        first, last = (int(end, 16) for end in ends.split("-"))
        if first <= address < last:
            return line.endswith(str(path)) and access.startswith("r--")
    return False


def test_one_member_without_a_tower_names_or_a_bias(tmp_path):
    """Its rows are stored as bfloat16, and exported as float32."""
    config = dataclasses.replace(
        tiny.CONFIG, encoder="linear", bias=False, table_dtype="bfloat16", score_scale=4.0
    )
    config = tiny.resolved(dataclasses.replace(config, weighting="l2"))
    model = make_model(config, tiny.FEATURES, tiny.LABELS)
    made = Predictor(model, init_state_on(model), Weighting("l2"))
    sizes = {"num_features": tiny.FEATURES, "num_labels": tiny.LABELS, "members": 1}
    about = write_npy(made, config, None, tmp_path)
    made.weighting.save(tmp_path / "weighting.npz")
    write_manifest(tmp_path, {"format": FORMAT, **sizes, **about})
    opened = open_npy(tmp_path)
    assert opened.state.head.bias is None and opened.label_names is None
    assert made.state.head.table.rows.dtype == np.uint16  # an index of the run is one of the export
    assert class_rows_sha256(opened) == class_rows_sha256(made)
    points = random_array((9, tiny.FEATURES), density=0.3, rng=1, format="csr", dtype=np.float32)
    np.testing.assert_array_equal(opened.predict(points), made.predict(points))


def dequantized(array):
    return array["codes"].astype(np.float64) * array["scale"].astype(np.float64)[:, None]


def test_rows_of_int8(run, tmp_path, capsys):
    """A quarter of the size; the answers are those of the rows that are written, in float64."""
    out = tmp_path / "out"
    call("export", run, "--to", "npy", "--rows", "int8", "--out", out)
    told = capsys.readouterr().out
    assert "rows of int8: the best 10 of each of 150 points" in told and "recall@10" in told
    manifest = json.loads((out / "manifest.json").read_text())
    features, classes = (
        np.load(out / f"model-{name}.npy") for name in ("feature_rows", "class_rows")
    )
    assert manifest["score"]["rows"].endswith("is its scale * its codes")
    assert manifest["rows"] == "int8" and features.nbytes == 120 * (16 + 4)
    opened, exact = snm.load(out, memory=False), snm.load(run, memory=False)
    assert is_mapped(np.asarray(opened.state.head.table.rows), out / "model-class_rows.npy")
    arrays = model_arrays(exact)
    for name, stored in (("feature_rows", features), ("class_rows", classes)):
        most = np.abs(arrays[name]).max(axis=1, keepdims=True)
        assert (np.abs(dequantized(stored) - arrays[name]) <= most * (0.5 / 127 + 1e-6)).all()
    test = snm.load_data(run.parent / "data").test.features
    x = exact.weighting.apply(test).toarray().astype(np.float64)
    h, scores = x @ dequantized(features), np.tile(arrays["bias"].astype(np.float64), (150, 1))
    for member in range(2):
        columns = slice(8 * member, 8 * member + 8)
        q = h[:, columns] + np.maximum(h[:, columns], 0) @ arrays["tower"][member]
        q *= arrays["multipliers"][member] / np.linalg.norm(q, axis=1, keepdims=True)
        scores += q @ dequantized(classes)[:, columns].T
    labels, found = opened.predict(test, 10)
    np.testing.assert_allclose(
        found, np.take_along_axis(scores, labels.astype(int), axis=1), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(found, -np.sort(-scores, axis=1)[:, :10], rtol=1e-4, atol=1e-4)
    some = opened.predict(test, 2, labels=[3, 7, 50])[1]
    np.testing.assert_allclose(some[:, 0], scores[:, [3, 7, 50]].max(axis=1), rtol=1e-4, atol=1e-4)
    best = exact.predict(test, 10)[0]
    for k in (1, 5, 10):
        hits = [len(set(a[:k]) & set(b[:k])) for a, b in zip(labels, best, strict=True)]
        assert manifest["measured"]["recall"][str(k)] == pytest.approx(np.mean(hits) / k)
    with_votes = snm.load(out)
    assert with_votes.memory is not None and with_votes.calibration == snm.load(run).calibration
    assert with_votes.threshold("macro-f1").k == 50
    answered = (with_votes.predict(test, 1)[0] == snm.load(run).predict(test, 1)[0]).mean()
    assert answered > 0.9
    assert class_rows_sha256(opened) != class_rows_sha256(exact)  # an index of the run is refused


def test_rows_of_int8_that_find_too_little(run, tmp_path, capsys, monkeypatch):
    """Recall is made low: half of the exact labels are said to be others."""
    real = measures.recall
    monkeypatch.setattr(measures, "recall", lambda found, exact: real(found, exact) / 2)
    asked = ("export", run, "--to", "npy", "--rows", "int8", "--out", tmp_path / "out")
    said = refused(capsys, *asked, "--min-recall", "0.6")
    assert said.startswith("--min-recall 0.6: found recall@") and "--rows float32 finds all" in said
    assert list(tmp_path.iterdir()) == []
    call(*asked)
    told = " ".join(capsys.readouterr().out.split())
    assert "so answers get worse; --rows float32 finds all" in told and "slower" not in told
    said = refused(capsys, "export", run, "--to", "npz", "--rows", "int8", "--out", "x")
    assert said == "--rows int8: found --to npz, expected --to npy"
    said = refused(capsys, "export", run, "--to", "npy", "--min-recall", "0.9", "--out", "x")
    assert said == "--min-recall: found --to npy, expected --to faiss or hnswlib, or --rows int8"


def test_weights_of_a_memory(run, tmp_path):
    made = snm.load(run)
    weights = np.arange(600, dtype=np.float32) % 3 + 1
    memory = dataclasses.replace(made.memory, weights=weights)
    made = dataclasses.replace(made, memory=memory)
    sizes = {"num_features": 120, "num_labels": 60, "members": 2}
    about = write_npy(made, RunFolder(run).settings(), None, tmp_path)
    made.weighting.save(tmp_path / "weighting.npz")
    write_manifest(tmp_path, {"format": FORMAT, **sizes, **about})
    opened = open_npy(tmp_path)
    np.testing.assert_array_equal(opened.memory.weights, weights)
    points = snm.load_data(run.parent / "data").test.features
    np.testing.assert_array_equal(opened.predict(points, 2), made.predict(points, 2))


def test_commands_take_it_in_place_of_the_run(run, out, tmp_path, capsys):
    texts = Vectorizer("counts", 120, vocabulary=tuple(f"word{j}" for j in range(120)))
    folder = shutil.copytree(out, tmp_path / "texts")
    texts.write(folder / "vectorizer.json")
    write_manifest(folder, json.loads((folder / "manifest.json").read_text()))
    capsys.readouterr()
    call("predict", folder, "--text", "word3 word5 word7", "--k", 2, "--no-verify")
    answer = json.loads(capsys.readouterr().out)
    x = texts.transform(["word3 word5 word7"])
    labels, scores = snm.load(run).predict(x, 2)
    assert answer["labels"] == labels[0].tolist()
    assert answer["names"] == [f"näme {label}" for label in labels[0]]
    np.testing.assert_allclose(answer["scores"], scores[0], atol=1e-6)
    # So that an index of the run is one of the export.
    assert class_rows_sha256(snm.load(out)) == class_rows_sha256(snm.load(run))
    said = "found no config.toml, but files of `snm export`, expected the folder of a run"
    assert said in refused(capsys, "evaluate", out)
    for form in ("npz", "faiss"):
        other = tmp_path / "other"
        assert said in refused(capsys, "export", out, "--to", form, "--out", other)


def test_names_are_read_one_by_one(out, tmp_path):
    names = snm.load(out).label_names
    assert isinstance(names, MappedNames) and len(names) == 60
    told = tuple(f"näme {label}" for label in range(60))
    assert tuple(names) == told and names[-1] == told[-1] and names[3:9:2] == told[3:9:2]
    with pytest.raises(IndexError):
        names[60]
    assert snm.load(out).ids_of(["näme 59", 3]).tolist() == [59, 3]
    (tmp_path / "odd.txt").write_bytes("a\r\n\n  b\u2028c \n".encode())
    starts = line_starts(tmp_path / "odd.txt")
    odd = MappedNames(tmp_path / "odd.txt", starts)
    assert list(odd) == [odd[0], odd[1], odd[2]] == ["a", "", "  b\u2028c "]
    with pytest.raises(InputError, match="what `snm export` wrote"):
        MappedNames(tmp_path / "odd.txt", starts[:-1])


def test_every_changed_byte_is_named(out, tmp_path):
    folder, rng = shutil.copytree(out, tmp_path / "out"), np.random.default_rng(0)
    manifest = json.loads((folder / "manifest.json").read_text())
    files = sorted(path.name for path in folder.iterdir())
    assert files == sorted([*manifest["files"], "manifest.json"])
    for name in set(files) - {"manifest.json"}:  # of which test_export.py flips bits
        raw = (folder / name).read_bytes()
        assert manifest["files"][name] == [len(raw), zlib.crc32(raw)]
        changed = bytearray(raw)
        changed[rng.integers(0, len(raw))] ^= 1 << rng.integers(8)
        (folder / name).write_bytes(changed)
        with pytest.raises(InputError, match=f"out/{name}: found a damaged file"):
            open_npy(folder)
        (folder / name).write_bytes(raw)
    read_manifest(folder, "npy")


def test_arrays_that_do_not_fit_are_refused(out, tmp_path):
    """The checksums are right, or are not compared: what would be read past an array's end."""
    folder = shutil.copytree(out, tmp_path / "out")
    kept = json.loads((folder / "manifest.json").read_text())
    for name, other in (
        ("model-class_rows", np.zeros((60, 15), np.float32)),
        ("model-feature_rows", np.zeros((120, 16), np.float64)),
        ("model-bias", np.zeros((60, 1), np.float32)),
        ("labels-starts", np.zeros(60, np.int64)),
        ("memory-rows", np.zeros(599, np.int64)),
        ("memory-labels_indptr", np.zeros(601, np.object_)),
    ):
        path = folder / f"{name}.npy"
        raw = path.read_bytes()
        np.save(path, other, allow_pickle=True)
        with pytest.raises(InputError, match=rf"{name}\.npy: found .*, expected what"):
            open_npy(folder, verify=False)
        path.write_bytes(raw[:-1])
        with pytest.raises(InputError, match=rf"{name}\.npy: found no array"):
            open_npy(folder, verify=False)
        path.unlink()
        with pytest.raises(InputError, match=rf"{name}\.npy: found no such file"):
            open_npy(folder, verify=False)
        path.write_bytes(raw)
    ids = np.load(folder / "memory-features_indices.npy")
    np.save(folder / "memory-features_indices.npy", ids + 1000)  # past the last feature
    write_manifest(folder, kept)
    with pytest.raises(InputError, match=r"manifest\.json: found another content"):
        open_npy(folder)
    np.save(folder / "memory-features_indices.npy", ids)
    for change in (
        {"num_labels": 61}, {"num_features": "120"}, {"members": 3}, {"members": None},
        {"log_multipliers": [0]}, {"format": "snm-export-9"}, {"calibration": {"answers": 3}},
        {"memory": {}}, {"memory": {**kept["memory"], "points": 3}},
        {"memory": {**kept["memory"], "neighbors": "5"}},
    ):  # fmt: skip
        write_manifest(folder, {**kept, **change})
        with pytest.raises(InputError, match="expected"):
            open_npy(folder)
    write_manifest(folder, kept)
    (folder / "settings.toml").write_text("dim = 8\n")
    with pytest.raises(InputError, match=r"settings\.toml: found a damaged file"):
        open_npy(folder, verify=False)
    for damaged in (b"", b"{}", b"x"):
        (folder / "manifest.json").write_bytes(damaged)
        with pytest.raises(InputError, match="no manifest, or a damaged one"):
            snm.load(folder)


@pytest.mark.parametrize(
    "error",
    [(28, "No space left on device"), ("Not enough free space to write 640 bytes after offset 8",)],
)
def test_a_disk_without_room_leaves_nothing(run, tmp_path, capsys, monkeypatch, error):
    """NumPy's own error has no number."""

    def full(*_, **__):
        raise OSError(*error)

    monkeypatch.setattr("snm.export.arrays.np.save", full)
    # No unusable input: with room, the same command succeeds.
    call("export", run, "--to", "npy", "--out", tmp_path / "out", status=1)
    said = capsys.readouterr().err
    assert "out: found no space left on device, expected room for it, on the disk" in said
    assert list(tmp_path.iterdir()) == []


def test_written_again_from_what_was_opened(run, out, tmp_path):
    """An opened export has all that the run gave it."""
    write_npy(open_npy(out), RunFolder(run).settings(), run / "labels.txt", tmp_path)
    for path in tmp_path.iterdir():
        if path.stem != "model-multipliers":
            assert path.read_bytes() == (out / path.name).read_bytes(), path.name
