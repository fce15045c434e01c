"""What a grown run says of itself."""

import json
import shutil

import tiny
from command_line import call, refused

from snm.runs.folder import RunFolder
from snm.runs.manifest import read_manifest


def test_what_a_grown_run_says_of_itself(tiny_run, tmp_path, capsys):
    """No metrics: those of before are of another model. And what trains on from it."""
    (tmp_path / "new.txt").write_text("a\n")
    words = ("--labels", tmp_path / "new.txt", "--out", tmp_path / "grown")
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
    RunFolder(copy).mark_unfinished()
    words = (*words[:-1], tmp_path / "other")
    assert "a run that is not finished" in refused(capsys, "grow", copy, *words)


def test_the_result_of_a_grown_run_names_its_data(tiny_run, tmp_path):
    """As its run.json does: those that it was grown with, or those of before."""
    run, data = tiny_run / "run", tmp_path / "more"
    shutil.copytree(tiny_run / "data", data)
    lines = (data / "train.txt").read_text().splitlines()
    lines[0] = f"{tiny.POINTS - 1} {tiny.FEATURES} {tiny.LABELS + 1}"
    (data / "train.txt").write_text("\n".join(lines[:-1]) + "\n")
    (data / "test.txt").unlink()
    (tmp_path / "new.txt").write_text("a\n")
    for more, points in ((("--data", data), tiny.POINTS - 1), ((), tiny.POINTS)):
        out = tmp_path / f"grown-{points}"
        call("grow", run, "--labels", tmp_path / "new.txt", "--out", out, *more)
        facts = json.loads((out / "run.json").read_text())
        said = json.loads((out / "result.json").read_text())["data"]
        assert (said["source"], said["sha256"]) == (facts["data"], facts["sha256"])
        assert said["points"] == points
