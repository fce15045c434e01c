"""What is in a run folder is what was written: changed, missing and exchanged files are refused."""

import dataclasses
import json
import shutil
import tomllib
from unittest import mock

import numpy as np
import pytest
import tiny
from command_line import call, refused
from edits import accept_edits
from small_runs import notes

import snm
from snm.cli.main import main
from snm.config.settings import read_config
from snm.data.vectorizer import Vectorizer
from snm.doctor.run_checks import examine_run
from snm.errors import InputError
from snm.memory.memory import Memory, MemorySettings
from snm.memory.store import save_memory
from snm.runs.events import Stepped
from snm.runs.folder import RunFolder, read_json, write_json
from snm.runs.manifest import MAY_CHANGE, read_manifest
from snm.runs.stored_run import StoredRun
from snm.system.files import checksums

CONFIG = dataclasses.replace(tiny.CONFIG, members=2, epochs=2)
RECORD = {
    "used": True, "held_out": 6, "gain": 1.0, "error": 0.5, "before": [1.0], "precision": [2.0],
    "settings": {"neighbors": 3, "power": 1.0, "feature_share": 1.0, "weight": 2.0},
    "calibration": None, "adjustment": None, "points": tiny.POINTS, "bytes": 100, "seconds": 0.1,
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A data set with names and words, and a finished run on it with every file of a run."""
    place = tmp_path_factory.mktemp("sealed")
    data = tiny.write(place / "data", names=True)
    words = tuple(f"word{number:02}" for number in range(tiny.FEATURES))
    Vectorizer("counts", tiny.FEATURES, vocabulary=words).write(data / "vectorizer.json")
    dataset = snm.load_data(data)
    snm.train(dataset, CONFIG, place / "run", source=data)
    # The points are too few for a memory to be tried, so one is put in, as the end of a run does.
    stored = StoredRun.open(place / "run")
    folder = stored.folder
    train, result = dataset.train, folder.read_result()
    folder.mark_unfinished()
    save_memory(folder.memory, Memory(train.features, train.labels, None, np.arange(tiny.POINTS),
                                      MemorySettings(**RECORD["settings"])))  # fmt: skip
    write_json(folder.memory_record, RECORD)
    folder.finish({**result, "memory": RECORD}, stored.checkpoints.seals())
    return place


@pytest.fixture
def run(place, tmp_path):
    return shutil.copytree(place / "run", tmp_path / "run")


FILES = ("config.toml", "run.json", "weighting.npz", "labels.txt", "vectorizer.json", "memory.json",
         "memory.npz", "result.json", "manifest.json")  # fmt: skip


def test_every_file_is_in_the_manifest(place):
    run = place / "run"
    manifest = read_manifest(run)
    assert {*manifest.files, "config.toml", "manifest.json"} == set(FILES)
    assert list(manifest.finished) == ["train", "member-2"]
    assert [step for step, _ in manifest.finished.values()] == [8, 8]
    # What is not in it: checkpoints, which have manifests of their own, and the logs.
    others = {path.name for path in run.iterdir()} - set(FILES)
    assert others == {"checkpoints", "log.jsonl", "tensorboard", ".lock"}
    assert snm.load(run).memory is not None


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_or_a_missing_file_is_named(run, name):
    path = run / name
    raw = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(len(raw), size=12):
        flipped = bytearray(raw)
        flipped[place] ^= 1 << rng.integers(8)
        path.write_bytes(flipped)
        if name == "config.toml" and harmless(raw, flipped):
            continue
        with pytest.raises(InputError, match=name) as error:
            snm.load(run)
        assert "\n" not in str(error.value)
    path.unlink()
    with pytest.raises(InputError, match=name):
        snm.load(run)


def harmless(before, after):
    """Whether a change of the settings is one that a user may make."""
    try:
        pairs = [tomllib.loads(bytes(raw).decode()) for raw in (before, after)]
    except ValueError:
        return False
    first, second = ({k: v for k, v in found.items() if k not in MAY_CHANGE} for found in pairs)
    return first == second


@pytest.mark.parametrize(
    "name", ["labels.txt", "weighting.npz", "vectorizer.json", "result.json", "run.json"]
)
def test_what_the_same_command_makes_anew_is_told(place, run, capsys, name):
    (run / name).write_bytes((run / name).read_bytes() + b"\n")
    remedy = "the same `snm train` command makes it anew"
    said = refused(capsys, "predict", run, place / "data" / "test.txt")
    advice = [one.advice for one in examine_run(run) if one.level == "error"]
    words = ("train", place / "data", "--run-dir", run, *tiny.FLAGS, "--members=2", "--epochs=2")
    if name == "run.json":  # which tells whether it is the same command
        assert said.endswith("expected what `snm` wrote") and "train anew" in advice[0]
        assert said == refused(capsys, *words)
        return
    assert said.endswith(f"{name}: found a damaged or changed file (its checksum differs), "
                         f"expected what `snm` wrote: {remedy}")  # fmt: skip
    assert advice == [remedy]
    call(*words)
    assert snm.evaluate(run)["metrics"] == snm.evaluate(place / "run")["metrics"]


def test_a_file_that_the_run_did_not_write_is_refused(tmp_path, tiny_run):
    run = shutil.copytree(tiny_run / "run", tmp_path / "run")
    (run / "labels.txt").write_text("".join(f"{label}\n" for label in range(tiny.LABELS)))
    with pytest.raises(InputError, match=r"labels.txt: found a file that the run did not write"):
        snm.load(run)


def test_what_may_be_edited_by_hand(place, run, tmp_path):
    """Layout, comments and some settings in place; every setting in a copy for a new run."""
    path = run / "config.toml"
    before = snm.evaluate(run)["metrics"]
    text = path.read_text().replace("auc = false", "auc = true").replace("epochs = 2", "epochs=3")
    path.write_text(f"# my run\n\n{text}")
    found = snm.evaluate(run)["metrics"]
    assert {**before, "AUC": found["AUC"]} == found
    path.write_text(text.replace("seed = 0", "seed = 1"))
    with pytest.raises(InputError, match=r"changed settings, expected .* copy the file and use"):
        snm.evaluate(run)
    copy = tmp_path / "mine.toml"
    copy.write_text(text.replace("seed = 0", "seed = 1").replace("members = 2", "members = 1"))
    call("train", place / "data", "--config", copy, "--run-dir", tmp_path / "new")
    assert read_config(tmp_path / "new" / "config.toml").seed == 1


# -- checkpoints -----------------------------------------------------------------------------


def remove_the_newest(run):
    shutil.rmtree(run / "checkpoints" / "member-2" / "8")


def remove_its_manifest(run):
    (run / "checkpoints" / "8" / "manifest.json").unlink()


def exchange_members(run):
    shutil.rmtree(run / "checkpoints" / "8")
    shutil.copytree(run / "checkpoints" / "member-2" / "8", run / "checkpoints" / "8")


def copy_an_old_one_as_the_newest(run):
    shutil.rmtree(run / "checkpoints" / "8")
    shutil.copytree(run / "checkpoints" / "4", run / "checkpoints" / "8")


def take_that_of_another_run(run):
    """Of the same settings and data, but other bits: the seconds differ at least."""
    manifest = run / "checkpoints" / "8" / "manifest.json"
    note = checksums.read_sealed(manifest)
    note["progress"]["seconds"] += 1
    checksums.write_sealed(manifest, note)


def remove_the_result(run):
    (run / "result.json").unlink()


def remove_the_manifest(run):
    (run / "manifest.json").unlink()


CHANGES = {
    remove_the_newest: "member-2/8: found no whole checkpoint",
    remove_its_manifest: "checkpoints/8: found no whole checkpoint",
    exchange_members: "checkpoints/8: found a checkpoint of seed 1000003, expected 0",
    copy_an_old_one_as_the_newest: "manifest.json is of step 4",
    take_that_of_another_run: "checkpoints/8: found another checkpoint",
    remove_the_result: "result.json: found no such file",
    remove_the_manifest: "manifest.json: found no such file",
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_checkpoints_changed_by_hand_are_refused(place, run, tmp_path, capsys, change):
    change(run)
    out = tmp_path / "out"
    test = place / "data" / "test.txt"
    for words in (
        ("evaluate", run),
        ("predict", run, test, "--out", out),
        ("export", run, "--to", "npz", "--out", out),
        ("serve", run, "--port", "0"),
        ("grow", run, "--data", place / "data", "--out", out),
    ):
        said = refused(capsys, *words)
        assert CHANGES[change] in said
        assert not out.exists()
    # The same training command repairs what is the run's own, and refuses what is another's.
    words = ("train", place / "data", "--run-dir", run, *tiny.FLAGS, "--members=2", "--epochs=2")
    if change is exchange_members:
        assert "a checkpoint of a run with seed 1000003, expected 0" in refused(capsys, *words)
        return
    call(*words)
    assert snm.evaluate(run)["metrics"] == snm.evaluate(place / "run")["metrics"]


def test_an_interrupted_run_says_that_it_goes_on_from_the_one_before(place, run):
    RunFolder(run).mark_unfinished()
    remove_its_manifest(run)
    events = list(snm.training(place / "data", CONFIG, run))
    (noted,) = notes(events)
    assert "checkpoints/8: found an unfinished checkpoint (no manifest.json)" in noted
    assert noted.endswith("going on from the one before it")
    assert [event.step for event in events if isinstance(event, Stepped)] == [6, 8]


def test_a_finished_run_that_goes_on_is_not_finished(place, run):
    """Its result is of checkpoints that are replaced: until it has another, it has none."""
    events = snm.training(place / "data", dataclasses.replace(CONFIG, epochs=4), run)
    assert any(isinstance(event, Stepped) for event in events)  # stops at the first
    events.close()
    assert not RunFolder(run).finished()
    assert snm.load(run).model.members == 1
    with mock.patch.object(RunFolder, "write", autospec=True, side_effect=RunFolder.write) as write:
        snm.train(place / "data", dataclasses.replace(CONFIG, epochs=4), run)
    assert RunFolder(run).finished() and snm.load(run).model.members == 2
    assert write.call_count == 1


# -- contents --------------------------------------------------------------------------------


DEEP = "[" * 100_000 + "]" * 100_000
SHAPES = ("", "[]", "null", "3", '"text"', "{}", '{"a": 1}', "[[[[]]]]", "{", "NaN", DEEP,
          '{"a":' * 100_000 + "1" + "}" * 100_000, "\xff\x00", "1" * 5000)  # fmt: skip
CHANGED = {
    "run.json": [("num_labels", 10**9), ("num_labels", "20"), ("num_labels", True), ("data", None),
                 ("num_features", 31), ("num_features", -1), ("sha256", 0), ("warm_start", 3),
                 ("given", ["memory"])],
    "memory.json": [("used", 1), ("settings", {}), ("precision", {})],
    "result.json": [("metrics", []), ("members", 3), ("steps", -1), ("metrics", {"P@1": "70"})],
    "vectorizer.json": [("kind", "tfidf"), ("kind", []), ("num_features", 31), ("ngrams", [2]),
                        ("vocabulary", {}), ("num_features", 10**12)],
}  # fmt: skip


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("name", ["run.json", "memory.json", "result.json", "vectorizer.json",
                                  "manifest.json"])  # fmt: skip
def test_json_of_another_shape_is_one_line(run, name, sealed):
    path = run / name
    before = json.loads(path.read_text())
    texts = [*SHAPES, *(json.dumps({**before, k: v}) for k, v in CHANGED.get(name, []))]
    for text in texts:
        path.write_text(text)
        if sealed and name != "manifest.json":
            accept_edits(run)
        with pytest.raises(InputError, match=r"\.json|weighting\.npz|labels\.txt") as error:
            snm.load(run)
        assert "\n" not in str(error.value) and len(str(error.value)) < 1000


@pytest.mark.slow
@pytest.mark.parametrize("sealed", [True, False])
def test_every_verb_says_it_in_one_line(place, run, tmp_path, capsys, sealed):
    """Each of the files that a run is read from, with each shape, through each verb."""
    out, data, runs = tmp_path / "out", place / "data", 0
    verbs = (
        ("evaluate", run),
        ("predict", run, data / "test.txt", "--out", out),
        ("export", run, "--to", "npz", "--out", out),
        ("grow", run, "--data", data, "--out", out),
        ("bounds", run),
        ("doctor", run),
        ("train", data, "--run-dir", tmp_path / "new", "--warm-start", run, *tiny.FLAGS),
        ("train", data, "--run-dir", run, *tiny.FLAGS, "--members=2", "--epochs=2"),
    )
    for name in ("config.toml", "run.json", "memory.json", "result.json", "vectorizer.json",
                 "manifest.json"):  # fmt: skip
        whole = (run / name).read_bytes()
        for text in SHAPES:
            for words in verbs:
                (run / name).write_text(text)
                if sealed and name.endswith(".json") and name != "manifest.json":
                    accept_edits(run)
                with pytest.raises(SystemExit) as stop:
                    main([str(word) for word in words])
                said = capsys.readouterr()
                runs += 1
                shutil.rmtree(tmp_path / "new", ignore_errors=True)
                if not stop.value.code:  # it makes anew what it can, and starts without a memory
                    assert words[0] == "train", (name, text[:20], words)
                    shutil.rmtree(run)
                    shutil.copytree(place / "run", run)
                    continue
                if words[0] != "doctor":
                    assert stop.value.code == 2, (name, text[:20], words)
                    assert said.err.startswith("snm: error: ") and said.err.count("\n") == 1
                assert "Traceback" not in said.err and not out.exists()
            (run / name).write_bytes(whole)
    print(f"\n{runs} commands")


@pytest.mark.parametrize("sealed", [True, False])
def test_a_truncation_of_the_settings_is_one_line(run, sealed):
    path = run / "config.toml"
    raw = path.read_bytes()
    if not sealed:  # as `snm train` reads a run without a manifest, which it makes anew
        (run / "manifest.json").unlink()
    folder = RunFolder(run)
    # The last character is the number of steps a dispatch.
    for size in range(0, len(raw) - 2, 3):
        path.write_bytes(raw[:size])
        for read in (folder.settings, lambda: snm.load(run))[: 2 if size % 60 == 0 else 1]:
            with pytest.raises(
                InputError, match=r"config\.toml|manifest\.json|^[a-z_]+: found"
            ) as error:
                read()
            assert "\n" not in str(error.value)


def test_read_json_is_one_line(tmp_path):
    for text in SHAPES:
        (tmp_path / "a.json").write_text(text)
        try:
            read_json(tmp_path / "a.json")
        except InputError as error:
            assert "\n" not in str(error)


def test_checksums_of_parameters_are_compared_unless_asked_not_to(tmp_path, tiny_run):
    run = shutil.copytree(tiny_run / "run", tmp_path / "run")
    expected = snm.load(run).state.head.table.rows
    for stray in [path / "stray" for path in (run / "checkpoints").glob("*/state")]:
        stray.write_bytes(b"x")
    with pytest.raises(InputError, match="state/stray should not be there"):
        snm.load(run)
    np.testing.assert_array_equal(snm.load(run, verify=False).state.head.table.rows, expected)
    given = ("predict", run, tiny_run / "data" / "test.txt", "--out", tmp_path / "out.jsonl")
    call(*given, status=2)
    call(*given, "--no-verify")
    assert (tmp_path / "out.jsonl").read_text().count("\n") == tiny.TEST_POINTS
