"""An experiment that was broken off goes on: its file has each run that ended, once."""

import json

import pytest

from experiments.shared.kept_runs import KeptRuns
from snm.errors import InputError


def test_each_run_is_written_at_once_and_found_again(tmp_path):
    out = tmp_path / "runs.json"
    kept = KeptRuns(out, under="cells", split="test")
    assert not kept.rows and not kept.has(data="a", seed=0) and not out.exists()
    kept.add(data="a", seed=0, settings={"dim": 4}, metrics={"P@1": 50.0})
    kept.add(data="a", seed=1, settings={"dim": 8}, metrics={"P@1": 60.0})
    again = KeptRuns(out, under="cells", split="test")
    assert again.rows == kept.rows == json.loads(out.read_text())["cells"]
    assert again.has(data="a", seed=1) and again.has(data="a", settings={"dim": 4})
    for other in ({"data": "b", "seed": 0}, {"data": "a", "seed": 2}, {"data": "a", "arm": "x"}):
        assert not again.has(**other)
    again.add(data="b", seed=0)
    found = json.loads(out.read_text())
    assert [row["data"] for row in found["cells"]] == ["a", "a", "b"]
    assert found["split"] == "test" and {"versions", "cores"} <= set(found)


def test_runs_with_other_facts_are_not_taken_for_those_that_are_asked_for(tmp_path):
    out = tmp_path / "runs.json"
    wide = {"wide": {"dim": 512}}
    KeptRuns(out, about={"ideas": wide}, sizes=(1, 2), data="a").add(seed=0)
    again = KeptRuns(out, about={"ideas": {**wide, "deep": {}}}, sizes=(1, 2), data="a")
    assert again.has(seed=0)
    with pytest.raises(InputError, match="another meaning of ideas"):
        KeptRuns(out, about={"ideas": {"wide": {"dim": 768}}}, sizes=(1, 2), data="a")
    for other in ([], {"sizes": [1, 2], "data": "a"}):
        (tmp_path / "other.json").write_text(json.dumps(other))
        with pytest.raises(InputError, match="found another kind of file"):
            KeptRuns(tmp_path / "other.json", sizes=(1, 2), data="a")
    for other in ({"sizes": (1, 3), "data": "a"}, {"sizes": (1, 2), "data": "b"}):
        with pytest.raises(InputError, match="found runs with another"):
            KeptRuns(out, **other)
    with pytest.raises(InputError, match="another preset, expected a new file for preset fast"):
        KeptRuns(out, sizes=(1, 2), data="a", preset="fast")
