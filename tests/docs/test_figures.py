"""Figures of the pages are those of the committed JSON files that they name."""

import json

import figures
import pages
import pytest

# Figures that each page names at least.
PAGES = {
    "README.md": 80,
    "docs/after.md": 18,
    "docs/results.md": 360,
    "docs/trust.md": 100,
    "experiments/README.md": 1100,
}


@pytest.mark.parametrize("page", PAGES)
def test_figures_are_those_of_their_files(page):
    found = list(figures.figures(pages.ROOT / page))
    wrong = [f"{one.where}: {one.printed} is {one.found:.4g}" for one in found if not one.right]
    assert not wrong, "\n".join(wrong)
    assert len(found) >= PAGES[page]


def test_a_wrong_figure_is_found(tmp_path, monkeypatch):
    """Of a table with an empty cell, two figures a cell, and a name; and of a sentence."""
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    file = {"runs": [{"of": {"data": data}, "seed": seed, "P": p, "R": 10 * p}
                     for data, seed, p in (("a", 0, 1.0), ("a", 1, 2.0), ("b", 0, 3.25))],
            "most": [7, 1234.6]}  # fmt: skip
    (tmp_path / "f.json").write_text(json.dumps(file))
    table = """<!-- figures
b | P, R | f.json runs[of.data=b].{head}
 | both | f.json runs[of.data={0}][seed={1}].(P / R)
names | first=a
-->

| data | seed | both | P | R |
|---|---|---|---|---|
| `first` | 0 | 1 / 10 (of 2 seeds) | | |
| | 1 | %s / 20.0 | | |
| b | 0 | 3.2 / 33 | **3.25** | 32.5 |

At most 1,235<!-- = f.json most.1 -->, and 7.1<!-- = f.json most.0 -->%%.
"""
    (tmp_path / "page.md").write_text(table % "2.1")
    found = list(figures.figures(tmp_path / "page.md"))
    assert [one.printed for one in found] == [
        "1", "10", "2.1", "20.0", "3.25", "32.5", "3.2", "33", "1,235", "7.1"
    ]  # fmt: skip
    wrong = [one.printed for one in found if not one.right]
    assert wrong == ["2.1", "7.1"]  # 3.25 may be 3.2 or 3.3, and 32.5 33
    with pytest.raises(LookupError, match="nothing at runs"):
        figures.Figure("", "1", "f.json", "runs[of.data=c].P").found  # noqa: B018
