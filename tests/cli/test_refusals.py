"""Bad files, options and words on the command line: one line each, and nothing written."""

import gzip
import json
import re
import shutil
from pathlib import Path

import pytest
import tiny
from command_line import call, contents, refused

from snm.cli.main import with_local_copies
from snm.cli.predict.verb import Predict
from snm.config.settings import read_config

HEADER = f"{tiny.POINTS} {tiny.FEATURES} {tiny.LABELS}"


def changed(number, line):
    """The training file with another line `number` (the header is 1); None leaves it out."""
    lines = [HEADER, *tiny.rows(tiny.POINTS, 0)]
    lines[number - 1 : number] = [] if line is None else [line]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("part", "text", "line", "found"),
    [
        ("train", changed(1, None), 1, "header `points features labels`"),
        ("train", changed(3, "1 30:1"), 3, "feature index 30, expected an index from 0"),
        ("train", changed(61, None), None, "59 rows, expected 60"),
        ("test", changed(6, "1 2:nan"), 6, "value 'nan', expected a finite"),
    ],
)
def test_bad_files_are_named_with_their_line(tmp_path, capsys, part, text, line, found):
    folder, out = tiny.write(tmp_path / "data"), tmp_path / "run"
    file = folder / f"{part}.txt"
    file.write_text(text)
    said = refused(capsys, "train", folder, "--run-dir", out, *tiny.FLAGS)
    assert said.startswith(f"{file}:" if line is None else f"{file}:{line}: found "), said
    assert found in said
    assert not out.exists()


def test_truncated_gzip(tmp_path, capsys):
    folder, out = tiny.write(tmp_path / "data"), tmp_path / "run"
    packed = gzip.compress((folder / "train.txt").read_bytes())
    (folder / "train.txt").unlink()
    (folder / "train.txt.gz").write_bytes(packed[: len(packed) // 2])
    said = refused(capsys, "train", folder, "--run-dir", out)
    assert re.search(r"train\.txt\.gz:\d+: found .*truncated", said), said
    assert not out.exists()


def test_parts_that_do_not_fit(tmp_path, capsys):
    folder, out = tiny.write(tmp_path / "data"), tmp_path / "run"
    (folder / "test.txt").write_text("1 31 20\n1 2:1\n")
    said = refused(capsys, "train", folder, "--run-dir", out)
    assert said == f"{folder / 'test.txt'}:1: found 31 features, expected 30, as in train"
    (folder / "train.txt").unlink()
    assert "no train.txt" in refused(capsys, "train", folder, "--run-dir", out)
    (folder / "test.txt").unlink()
    assert "no training file" in refused(capsys, "data", "stats", folder)
    assert "no such folder" in refused(capsys, "train", tmp_path / "nowhere", "--run-dir", out)
    texts = tmp_path / "functions.csv"
    texts.write_text("text,labels\n")
    said = refused(capsys, "train", texts, "--run-dir", out)
    assert said.startswith(f"{texts}: found a file, expected a folder of data, a fetched set, or")
    imports = f": `snm data import {texts} --out DATA` makes one of a file"
    assert said.endswith(imports)
    for name, line in (("log.csv", "user,item\n"), ("log.jsonl", '{"user": 1, "item": 2}\n')):
        log = tmp_path / name
        log.write_text(line)
        assert refused(capsys, "train", log, "--run-dir", out).endswith(
            f"{imports.replace(str(texts), str(log))}, `snm data interactions {log} --out DATA` of "
            "a log of users"
        )
    assert not out.exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--sampled=20"], "--sampled: found 20 of 20 labels, expected at most 19, or `all`"),
        (["--loss=bowls"], "--loss: found 'bowls', expected bowl or powl or"),
        (["--mined=9"], "--mined: found 9 mined of 8 sampled labels, expected at most"),
        (["--sampled=all", "--mined=20"], "--mined: found 20 of 19 sampled labels"),
        (["--dim=0"], "--dim: found 0, expected 1 or more"),
        (["--learning-rate=nan"], "--learning-rate: found nan, expected a finite number"),
        (["--epoch=3"], "--epoch: found an unknown option, expected for example --epochs"),
        (["--epoch", "3"], "--epoch: found an unknown option, expected for example --epochs"),
        (["--preset=big"], "--preset: found 'big', expected one of default, fast, paper"),
        (["--config=none.toml"], "none.toml: found no such file or directory"),
        (["--monitor=P@2", "--validation-fraction=0.2"], "--monitor: found 'P@2', no metric"),
        (["--validation-fraction=0.001"], "--validation-fraction: found 0.001 of 60 points"),
        (["--warm-start=none"], "none: found no such folder, expected the folder of a run"),
    ],
)
def test_bad_options(data, tmp_path, capsys, flags, message):
    out = tmp_path / "run"
    said = refused(capsys, "train", data, "--run-dir", out, *tiny.FLAGS, *flags)
    assert message in said, said
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian", "data"], "trian: found an unknown command, expected for example train"),
        (
            ["data", "fecth", "x"],
            "data fecth: found an unknown command, expected for example data fetch",
        ),
        (["data", "synth", "x", "--point=3"], "--point: found an unknown option"),
        (
            ["train", "x", "--rundir=y"],
            "--rundir: found an unknown option, expected for example --run-dir",
        ),
        (["data", "synth", ".", "--points=3"], "found a file or folder of that name"),
        (["evaluate", "x", "--jsn"], "--jsn: found an unknown option, expected for example --json"),
    ],
)
def test_bad_words(capsys, words, message):
    assert message in refused(capsys, *words)


WRONG_WORDS = [
    ("predict RUN new.csv --k five", "--k: found 'five', expected a whole number"),
    (
        "data import f.csv --out x --test-fraction abc",
        "--test-fraction: found 'abc', expected a number",
    ),
    ("serve RUN --port abc", "--port: found 'abc', expected a whole number"),
    (
        "export RUN --to zip",
        "--to: found 'zip', expected one of npy, npz, safetensors, hub, faiss, hnswlib",
    ),
    (
        "data import f.csv",
        "--out: found no value, expected PATH: Folder to create; must not exist",
    ),
    ("predict RUN --k", "--k: found no value, expected one after it"),
    (
        "export RUN",
        "snm export: found no --to and no --out, "
        "expected --to {npy,npz,safetensors,hub,faiss,hnswlib} and --out PATH",
    ),
    ("train", "snm train: found no DATA and no --run-dir, expected DATA and --run-dir PATH"),
    (
        "data stats",
        "snm data stats: found no DATA, expected DATA ahead of the options: Folder of the data "
        "set, or `synthetic`",
    ),
    (
        "data",
        "snm data: found no command, "
        "expected one of stats, synth, import, interactions, split, list, fetch",
    ),
    ("train data --run-dir", "--run-dir: found no value, expected one after it"),
    ("train data --preset", "--preset: found no value, expected one after it"),
    ("train data --run-dir=x --dim=2.5", "--dim: found '2.5', expected a whole number"),
    (
        "train data --run-dir=x --encoder=rlu",
        "--encoder: found 'rlu', expected one of relu, linear, residual",
    ),
    (
        "train data --run-dir=x --learning-rate=fast",
        "--learning-rate: found 'fast', expected a number or auto",
    ),
    (
        "compare data --out=x --sampled few",
        "--sampled: found 'few', expected a whole number, all or auto",
    ),
    ("compare data --out=x --mined 1 y 2", "--mined: found 'y', expected a whole number"),
    ("data import f.csv --out x --ngrams 1", "--ngrams: found too few, expected 2 values"),
    (
        "train data --run-dir=x more",
        "more: found a word too many, expected what `snm train --help` lists",
    ),
    ("-x", "-x: found an unknown option, expected what `snm --help` lists"),
    (f"predict RUN in --k {'1' * 200}x", f"--k: found '{'1' * 200}x', expected a whole number"),
]


@pytest.mark.parametrize(("line", "said"), WRONG_WORDS)
def test_words_that_the_parser_refuses(capsys, line, said):
    assert refused(capsys, *line.split()) == said


def test_a_missing_option_is_explained_by_its_first_sentence(capsys):
    said = refused(capsys, "train", "data", "--no-bias")
    assert said.startswith("--run-dir: found no value, expected PATH: Folder of the run; refused")
    assert "At an address" not in said


def test_no_words_are_told_the_overview(capsys):
    call("--help")
    overview = capsys.readouterr()
    call(status=2)
    assert capsys.readouterr() == overview


def test_a_mined_number_larger_than_few_labels_allow(tmp_path, capsys):
    """The preset's own k' gives way where there are few labels; the user's does not."""
    folder, out = tiny.write(tmp_path / "data"), tmp_path / "run"
    said = refused(capsys, "train", folder, "--run-dir", out, "--mined=40")
    assert said == "--mined: found 40 of 19 sampled labels, expected at most 19"
    for name in ("default", "fast", "paper"):
        call("train", folder, "--run-dir", out, "--preset", name, "--dry-run")
        shown = capsys.readouterr().out
        assert re.search(r"sampled +\S? *19", shown), shown
    assert not out.exists()


def test_a_place_that_is_no_run(data, tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("mine")
    said = refused(capsys, "train", data, "--run-dir", file, *tiny.FLAGS)
    assert said == f"{file}: found something that is no run, expected a new or empty folder"
    inside = refused(capsys, "train", data, "--run-dir", file / "run", *tiny.FLAGS)
    assert (
        inside == f"--run-dir {file / 'run'}: found not a directory, expected a folder to write to"
    )
    assert file.read_text() == "mine"
    before = contents(data)
    assert "no run" in refused(capsys, "train", data, "--run-dir", data, *tiny.FLAGS)
    assert contents(data) == before


def test_a_run_gets_more_epochs_without_its_flags(data, run, tmp_path, capsys):
    copy = shutil.copytree(run, tmp_path / "run")
    more = ("train", data, "--run-dir", copy, "--epochs=4")
    said = refused(capsys, *more)
    assert said.endswith(f"or the run's own settings (`--config {copy / 'config.toml'}`)")
    call(*more, "--config", copy / "config.toml")
    result = json.loads((copy / "result.json").read_text())
    assert result["epochs"] == 4 and read_config(copy / "config.toml").dim == 8


def test_another_run_is_never_overwritten(data, run, tmp_path, capsys):
    before = contents(run)
    again = ["train", data, "--run-dir", run, *tiny.FLAGS]
    said = refused(capsys, *again, "--dim=9")
    assert said == (
        f"{run}: found a run with dim = 8, expected 9: choose another --run-dir, or the run's own "
        f"settings (`--config {run / 'config.toml'}`)"
    )
    assert "warm_start" in refused(capsys, *again, "--warm-start", run).replace("-", "_")
    said = refused(capsys, *again, "--epochs=1")
    assert said == (
        "--epochs: found 3 epochs done (12 steps), expected no fewer than these (1 now, 4 steps)"
    )
    other = tiny.write(tmp_path / "other")
    (other / "train.txt").write_text(changed(2, "1 2:1"))
    said = refused(capsys, "train", other, "--run-dir", run, *tiny.FLAGS)
    assert f"a run on other data ({data})" in said
    old = (data / "train.txt").read_text()
    (data / "train.txt").write_text(changed(2, "1 2:1"))
    try:
        said = refused(capsys, *again)
    finally:  # other tests read it
        (data / "train.txt").write_text(old)
    assert f"a run on other content of {data}, which has changed since, expected the same" in said
    assert contents(run) == before


def test_warm_start_from_other_shapes_writes_nothing(data, run, tmp_path, capsys):
    out = tmp_path / "run"
    words = ["train", data, "--run-dir", out, *tiny.FLAGS, "--warm-start", run]
    said = refused(capsys, *words, "--dim=9")
    assert "dim 8" in said and "dim 9" in said
    assert said.endswith(f"bias (`--config {run / 'config.toml'}` takes its settings)")
    said = refused(capsys, *words, "--no-bias")
    assert "without bias" in said and "with bias" in said
    assert not out.exists()


def test_bad_predictions(data, run, tmp_path, capsys):
    wide, out = tmp_path / "wide.txt", tmp_path / "answers.jsonl"
    wide.write_text("1 31 20\n1 2:1\n")
    said = refused(capsys, "predict", run, wide, "--out", out)
    assert said == f"{wide}:1: found a header of 31 features, expected 30"
    test = data / "test.txt"
    missing = tmp_path / "none" / "answers"
    said = refused(capsys, "predict", run, test, "--out", missing)
    assert said == f"--out {missing}: found no such folder, expected a file in a folder that exists"
    assert "a folder" in refused(capsys, "predict", run, test, "--out", tmp_path)
    assert "--out /proc/x: found" in refused(capsys, "predict", run, test, "--out", "/proc/x")
    for k in (0, 21, 100_000):
        said = refused(capsys, "predict", run, test, "--k", k)
        assert said == f"--k: found {k}, expected 1 to 20, the number of labels"
    assert "no config.toml" in refused(capsys, "predict", data, test, "--out", out)
    said = refused(capsys, "predict", run, data)
    assert said == f"{data}: found a folder, expected a file of points"
    said = refused(capsys, "predict", wide, "--text", "x")
    assert said == f"{wide}: found a file, expected the folder of a run (`snm train`)"
    late = tmp_path / "late.txt"
    late.write_text("2 30 20\n1 2:1\n1 2:nan\n")
    assert refused(capsys, "predict", run, late, "--out", out).startswith(f"{late}:3: found")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["late.txt", "wide.txt"]


@pytest.mark.parametrize(
    "line",
    [
        "train LONG --run-dir NEW",
        "train DATA --run-dir LONG",
        "train DATA --run-dir NEW --warm-start LONG",
        "predict LONG --text x",
        "predict RUN LONG",
        "predict RUN --text x --out LONG",
        "predict RUN --text x --out LONG/file",
        "evaluate RUN --data LONG",
        "export RUN --to npy --out LONG",
        "grow RUN --out LONG",
        "compare LONG --out NEW",
        "doctor LONG",
        "data stats LONG",
        "data synth LONG",
        "data import FILE --out LONG",
        "data import FILE --out NEW --like LONG",
    ],
)
def test_a_path_that_cannot_be_reached(data, run, tmp_path, capsys, line):
    """The system refuses even to say whether it is there, which is no failure of the command."""
    (tmp_path / "f.csv").write_text("text,labels\na,b\n")
    long = tmp_path / ("x" * 300)
    stands = {"DATA": data, "RUN": run, "FILE": tmp_path / "f.csv", "NEW": tmp_path / "new",
              "LONG": long, "LONG/file": long / "file"}  # fmt: skip
    words = [stands.get(word, word) for word in line.split()]
    path = stands["LONG/file" if "LONG/file" in line else "LONG"]
    said = refused(capsys, *words)
    assert said == f"{path}: found file name too long, expected a path that can be reached"
    assert [path.name for path in tmp_path.iterdir()] == ["f.csv"]


def test_bad_evaluations(data, run, tmp_path, capsys):
    said = refused(capsys, "evaluate", run, "--threshold")
    assert said == "--threshold: found nothing, expected probabilities, micro-f1, macro-f1 or f1@k"
    assert "found no config.toml" in refused(capsys, "evaluate", data)
    nowhere = tmp_path / "nowhere"
    for verb in ("evaluate", "serve", "bounds"):
        call(verb, nowhere, status=2)
        told = f"{nowhere}: found no such folder, expected the folder of a run (`snm train`)"
        assert capsys.readouterr() == ("", f"snm: error: {told}\n")
    alone = tiny.write(tmp_path / "alone", test=False)
    assert "labels without names in alone" in refused(capsys, "evaluate", run, "--data", alone)
    narrow = tmp_path / "narrow"
    narrow.mkdir()
    for part in ("train", "test"):
        (narrow / f"{part}.txt").write_text("1 29 20\n1 2:1\n")
    said = refused(capsys, "evaluate", run, "--data", narrow)
    assert said == "narrow: found 29 features, expected 30, as in training"


def test_a_model_on_the_hub_is_no_folder_that_is_missing():
    command = Predict(Path("hf://owner/name"))
    assert with_local_copies(command) == command


def test_data_that_changed_since_training(tmp_path, capsys):
    folder, out = tiny.write(tmp_path / "data"), tmp_path / "run"
    call("train", folder, "--run-dir", out, *tiny.FLAGS)
    (folder / "test.txt").write_text(f"1 {tiny.FEATURES} {tiny.LABELS}\n1 2:1\n")
    assert "other content than when" in refused(capsys, "evaluate", out)
    # Ids without names may mean anything in other data.
    said = refused(capsys, "evaluate", out, "--data", folder)
    assert said.startswith("data: found labels without names in data, and other data than in")
    call("evaluate", out, "--data", folder, "--same-ids")
    # The same data elsewhere is the same data, and is found there from then on.
    moved = tiny.write(tmp_path / "moved")
    call("train", moved, "--run-dir", out, *tiny.FLAGS)
    call("evaluate", out)
