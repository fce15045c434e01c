"""The command line: bad input is one line and status 2, good input does what the README says."""

import contextlib
import gzip
import json
import os
import platform
import pty
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import tiny
from command_line import call, refused
from scipy import sparse

import snm
from snm.cli import version as about
from snm.cli.evaluate import print_metrics
from snm.cli.main import on_this_machine
from snm.cli.predict import Predict
from snm.cli.table import VERBS
from snm.cli.train import _Display
from snm.data.formats.dispatch import iter_features, read_text
from snm.runs.events import Started, Stepped
from snm.system.terminal import progress_bar

HEADER = f"{tiny.POINTS} {tiny.FEATURES} {tiny.LABELS}"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.write(tmp_path_factory.mktemp("data") / "tiny", names=True)


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    """A finished run."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    call("train", data, "--run-dir", folder, *tiny.FLAGS)
    return folder


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- bad input -------------------------------------------------------------------------------


def changed(number, line):
    """The training file with another line `number` (the header is 1); None leaves it out."""
    lines = [HEADER, *tiny.rows(tiny.POINTS, 0)]
    lines[number - 1 : number] = [] if line is None else [line]
    return "\n".join(lines) + "\n"


BAD_FILES = {
    "no header": (changed(1, None), 1, "header `points features labels`"),
    "wrong header": (changed(1, "60 30"), 1, "2 numbers"),
    "words for a header": (changed(1, "60 30 many"), 1, "header"),
    "index out of range": (changed(3, "1 30:1"), 3, "feature index 30, expected an index from 0"),
    "label out of range": (changed(3, "20 3:1"), 3, "label index 20, expected an index from 0"),
    "negative index": (changed(4, "1 -2:1"), 4, "negative feature index -2"),
    "not a number": (changed(5, "1 2:x"), 5, "value 'x', expected a number"),
    "NaN": (changed(6, "1 2:nan"), 6, "value 'nan', expected a finite"),
    "infinite": (changed(7, "1 2:inf"), 7, "value 'inf', expected a finite"),
    "too large": (changed(7, "1 2:1e39"), 7, "value '1e39', expected a finite"),
    "fewer rows": (changed(61, None), None, "59 rows, expected 60"),
    "more rows": (changed(61, "1 2:1\n2 3:1"), 62, "row 61, expected 60 rows"),
    "duplicate feature": (changed(8, "1 2:1 2:2"), 8, "feature 2 twice"),
    "empty file": ("", 1, "an empty file"),
}


@pytest.mark.parametrize("what", BAD_FILES)
@pytest.mark.parametrize("part", ["train", "test"])
def test_bad_files_are_named_with_their_line(tmp_path, capsys, what, part):
    text, line, found = BAD_FILES[what]
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
    assert said.endswith(f": `snm data import {texts} --out DATA` makes one of a file")
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
        "snm export: found no --to and no --output, "
        "expected --to {npy,npz,safetensors,hub,faiss,hnswlib} and --output PATH",
    ),
    ("train", "snm train: found no DATA and no --run-dir, expected DATA and --run-dir PATH"),
    (
        "data stats",
        "snm data stats: found no DATA, expected DATA: Folder of the data set, or `synthetic`",
    ),
    (
        "data",
        "snm data: found no command, expected one of stats, synth, import, list, fetch",
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


def test_another_run_is_never_overwritten(data, run, tmp_path, capsys):
    before = contents(run)
    again = ["train", data, "--run-dir", run, *tiny.FLAGS]
    said = refused(capsys, *again, "--dim=9")
    assert said == f"{run}: found a run with dim = 8, expected 9: choose another --run-dir"
    assert "warm_start" in refused(capsys, *again, "--warm-start", run).replace("-", "_")
    said = refused(capsys, *again, "--epochs=1")
    assert said == (
        "--epochs: found 3 epochs done (12 steps), expected no fewer than these (1 asked, 4 steps)"
    )
    other = tiny.write(tmp_path / "other")
    (other / "train.txt").write_text(changed(2, "1 2:1"))
    said = refused(capsys, "train", other, "--run-dir", run, *tiny.FLAGS)
    assert f"a run on other data ({data})" in said
    assert contents(run) == before


def test_warm_start_from_other_shapes_writes_nothing(data, run, tmp_path, capsys):
    out = tmp_path / "run"
    words = ["train", data, "--run-dir", out, *tiny.FLAGS, "--warm-start", run]
    said = refused(capsys, *words, "--dim=9")
    assert "dim 8" in said and "dim 9" in said
    said = refused(capsys, *words, "--no-bias")
    assert "without bias" in said and "with bias" in said
    assert not out.exists()


def test_bad_predictions(data, run, tmp_path, capsys):
    wide, out = tmp_path / "wide.txt", tmp_path / "answers.jsonl"
    wide.write_text("1 31 20\n1 2:1\n")
    said = refused(capsys, "predict", run, wide, "--output", out)
    assert said == f"{wide}:1: found a header of 31 features, expected 30"
    test = data / "test.txt"
    missing = tmp_path / "none" / "answers"
    said = refused(capsys, "predict", run, test, "--output", missing)
    assert (
        said == f"--output {missing}: found no such folder, expected a file in a folder that exists"
    )
    assert "a folder" in refused(capsys, "predict", run, test, "--output", tmp_path)
    assert "--output /proc/x: found" in refused(capsys, "predict", run, test, "--output", "/proc/x")
    for k in (0, 21, 100_000):
        said = refused(capsys, "predict", run, test, "--k", k)
        assert said == f"--k: found {k}, expected 1 to 20 labels"
    assert "no config.toml" in refused(capsys, "predict", data, test, "--output", out)
    late = tmp_path / "late.txt"
    late.write_text("2 30 20\n1 2:1\n1 2:nan\n")
    assert refused(capsys, "predict", run, late, "--output", out).startswith(f"{late}:3: found")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["late.txt", "wide.txt"]


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
    assert on_this_machine(command) == command


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


# -- the good road ---------------------------------------------------------------------------


def test_help_is_quick():
    """No verb imports jax, NumPy, rich or a library that needs them to say what it does."""
    code = (
        "import contextlib, sys\n"
        "from snm.cli import main, table\n"
        "lines = [[], ['data'], *(verb.words.split() for verb in table.VERBS)]\n"
        "for words in [*([*line, '--help'] for line in lines), ['--version']]:\n"
        "    try: main.main(words)\n"
        "    except SystemExit as stop: assert not stop.code\n"
        "slow = {'jax', 'flax', 'orbax', 'numpy', 'scipy', 'sklearn', 'matplotlib', 'rich'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage: snm") == 2 + len(VERBS)
    assert f"snm {snm.__version__}" in done.stdout


@pytest.mark.parametrize(
    ("platforms", "said"),
    [("cpu", r"devices: \d+ x cpu \(cpu\)"), ("no_such", "devices: none, jax cannot start: .*")],
)
def test_version_tells_devices_and_survives_broken_ones(monkeypatch, capsys, platforms, said):
    monkeypatch.setenv("JAX_PLATFORMS", platforms)
    call("--version")
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == f"snm {snm.__version__}"
    assert second.startswith(f"jax {metadata.version('jax')}, jaxlib {metadata.version('jaxlib')}")
    assert f"Python {platform.python_version()}" in second
    assert re.fullmatch(said, third)


def test_a_device_that_never_answers_does_not_hold_up_the_version(monkeypatch):
    monkeypatch.setattr(about, "_START", 0.2)
    monkeypatch.setattr(about, "_LOOK", "import time; time.sleep(60)")
    assert about.version_lines()[-1] == "devices: jax did not answer within 0.2 s"
    monkeypatch.setattr(about, "_START", 60)
    monkeypatch.setattr(about, "_LOOK", "import os; os.abort()")
    assert "jax cannot start: exit status -6" in about.version_lines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("snm tr", {"train"}),
        ("snm data f", {"fetch"}),
        ("snm train x --learning", {"--learning-rate"}),
    ],
)
def test_completion_of_bash(tmp_path, line, expected):
    """What the shell would offer, asked of a real one."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    script = subprocess.run([sys.executable, "-m", "snm", "--tyro-print-completion", "bash"],
                            capture_output=True, text=True, check=True).stdout  # fmt: skip
    (tmp_path / "snm").write_text(script)
    words = line.split()
    asked = (
        f"source {tmp_path / 'snm'}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
        f"_tyro_snm snm {words[-1]} {words[-2]}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run([bash, "-c", asked], capture_output=True, text=True, check=True)
    assert {word.strip() for word in done.stdout.splitlines()} == expected


def test_synth_and_stats(tmp_path, capsys):
    out = tmp_path / "made [/up]"
    call("data", "synth", out, "--points=50", "--test-points=10", "--features=40", "--labels=12",
         "--labels-per-point=2", "--nonzeros-per-point=5")  # fmt: skip
    assert str(out) in capsys.readouterr().out
    features, labels = read_text(out / "train.txt")
    assert (features.shape, labels.shape) == ((50, 40), (50, 12))
    assert sorted(path.name for path in out.iterdir()) == ["test.txt", "train.txt"]
    call("data", "stats", out, "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["train_points"] == 50 and found["labels"] == 12
    call("data", "stats", out)
    assert "train points" in (told := capsys.readouterr().out)
    assert f"\nSHA-256 {found['sha256']}\n" in told
    call("data", "synth", tmp_path / "alone", "--points=5", "--test-points=0", "--features=9",
         "--labels=5", "--labels-per-point=1", "--nonzeros-per-point=2")  # fmt: skip
    assert [path.name for path in (tmp_path / "alone").iterdir()] == ["train.txt"]


def test_dry_run_writes_nothing(data, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call("train", data, "--run-dir", "run", *tiny.FLAGS, "--dry-run")
    shown = capsys.readouterr().out
    assert "4 steps an epoch, 12 in all" in shown and "learning_rate" in shown
    assert list(tmp_path.iterdir()) == []


def test_training_loads_as_several_processes_do(data, tmp_path, monkeypatch):
    """By what leaves on the disk the points that belong to others."""
    from snm.distributed import dataset as shares

    asked = []
    load = shares.load_together
    monkeypatch.setattr(
        shares, "load_together", lambda source: asked.append(source) or load(source)
    )
    call("train", data, "--run-dir", tmp_path / "run", *tiny.FLAGS, "--dry-run")
    assert asked == [str(data)]


def test_what_a_run_leaves_behind(run, data):
    names = {path.name for path in run.iterdir()}
    assert names == {"config.toml", "run.json", "weighting.npz", "labels.txt", "log.jsonl",
                     "tensorboard", "checkpoints", "result.json", "manifest.json",
                     ".lock"}  # fmt: skip
    result = json.loads((run / "result.json").read_text())
    wanted = {"metrics", "data", "seconds", "examples_per_second", "peak_memory_bytes", "versions",
              "device"}  # fmt: skip
    assert wanted <= set(result)
    assert result["data"]["sha256"] == snm.load_data(data).sha256
    assert result["versions"]["jax"] and result["peak_memory_bytes"] > 10**7
    metrics = result["metrics"]
    for measure in ("P", "R", "nDCG", "PSP", "PSnDCG"):
        assert all(0 <= metrics[f"{measure}@{k}"] <= 100 for k in (1, 3, 5))
    # In percent: two labels a point, of which a trained model finds many among five answers.
    assert metrics["points"] == tiny.TEST_POINTS and metrics["R@5"] > 30
    assert snm.read_config(run / "config.toml").dim == 8


def test_the_same_command_again_answers_at_once(run, data, capsys):
    before = contents(run)
    call("train", data, "--run-dir", run, *tiny.FLAGS)
    after = contents(run)
    assert after.pop(run / "run.json") and before.pop(run / "run.json")
    changed_files = [path.name for path in after if after[path] != before.get(path)]
    # Its members carry the time of writing.
    assert changed_files in ([], ["weighting.npz"])
    assert "nDCG" in capsys.readouterr().out


def test_a_runs_own_config_under_flags(run, data, tmp_path):
    """Every key is in config.toml, so flags over it are all that differs."""
    out = tmp_path / "run"
    call("train", data, "--run-dir", out, "--config", run / "config.toml", "--epochs=1")
    old, new = (snm.read_config(folder / "config.toml") for folder in (run, out))
    assert (old.epochs, new.epochs) == (3, 1)
    assert {k: v for k, v in vars(new).items() if k != "epochs"} == {
        k: v for k, v in vars(old).items() if k != "epochs"
    }


def test_evaluate_says_what_train_said(run, data, capsys):
    call("evaluate", run, "--json")
    found = json.loads(capsys.readouterr().out)
    result = json.loads((run / "result.json").read_text())
    assert found["metrics"] == result["metrics"]
    assert found["by_label_frequency"] == result["by_label_frequency"]
    call("evaluate", run, "--data", data)
    assert f"{result['metrics']['P@1']:.2f}" in capsys.readouterr().out


def test_training_prints_the_mean_loss_of_all_points(capsys):
    """A short last batch weighs by its points: (3 * 16 * 1 + 12 * 6) / 60 = 2."""
    display = _Display(progress_bar())
    display.show(Started("train", 0, 4, 4, 60))
    for step, (points, loss) in enumerate([(16, 1.0), (16, 1.0), (16, 1.0), (12, 6.0)], start=1):
        display.show(Stepped(step, points, loss, seconds=0.5))
    assert "epoch   1 of 1   loss   2.0000" in capsys.readouterr().out


def test_training_names_the_first_of_several_members(capsys):
    for members, names in ((1, ["train", "refit"]), (2, ["member-1", "refit-1", "member-2"])):
        display = _Display(progress_bar(), members)
        for phase in ("train", "refit", "member-2")[: len(names)]:
            display.show(Started(phase, 1_211, 4_000, 4, 60))
        told = [line for line in capsys.readouterr().out.splitlines() if "going on" in line]
        assert told == [f"{name}: going on from step 1,211 of 4,000" for name in names]


@pytest.mark.parametrize(("at_once", "left"), [(1, "2.9 min"), (2, "1.9 min"), (3, "56 s")])
def test_training_says_what_its_steps_will_take(at_once, left, capsys):
    """Steps 2 and 3 of 40 take 3 s: 1.5 s for each of 37 steps, and of 40 for every round more."""
    display = _Display(progress_bar(), members=3, members_at_once=at_once)
    display.show(Started("train", 0, 40, 4, 60))
    for step in range(1, 6):
        display.show(Stepped(step, 16, 1.0, seconds=9.0 if step == 1 else 1.0 + step % 2))
    told = capsys.readouterr().out
    assert told.count("left") == 1
    assert f"about {left} of steps left: 3 members of 10 epochs" in told


def test_evaluate_names_what_a_group_adds_to_the_precision(run, capsys):
    call("evaluate", run)
    told = capsys.readouterr().out.partition("rarest tenth first")[2]
    assert "recall@5 %" in told and "adds to P@5" in told and "precision" not in told
    result = json.loads((run / "result.json").read_text())
    adds = [group["precision"] for group in result["by_label_frequency"]]
    assert sum(adds) == pytest.approx(result["metrics"]["P@5"])


def test_a_bar_says_what_it_waits_for():
    """Before the first step: that things are prepared, and then that programs are compiled."""
    bar = progress_bar()
    display = _Display(bar)
    assert [(task.description, task.visible) for task in bar.tasks] == [("preparing", True)]
    display.show(Started("train", 0, 4, 4, 60))
    assert [task.description for task in bar.tasks] == ["train: compiling"]
    display.show(Stepped(1, 16, 0.25, seconds=9.0))  # most of them of compiling: no rate yet
    assert bar.tasks[0].description == "epoch 1 loss 0.2500"
    display.show(Stepped(3, 32, 0.25, seconds=0.5))
    assert bar.tasks[0].description == "epoch 1 loss 0.2500 64/s"  # 32 points in 0.5 s


@pytest.mark.slow
def test_train_says_that_it_starts_before_it_reads(data, tmp_path):
    """On a terminal, as imports alone take seconds."""
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "snm", "train", data, "--run-dir", tmp_path / "run", *tiny.FLAGS]
    with subprocess.Popen([*argv, "--epochs=1"], stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        told = b""
        with contextlib.suppress(OSError):  # Linux: the other end is closed
            while piece := os.read(ours, 4096):
                told += piece
        os.close(ours)
    assert process.returncode == 0
    at = [told.find(word) for word in (b"starting", b"reading", b"planning", b"compiling")]
    assert at == sorted(at) and at[0] >= 0


def test_groups_without_labels_are_not_shown(capsys):
    """Three labels fill three of ten groups."""
    group = {"labels": 1, "occurrences": 4, "recall": 50.0, "precision": 12.5}
    empty = {"labels": 0, "occurrences": 0, "recall": 0.0, "precision": 0.0}
    metrics = {"P@1": 50.0, "points": 9, "points_without_labels": 0}
    groups = [group, *[empty] * 3, group, *[empty] * 4, group]
    print_metrics({"metrics": metrics, "by_label_frequency": groups}, "title")
    shown = capsys.readouterr().out
    assert shown.count("12.5") == 3 and " 0.00 " not in shown


def test_one_is_no_plural(capsys):
    counts = {"P@1": 50.0, "points": 9, "points_without_labels": 1}
    repeats = {**counts, "points": 8}
    print_metrics({"metrics": counts, "without_repeats": repeats}, "run: test points")
    said = " ".join(capsys.readouterr().out.split())
    assert "without 1 test point equal to a training point (8)" in said
    assert "left out: 1 point without labels" in said


def test_titles_have_thousands_commas(capsys):
    counts = {"P@1": 50.0, "points": 5816, "points_without_labels": 0}
    print_metrics({"metrics": counts}, "run: test points")
    assert "run: test points (5,816)" in " ".join(capsys.readouterr().out.split())


def test_predict(run, data, tmp_path):
    test, lines, table = data / "test.txt", tmp_path / "a.jsonl", tmp_path / "a.txt"
    features, _ = read_text(test)
    labels, scores = snm.predict(run, features, k=4)
    call("predict", run, test, "--k=4", "--output", lines)
    answers = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [answer["labels"] for answer in answers] == labels.tolist()
    assert answers[0]["names"] == [f"name {label}" for label in labels[0]]
    np.testing.assert_allclose([a["scores"] for a in answers], scores, atol=1e-6)
    assert (np.diff(scores) <= 0).all()

    call("predict", run, test, "--k=4", "--output", table, "--format=sparse")
    assert table.read_text().split("\n")[0].split() == [str(tiny.TEST_POINTS), str(tiny.LABELS)]
    (again,) = iter_features(table, tiny.LABELS)
    expected = np.zeros((tiny.TEST_POINTS, tiny.LABELS))
    np.put_along_axis(expected, labels, scores, axis=1)
    np.testing.assert_allclose(again.toarray(), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["x.txt", "x.txt.gz", "x.npz", "x.npy"])
def test_predict_reads_every_form(run, data, tmp_path, name):
    features, _ = read_text(data / "test.txt")
    source, out = tmp_path / name, tmp_path / "answers"
    if name.endswith("npz"):
        sparse.save_npz(source, features)
    elif name.endswith("npy"):
        np.save(source, features.toarray())
    else:
        text = (data / "test.txt").read_bytes()
        source.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    out.write_text("an older file is replaced")
    call("predict", run, source, "--output", out)
    labels, _ = snm.predict(run, features)
    assert labels.shape[1] == 5
    answers = [json.loads(line)["labels"] for line in out.read_text().splitlines()]
    assert answers == labels.tolist()


def test_an_interrupt_and_a_full_disk(data, tmp_path, capsys, monkeypatch):
    from snm.cli import train

    def stop(error):
        def fail(*_, **__):
            raise error

        return fail

    monkeypatch.setattr(train, "run_training", stop(KeyboardInterrupt()))
    call("train", data, "--run-dir", tmp_path / "run", status=130)
    assert capsys.readouterr().err == (
        "snm: error: interrupted; the same command goes on from the last checkpoint\n"
    )
    monkeypatch.setattr(train, "run_training", stop(OSError(28, "No space left on device")))
    call("train", data, "--run-dir", tmp_path / "run", status=1)
    assert capsys.readouterr().err == "snm: error: [Errno 28] No space left on device\n"
