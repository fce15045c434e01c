"""The exit status of `snm bench --vs`."""

import json

from bench.small_shape import TINY, exit_of

from snm.bench import shapes


def test_a_slower_part_is_the_status(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(shapes.SHAPES, "eurlex", TINY)
    path, words = tmp_path / "rows.json", ("sample", "--repeats", "2", "--no-peers")
    assert exit_of(*words, "--json", str(path)) in (0, None)
    rows = json.loads(path.read_text())
    for times, status in ((1e-6, 1), (1e6, 0)):
        for row in rows:
            row |= {"ratio_to_floor": None, "median_s": times, "quartiles_s": [times, times]}
        path.write_text(json.dumps(rows))
        assert (exit_of(*words, "--vs", str(path)) or 0) == status
