"""`snm compare`: its options, and runs that resume after a kill."""

import dataclasses
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tiny
from compare.campaigns import end_runs_at_once, small_arms
from compare.comparison import arm, results

import snm
from snm.cli.main import main
from snm.compare.arms import BASELINE
from snm.compare.campaign import Campaign
from snm.compare.cli import Compare
from snm.compare.jobs import Job, read_result, run_jobs
from snm.compare.progress import Display
from snm.compare.report.flat import results_csv
from snm.compare.report.markdown import markdown
from snm.compare.report.tables import all_sheets
from snm.compare.report.terminal import layout_tables
from snm.config.resolve import resolve
from snm.config.settings import read_config
from snm.runs.folder import read_json
from snm.system.files.locks import LOCK, locked

TOML = """
epochs = 2
batch_size = 16
sampled = 8
learning_rate = 1.0
dim = 8
schedule = "constant"
"""


def command(folder, out, *more):
    """The words of a comparison of short runs."""
    short = out.with_name("short.toml")
    short.write_text(TOML)
    return ["compare", str(folder), "--out", str(out), "--config", str(short), *more]


# -- options -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--extras", "aneal"], "--extras: found 'aneal', expected for example anneal"),
        (["--mined", "3", "3"], "--mined: found 3 twice"),
        (["--losses", "bowls"], "--losses: found 'bowls', expected bowl or powl or"),
        (
            ["--extras", "frequency", "--sampled", "all"],
            "--extras frequency: found frequency with all 19 other labels as negatives, "
            "expected fewer --sampled, or no such arm",
        ),
        (["--mined", "9"], "found 9 mined of 8 sampled labels"),
        (["--seeds", "0"], "--seeds: found 0, expected 1 or more"),
        (["--tune-epochs", "0"], "--tune-epochs: found 0"),
        (["--tune-epochs", "3"], "--tune-epochs: found no --tune"),
        (["--peers", "omikiji"], "omikuji"),
        (["--tunes"], "unknown option"),
    ],
)
def test_bad_options(folder, tmp_path, capsys, flags, expected):
    with pytest.raises(SystemExit) as error:
        main(command(folder, tmp_path / "out", *flags))
    assert error.value.code == 2
    said = capsys.readouterr().err
    assert expected in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_default_numbers_of_mined_labels_fit_the_data(folder, tmp_path, monkeypatch, capsys):
    """20 labels have 19 others to sample; a number that is asked for is refused as ever."""
    planned = []
    monkeypatch.setattr(Campaign, "run", lambda self, _: planned.append(self.arms) or sys.exit(0))
    words = ["compare", str(folder), "--out", str(tmp_path / "out")]
    (tmp_path / "rising.toml").write_text("sampled_start = 8")
    rising = ["--config", str(tmp_path / "rising.toml")]
    for more, names, said in (
        ([], [BASELINE, "top-1", "top-16"], "64 and 256, as B is 19"),
        (["--sampled=16"], [BASELINE, "top-1"], "16 and 64 and 256, as B is 16"),
        (rising, [BASELINE, "top-1"], "16 and 64 and 256, as B is 8 at some steps"),
    ):
        with pytest.raises(SystemExit) as error:
            main([*words[:-1], str(tmp_path / f"out{len(more)}"), *more])
        assert error.value.code == 0
        assert [arm.name for arm in planned.pop()] == names
        assert f"note: --mined without {said}\n" == capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*words, "--mined", "1", "64"])
    assert "--mined: found 64 of 19 sampled labels" in capsys.readouterr().err


def test_settings_that_a_comparison_has_of_its_own_are_refused(folder, tmp_path, capsys):
    path, out = tmp_path / "own.toml", tmp_path / "out"
    words = [*command(folder, out, "--mined", "3"), "--config", str(path)]
    stopping = "validation_fraction = 0.1\npatience = 2\nrefit = true"
    for lines, found in (
        ("members = 3", "members: found 3, expected 1, as"),
        (stopping, "validation_fraction: found 0.1, expected 0.0, as"),
        ("seed = 7", "seed: found 7, expected 0, as"),
    ):
        path.write_text(TOML + lines)
        with pytest.raises(SystemExit) as error:
            main(words)
        assert error.value.code == 2
        said = capsys.readouterr().err
        assert said.startswith(f"snm: error: {path}: {found}") and said.count("\n") == 1
    assert not out.exists()
    # As in the settings of a run, which are all in its file; and those of a preset may differ.
    path.write_text(TOML + "members = 1\nseed = 0")
    assert Compare("tiny", out, config=path, preset="default").base().members == 1
    path.write_text(TOML)
    assert Compare("tiny", out, config=path, preset="default").base().members == "auto"


def test_data_without_test_points(tmp_path, capsys):
    tiny.write(tmp_path / "data", test=False)
    with pytest.raises(SystemExit) as error:
        main(["compare", str(tmp_path / "data"), "--out", str(tmp_path / "out")])
    assert error.value.code == 2
    assert "no test points" in capsys.readouterr().err


def test_epochs_at_equal_time_are_of_the_settings_that_were_timed(dataset, tmp_path):
    """The k' of an extra is the one of --mined nearest to 16, and so may change when it goes on."""

    def epochs_of(mined, seconds):
        arms = small_arms(mined=mined, extras=["anneal"], epochs=2)
        campaign = Campaign("tiny", dataset, arms, tmp_path, equal_seconds=True)
        first = [{"name": arm.name, "seconds": s} for arm, s in zip(arms, seconds, strict=True)]
        return {arm.name: arm.config.epochs for arm in campaign._arms_at_equal_time(first)}

    # As many times 2 epochs as the seconds of the arm are in those of the first.
    before = {BASELINE: 2, "top-1": 4, "top-4": 8, "anneal": 6}
    assert epochs_of((1, 4), (12.0, 6.0, 3.0, 4.0)) == before
    assert epochs_of((1,), (12.0, 3.0, 2.0)) == {BASELINE: 2, "top-1": 4, "anneal": 12}
    assert epochs_of((1, 4), (24.0, 6.0, 3.0, 4.0)) == before


# -- runs ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_comparison_end_to_end_and_its_repetition(folder, tmp_path, capsys):
    out = tmp_path / "out"
    words = command(folder, out, "--mined", "3", "--seeds", "1", "--no-equal-seconds")
    with pytest.raises(SystemExit) as error:
        main(words)
    assert error.value.code == 0
    results = read_json(out / "results.json")
    assert [arm["name"] for arm in results["arms"]] == [BASELINE, "top-3"]
    arm = results["arms"][1]
    assert (arm["sampled"], arm["mined"], arm["epochs"]) == (8, 3, 2)
    (seed,) = arm["seeds"]
    assert arm["mean"]["R@1"] == seed["metrics"]["R@1"]
    base = results["arms"][0]["mean"]["R@1"]
    assert arm["ratio"]["R@1"] == pytest.approx(seed["metrics"]["R@1"] / base)
    assert arm["ci95"]["R@1"] is None
    assert [look["step"] for look in seed["probes"]] == [0, 4, 8]
    assert seed["probes"][-1]["test"]["R@1"] == pytest.approx(seed["metrics"]["R@1"])
    assert seed["bounds"]["test_risk"] == pytest.approx(1 - seed["metrics"]["R@1"] / 100)
    assert len(seed["bounds"]["theorem_6"]) == 8
    text = (out / "table.md").read_text()
    assert text == markdown(results)
    assert (out / "results.csv").read_text() == results_csv(results)
    assert "## Generalization bounds" in text
    assert f"| top-3 | 3 of 8 | {seed['metrics']['R@1']:.2f} " in text
    assert results["data"]["sha256"] in (out / "report.html").read_text()
    # Training with the same settings outside of a comparison gives the same metrics.
    base = dataclasses.replace(snm.preset("paper"), mined="all")
    settings = dataclasses.replace(read_config(tmp_path / "short.toml", base=base), mined=3)
    alone = snm.train(folder, settings, tmp_path / "alone")
    assert alone["metrics"] == seed["metrics"]

    runs = {path.name: path.stat().st_mtime_ns for path in (out / "runs").iterdir()}
    with pytest.raises(SystemExit):
        main(words)
    assert runs == {path.name: path.stat().st_mtime_ns for path in (out / "runs").iterdir()}
    assert read_json(out / "results.json")["arms"] == results["arms"]
    capsys.readouterr()
    with pytest.raises(SystemExit) as error:
        main([*words, "--epochs", "3", "--seeds", "2"])
    assert error.value.code == 2
    assert "epochs = 2" in capsys.readouterr().err


def test_a_failed_run_is_reported_and_retried(folder, dataset, tmp_path):
    base = dataclasses.replace(snm.preset("paper"), epochs=1, dim=8, sampled=8, mined=3)
    good = Job("good", resolve(base, dataset), "test")
    overflows = dataclasses.replace(base, phi="exponential", score_scale=1e4)
    bad = Job("bad", resolve(overflows, dataset), "test")
    standing = list(run_jobs(str(folder), tmp_path, [bad, good, good], 2))
    assert (standing[-1].done, standing[-1].total) == (2, 2)
    assert read_result(tmp_path, good)["metrics"]["points"] == tiny.TEST_POINTS
    assert "not finite" in read_result(tmp_path, bad)["error"]
    # A result is kept, a failure is retried.
    again = next(run_jobs(str(folder), tmp_path, [bad, good], 1))
    assert (again.done, again.working) == (1, [("bad (seed 0)", 0, 0)])


def test_runs_at_once_of_one_arm_are_all_shown(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr("snm.compare.jobs._start", lambda *_: subprocess.Popen(["cat"], stdin=-1))
    settings = dict(epochs=1, dim=8, sampled=8, mined=3)
    base = resolve(dataclasses.replace(snm.preset("paper"), **settings), dataset)
    jobs = [Job("top-3", dataclasses.replace(base, seed=n), "test") for n in (0, 1)]
    running = run_jobs("unused", tmp_path, jobs, 2)
    (tmp_path / f"{jobs[0].name}.steps").write_text("3 12")
    display = Display()
    display("runs", next(running))
    running.close()
    (task,) = display.bar.tasks
    assert task.description == "runs: top-3 (seed 0) 25%, top-3 (seed 1)"


def test_tables_show_failures():
    found = all_sheets(results(arm(BASELINE, [None]), seeds=1, equal_seconds=[]))
    assert all(list(layout_tables(sheet, 80)) for sheet in found)
    failed = next(sheet for sheet in found if sheet.title == "Failed")
    assert failed.rows == ((BASELINE, "0", "loss is not finite"),)
    assert found[0].rows[0][2:] == ("-",) * 6


@pytest.mark.parametrize(
    ("failing", "status", "said", "error"),
    [
        ((), 0, "", ""),
        (("top-3",), 0, "1 of 2 runs failed; the report says why\n", ""),
        ((BASELINE, "top-3"), 1, "", "snm: error: all 2 runs failed; {report} says why\n"),
    ],
)
def test_how_many_runs_failed_is_said_last(
    folder, tmp_path, monkeypatch, capsys, failing, status, said, error
):
    good, bad = {"metrics": {"R@1": 1.0}}, {"error": "not finite"}
    end_runs_at_once(monkeypatch, lambda job: bad if job.arm in failing else good)
    out = tmp_path / "out"
    more = ("--mined", "3", "--seeds", "1", "--no-equal-seconds")
    with pytest.raises(SystemExit) as end:
        main(command(folder, out, *more))
    report = out / "report.html"
    told = capsys.readouterr()
    assert (end.value.code, told.err) == (status, error.format(report=report))
    assert told.out.endswith(f"\n{report}\n{said}") and report.exists()


TWO_TRIALS = """
import sys
from snm.cli.main import main
from snm.compare import arms

grid = arms.tuning_grid
arms.tuning_grid = lambda config: grid(config)[:2]
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_comparison_killed_twice_gives_the_same_results(folder, tmp_path):
    more = ["--mined", "3", "--seeds", "1", "--no-equal-seconds", "--tune", "--tune-epochs", "1",
            "--jobs", "2"]  # fmt: skip
    said = tmp_path / "errors.txt"

    def start(out):
        words = [sys.executable, "-c", TWO_TRIALS, *command(folder, out, *more)]
        with said.open("w") as errors:
            return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=errors)

    whole = start(tmp_path / "whole")
    begun = time.monotonic()
    assert whole.wait() == 0, said.read_text()
    seconds = time.monotonic() - begun
    rng = np.random.default_rng(5)
    for _ in range(2):
        broken = start(tmp_path / "broken")
        time.sleep(rng.uniform(2, seconds / 2))
        if broken.poll() is None:
            os.kill(broken.pid, signal.SIGKILL)
            broken.wait()
    last = start(tmp_path / "broken")
    assert last.wait() == 0, said.read_text()

    def metrics(out):
        results = read_json(out / "results.json")
        assert all(len(about["trials"]) == 2 for about in results["tuning"].values())
        tables = [[(arm["name"], arm["mean"], arm["ci95"], arm["ratio"], arm["ratio_ci95"])
                   for arm in results[part]] for part in ("arms", "tuned")]  # fmt: skip
        return tables, {name: about["best"] for name, about in results["tuning"].items()}

    assert metrics(tmp_path / "broken") == metrics(tmp_path / "whole")


def test_a_folder_of_other_files_is_left_as_it_was(folder, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/notes.txt").write_text("mine")
    with pytest.raises(SystemExit) as error:
        main(command(folder, tmp_path / "out", "--mined", "3", "--seeds", "1"))
    assert error.value.code == 2
    assert "notes.txt in a folder that is no comparison" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["notes.txt"]


def test_another_process_in_the_folder_is_refused(folder, tmp_path, capsys):
    words = command(folder, tmp_path / "out", "--mined", "3", "--seeds", "1")
    with locked(tmp_path / "out" / LOCK, "test"), pytest.raises(SystemExit) as error:
        main(words)
    assert error.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(
        f"snm: error: --out {tmp_path / 'out'}: found a folder in use by process"
    )
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]
