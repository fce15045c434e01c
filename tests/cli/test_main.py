"""The good road of the command line: what each verb prints and leaves behind."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib import metadata

import numpy as np
import pytest
import tiny
from command_line import call, contents, refused
from scipy import sparse

import snm
from snm.cli import main
from snm.cli import version as about
from snm.cli.main import parse
from snm.cli.table import VERBS
from snm.data.formats.repository_text.reader import read_text
from snm.data.formats.repository_text.writer import write_text
from snm.runs.events import Started


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


def test_a_verb_without_a_device_is_refused_in_one_line(tmp_path):
    words = [sys.executable, "-m", "snm", "train", "synthetic", "--run-dir", str(tmp_path / "run")]
    done = subprocess.run(
        words, env={**os.environ, "JAX_PLATFORMS": "no_such"}, capture_output=True, text=True
    )
    assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith(
        "snm: error: JAX_PLATFORMS=no_such: found Unable to initialize backend 'no_such'"
    )
    assert "Traceback" not in done.stderr


def test_an_error_that_is_not_of_the_device_is_raised(monkeypatch):
    def wrong(words):
        raise AssertionError("a fault")

    monkeypatch.setattr(main, "_run", wrong)
    with pytest.raises(AssertionError, match="a fault"):
        main.main(["train"])


def test_a_device_that_never_answers_does_not_hold_up_the_version(monkeypatch):
    monkeypatch.setattr(about, "_TIMEOUT", 0.2)
    monkeypatch.setattr(about, "_LIST_DEVICES", "import time; time.sleep(60)")
    assert about.version_lines()[-1] == "devices: jax did not answer within 0.2 s"
    monkeypatch.setattr(about, "_TIMEOUT", 60)
    monkeypatch.setattr(about, "_LIST_DEVICES", "import os; os.abort()")
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
    told = " ".join(shown.split())
    assert "485 parameters, 0 MiB" in told and "`snm plan` with the same settings" in told
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    for row in (["weighting", "tfidf", "auto"], ["epochs", "3", ""], ["preset", "default", ""]):
        assert row in rows
    said = refused(capsys, "train", data, "--run-dir", "run", "--dry-run", "--device-memory=much")
    assert said.startswith("--device-memory: found 'much', expected a size")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "of_epoch"),
    [
        (["--item-splits=2", "--validation-fraction=0.2"], 9),  # of 3 times 48 points
        (["--item-splits=0", "--seen=keep"], 3),  # of the 40 points that have labels
    ],
)
def test_dry_run_counts_the_steps_as_training_does(tmp_path, capsys, flags, of_epoch):
    rng = np.random.default_rng(0)
    items = sparse.csr_matrix(rng.random((60, 20)) < 0.3, dtype=np.float32)
    labels = items.copy()
    if of_epoch == 3:
        labels = sparse.vstack([items[:40], sparse.csr_matrix((20, 20), dtype=np.float32)], "csr")
    (folder := tmp_path / "shop").mkdir()
    write_text(folder / "train.txt", items, labels)
    words = ["train", str(folder), *tiny.FLAGS, *flags, f"--run-dir={tmp_path / 'run'}"]
    call(*words, "--dry-run")
    assert f"{of_epoch} steps an epoch, {3 * of_epoch} in all" in capsys.readouterr().out
    events = snm.training(folder, parse(words).settings, tmp_path / "run")
    started = next(event for event in events if isinstance(event, Started))
    events.close()  # before it compiles
    assert (started.steps_per_epoch, started.last_step) == (of_epoch, 3 * of_epoch)


def test_training_loads_as_several_processes_do(data, tmp_path, monkeypatch):
    """By what leaves on the disk the points that belong to others."""
    from snm.trainer import request

    asked = []
    load = request.load_together
    monkeypatch.setattr(
        request, "load_together", lambda source: asked.append(source) or load(source)
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


def test_evaluate_names_what_a_group_adds_to_the_precision(run, capsys):
    call("evaluate", run)
    told = capsys.readouterr().out.partition("rarest tenth first")[2]
    assert "recall@5 %" in told and "adds to P@5" in told and "precision" not in told
    result = json.loads((run / "result.json").read_text())
    adds = [group["precision"] for group in result["by_label_frequency"]]
    assert sum(adds) == pytest.approx(result["metrics"]["P@5"])


def test_an_interrupt_and_a_full_disk(data, tmp_path, capsys, monkeypatch):
    from snm.cli.train import verb

    def stop(error):
        def fail(*_, **__):
            raise error

        return fail

    monkeypatch.setattr(verb, "run_training", stop(KeyboardInterrupt()))
    call("train", data, "--run-dir", tmp_path / "run", status=130)
    assert capsys.readouterr().err == (
        "snm: error: interrupted; the same command goes on from the last checkpoint, "
        "if there is one\n"
    )
    monkeypatch.setattr(verb, "run_training", stop(OSError(28, "No space left on device")))
    call("train", data, "--run-dir", tmp_path / "run", status=1)
    assert capsys.readouterr().err == "snm: error: no space left on device\n"
