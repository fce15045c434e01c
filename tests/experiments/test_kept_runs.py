"""An experiment that was broken off goes on: its file has each run that ended, once."""

import json

from experiments.kept_runs import KeptRuns


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
