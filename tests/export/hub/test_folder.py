"""A hub folder answers as its run does, to the bit, and a hostile one is refused in one line."""

import dataclasses
import json
import shutil
import struct
import sys

import numpy as np
import pytest
import tiny
from command_line import call, refused
from export.answers import assert_answer_alike
from safetensors.numpy import load_file, save_file

import snm
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError
from snm.export.hub.folder import CONFIG, FILES, open_hub, write_hub
from snm.export.manifest import write_manifest
from snm.runs.folder import RunFolder
from snm.system.files.checksums import with_checksum


@pytest.fixture(scope="module")
def out(remembering, tmp_path_factory):
    out = tmp_path_factory.mktemp("hub") / "out"
    call("export", remembering, "--to", "hub", "--out", out)
    return out


@pytest.fixture
def points(remembering):
    return snm.load_data(remembering.parent / "data").test.features


def test_answers_are_those_of_the_run(remembering, out, points):
    here, there = snm.load(remembering), snm.load(out)
    assert_answer_alike(there, here, points)
    assert there.label_names == here.label_names and there.label_names[3] == "näme 3"
    alone = snm.load(out, memory=False, verify=False)
    assert alone.memory is None and alone.calibration is None
    np.testing.assert_array_equal(
        alone.predict(points, 2), snm.load(remembering, memory=False).predict(points, 2)
    )


def test_the_card_of_an_unfinished_run(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run / "run", tmp_path / "run")
    RunFolder(run).mark_unfinished()
    call("export", run, "--to", "hub", "--out", tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "None: the training is not finished." in card and "no test points" not in card


def test_one_member_of_bfloat16_without_a_bias(tmp_path):
    config = dataclasses.replace(
        tiny.CONFIG, encoder="linear", bias=False, table_dtype="bfloat16", weighting="l2", epochs=1
    )
    snm.train(tiny.write(tmp_path / "data", test=False), config, tmp_path / "run")
    (tmp_path / "out").mkdir()
    write_hub(snm.load(tmp_path / "run"), tmp_path / "run", tmp_path / "out")
    points = snm.load_data(tmp_path / "data").train.features
    mine, theirs = (snm.load(tmp_path / name) for name in ("out", "run"))
    assert mine.state.head.bias is None and mine.label_names is None
    np.testing.assert_array_equal(mine.predict(points, 3), theirs.predict(points, 3))
    assert "None: the data had no test points." in (tmp_path / "out" / "README.md").read_text()


def test_what_is_in_it(remembering, out):
    names = {path.name for path in out.iterdir()}
    assert names == set(FILES) - {"vectorizer.json"}
    about = json.loads((out / CONFIG).read_text())
    assert about["settings"] == dataclasses.asdict(RunFolder(remembering).settings())
    assert set(about["files"]) == names - {CONFIG, "README.md"}
    # Whoever may read one file may read all.
    assert len({(out / name).stat().st_mode for name in names}) == 1
    # A path tells how somebody's machine is laid out.
    assert all(str(remembering.parent).encode() not in (out / name).read_bytes() for name in names)


def test_commands_take_it_in_place_of_the_run(remembering, out, tmp_path, capsys):
    texts = Vectorizer("counts", 120, vocabulary=tuple(f"word{j}" for j in range(120)))
    folder = shutil.copytree(out, tmp_path / "texts")
    texts.write(folder / "vectorizer.json")
    capsys.readouterr()
    call("predict", folder, "--text", "word3 word5 word7", "--k", 2)
    answer = json.loads(capsys.readouterr().out)
    labels, scores = snm.load(remembering).predict(texts.transform(["word3 word5 word7"]), 2)
    assert answer["labels"] == labels[0].tolist()
    np.testing.assert_allclose(answer["scores"], scores[0], atol=1e-6)
    (folder / "README.md").write_text("edited on the Hub")
    assert snm.load(folder).vectorizer is not None
    said = refused(capsys, "serve", folder, "--workers", "2")
    assert said.startswith("--workers 2: found a run, expected its export")


def test_arrays_do_not_open_alone(out, tmp_path, capsys):
    part = shutil.copytree(out, tmp_path / "part")
    (part / CONFIG).unlink()
    said = refused(capsys, "predict", part, "--text", "a")
    assert said == (
        f"{part}: found arrays that do not open alone, expected a whole export as hub or npy, "
        "or a run"
    )
    assert "files of `snm export`" in refused(capsys, "evaluate", part)


def test_every_changed_byte_is_named(out, tmp_path):
    folder, rng = shutil.copytree(out, tmp_path / "out"), np.random.default_rng(0)
    for name in sorted({path.name for path in folder.iterdir()} - {"README.md"}):
        raw = (folder / name).read_bytes()
        changed = bytearray(raw)
        changed[rng.integers(0, len(raw))] ^= 1 << rng.integers(7)
        (folder / name).write_bytes(changed)
        with pytest.raises(InputError, match=f"out/{name}: found .*damaged"):
            open_hub(folder)
        (folder / name).write_bytes(raw)
    open_hub(folder)


def with_header(raw, change):
    """A safetensors file with another header in front of the same values."""
    (size,) = struct.unpack("<Q", raw[:8])
    header = change(json.loads(raw[8 : 8 + size]))
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + raw[8 + size :]


def test_hostile_arrays_are_one_line(out, tmp_path):
    """Checksums are not compared: an attacker would have made them fit."""
    folder = shutil.copytree(out, tmp_path / "out")
    path = folder / "model.safetensors"
    raw, arrays = path.read_bytes(), load_file(path)
    rows, dtype = arrays["class_rows"], {"dtype": "BF16"}

    def changed(**more):
        return lambda header: {**header, "class_rows": {**header["class_rows"], **more}}

    for damaged in (
        b"", raw[:7], raw[:200], raw[:-1], raw + b"x", b"\xff" * 8 + raw[8:],
        struct.pack("<Q", 1 << 40) + raw[8:], with_header(raw, lambda _: b"[" * 9000),
        with_header(raw, lambda _: []), with_header(raw, changed(shape=[1 << 62, 4])),
        with_header(raw, changed(shape=[-1, 16])), with_header(raw, changed(data_offsets=[0, 4])),
        with_header(raw, changed(shape=[60, 32], **dtype)), with_header(raw, changed(dtype="X")),
        with_header(raw, changed(shape=[16, 60])), with_header(raw, changed(dtype="I32")),
        with_header(raw, lambda header: {k: v for k, v in header.items() if k != "bias"}),
    ):  # fmt: skip
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"model\.safetensors: found .*, expected") as error:
            open_hub(folder, verify=False)
        assert "\n" not in str(error.value)
    for other in (rows[:-1], rows.astype(np.float64), rows.view(np.int32), rows.ravel()):
        save_file({**arrays, "class_rows": np.ascontiguousarray(other)}, path)
        with pytest.raises(InputError, match=r"model\.safetensors: found class_rows"):
            open_hub(folder, verify=False)
    path.unlink()
    with pytest.raises(InputError, match=r"model\.safetensors: found no such file"):
        open_hub(folder, verify=False)
    path.write_bytes(raw)
    path = folder / "memory.safetensors"
    stored = load_file(path)
    for name, change in (("features_indices", 1000), ("labels_indices", -1), ("labels_indptr", 7)):
        save_file({**stored, name: stored[name] + np.asarray(change, stored[name].dtype)}, path)
        with pytest.raises(InputError, match=r"config\.json: found another content"):
            open_hub(folder, verify=False)


def test_hostile_settings_are_one_line(out, tmp_path):
    folder = shutil.copytree(out, tmp_path / "out")
    kept = json.loads((folder / CONFIG).read_text())
    settings, memory = kept["settings"], kept["memory"]
    for change in (
        {"num_labels": 61}, {"num_labels": "60"}, {"num_labels": 1 << 60}, {"num_features": True},
        {"members": 1 << 31}, {"members": None}, {"log_multipliers": "1"}, {"rows": "int8"},
        {"format": ["snm-hub-1"]}, {"calibration": {"answers": 3}}, {"calibration": []},
        {"settings": None}, {"settings": {**settings, "dim": "8"}},
        {"settings": {**settings, "dim": 1 << 40}}, {"settings": {**settings, "dim": -8}},
        {"settings": {**settings, "encoder": {"a": 1}}}, {"settings": {**settings, "loss": []}},
        {"settings": {**settings, "loss": "__import__('os')"}},
        {"settings": {**settings, "preset": ["fast"]}}, {"settings": {**settings, "more": 1}},
        {"settings": {**settings, "weighting": "none"}}, {"settings": {**settings, "sampled": {}}},
        {"memory": []}, {"memory": {}}, {"memory": {**memory, "points": 3}},
        {"memory": {**memory, "points": -1}}, {"memory": {**memory, "neighbors": "5"}},
        {"memory": {**memory, "arrays": 3}}, {"memory": {**memory, "weight": None}},
    ):  # fmt: skip
        write_manifest(folder, {**kept, **change}, CONFIG)
        with pytest.raises(InputError, match=r"found .* expected ") as error:
            open_hub(folder)
        assert "\n" not in str(error.value), change
    for name in ("../out/labels.txt", "/dev/zero", "", "a\nb"):
        write_manifest(folder, kept, CONFIG)
        about = json.loads((folder / CONFIG).read_text())
        about["files"][name] = [0, 0]
        (folder / CONFIG).write_text(json.dumps(with_checksum(about)))
        with pytest.raises(InputError, match="expected what `snm export` wrote"):
            open_hub(folder)
    # That of another library.
    (folder / CONFIG).write_text('{"architectures": ["BertModel"], "hidden_size": 768}')
    with pytest.raises(InputError, match=r"config\.json: found no manifest"):
        snm.load(folder)


def test_without_safetensors(remembering, out, tmp_path, capsys, monkeypatch):
    for name in ("safetensors", "safetensors.numpy"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"no safetensors, expected pip install -e '\.\[hub\]'"):
        snm.load(out)
    said = refused(capsys, "export", remembering, "--to", "hub", "--out", tmp_path / "new")
    assert "no safetensors" in said and list(tmp_path.iterdir()) == []
