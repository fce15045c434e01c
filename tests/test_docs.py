"""The documentation builds without a broken link, and its code blocks run in their order."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import call

ROOT = Path(__file__).resolve().parents[1]
# In the order in which they build on each other.
PAGES = ("tutorial.md", "after.md", "theory.md", "formats.md")
BLOCK = re.compile(r"^```(python|sh)( no-run)?\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_the_site_builds_strictly(tmp_path):
    pytest.importorskip("mkdocs")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        tmp_path,
    ]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("index.html")}
    assert pages == {"index.html", "tutorial", "formats", "after", "theory"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of modules that the tutorial reads
def test_every_block_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    ran = {"python": 0, "sh": 0}
    for page in PAGES:
        for kind, skipped, text in BLOCK.findall((ROOT / "docs" / page).read_text()):
            if skipped:
                continue
            ran[kind] += 1
            if kind == "python":
                exec(compile(text, page, "exec"), scope)
                continue
            for line in text.splitlines():
                program, *words = line.split()
                assert program == "snm", line
                call(*words)
    assert ran == {"python": 7, "sh": 11}
    shown = capsys.readouterr().out
    answers = re.findall(r"^\['.*\]$", shown, re.MULTILINE)
    assert len(answers) == 2 and "path" in answers[0] and "math" in answers[1]
