"""Processes that were started differently all end before the first step, with one line."""

import shutil

import pytest
import tiny
from runs.processes.several_processes import ended, start

from snm.trainer.start.same_command import check_same_command, check_same_settings


def test_one_process_agrees_with_itself(tmp_path):
    check_same_command("synthetic", tiny.CONFIG, tmp_path / "run", {})
    check_same_settings(tiny.CONFIG, None)
    assert not list(tmp_path.iterdir())


def refused(processes, told):
    for status, said in ended(processes, within=400):
        assert status == 2, said
        assert said.splitlines()[-1].startswith(f"snm: error: {told}"), said


@pytest.mark.slow
def test_other_settings_are_refused_by_all(data, tmp_path):
    run = tmp_path / "run"
    own = {1: ("--learning-rate=0.25", "--seed=7")}
    refused(
        start(data, run, "--mesh=data=2", own=own),
        "process 1: found learning_rate = 0.25, seed = 7, "
        "expected learning_rate = 1.0, seed = 0 as in process 0: start the same command",
    )
    assert not run.exists()


APART = """
import os, sys
from snm.cli.main import main

folder = sys.argv.pop(1)
number = next(word[-1] for word in sys.argv if word.startswith("--process-id="))
os.chdir(f"{folder}/{number}")
os.environ["SNM_CACHE"] = f"{folder}/{number}/cache"
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_other_data_are_refused_by_all(data, tmp_path):
    """At the same path, on a disk of each process."""
    run = tmp_path / "run"
    lines = (data / "train.txt").read_text().splitlines(keepends=True)
    for number in range(2):
        shutil.copytree(data, tmp_path / str(number) / "tiny")
    (tmp_path / "1" / "tiny" / "train.txt").write_text("".join([lines[0], *lines[:0:-1]]))
    processes = start("tiny", run, "--mesh=data=2", program=("-c", APART, str(tmp_path)))
    refused(processes, "process 1: found SHA-256 of the data = ")
    assert not run.exists()
