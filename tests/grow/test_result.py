"""What a grown run says of itself."""

import json
import shutil

from command_line import call, refused

from snm.runs.folder import RunFolder


def test_what_a_grown_run_says_of_itself(tiny_run, tmp_path, capsys):
    """No metrics: those of before are of another model. And what trains on from it."""
    (tmp_path / "new.txt").write_text("a\n")
    words = ("--labels", tmp_path / "new.txt", "--output", tmp_path / "grown")
    call("grow", tiny_run / "run", *words)
    said = capsys.readouterr().out
    result = json.loads((tmp_path / "grown" / "result.json").read_text())
    assert result["metrics"] == {} and "by_label_frequency" not in result
    assert result["grown_from"] == str(tiny_run / "run")
    assert (
        f"--config {tmp_path / 'grown' / 'config.toml'} --warm-start {tmp_path / 'grown'}" in said
    )
    copy = shutil.copytree(tiny_run / "run", tmp_path / "run")
    RunFolder(copy).reopen()
    words = (*words[:-1], tmp_path / "other")
    assert "a run that is not finished" in refused(capsys, "grow", copy, *words)
