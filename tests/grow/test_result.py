"""What a grown run says of itself."""

import json
import shutil

from command_line import call, refused

from snm.runs.folder import RunFolder
from snm.runs.manifest import read_manifest


def test_what_a_grown_run_says_of_itself(tiny_run, tmp_path, capsys):
    """No metrics: those of before are of another model. And what trains on from it."""
    (tmp_path / "new.txt").write_text("a\n")
    words = ("--labels", tmp_path / "new.txt", "--output", tmp_path / "grown")
    old = RunFolder(shutil.copytree(tiny_run / "run", tmp_path / "old"))
    held_out = {"monitor": "P@1", "steps": [1], "metrics": {"points": 1, "P@1": 0.0}}
    old.finish(old.read_result() | {"validation": held_out}, read_manifest(old.path).finished)
    call("grow", old.path, *words)
    said = capsys.readouterr().out
    result = json.loads((tmp_path / "grown" / "result.json").read_text())
    assert result["metrics"] == {} and "by_label_frequency" not in result
    assert "validation" not in result and result["grown_from"] == str(old.path)
    assert (
        f"--config {tmp_path / 'grown' / 'config.toml'} --warm-start {tmp_path / 'grown'}" in said
    )
    copy = shutil.copytree(tiny_run / "run", tmp_path / "run")
    RunFolder(copy).reopen()
    words = (*words[:-1], tmp_path / "other")
    assert "a run that is not finished" in refused(capsys, "grow", copy, *words)
