"""Figures of the pages are those of the committed JSON files that they name."""

import json

import pages
import pytest

from docs import figures

# Figures that each page names at least.
PAGES = {
    "README.md": 70,
    "benchmarks/README.md": 138,
    "benchmarks/devices/COMPILERS.md": 34,
    "docs/after.md": 130,
    "docs/choosing.md": 30,
    "docs/default-preset.md": 48,
    "docs/design.md": 1,
    "docs/devices.md": 2,
    "docs/export.md": 25,
    "docs/gpu.md": 76,
    "docs/kernel.md": 38,
    "docs/other-sets.md": 220,
    "docs/reproducing.md": 11,
    "docs/results.md": 494,
    "docs/serving.md": 70,
    "docs/speed.md": 69,
    "docs/targets.md": 90,
    "docs/theory.md": 0,
    "docs/trust.md": 40,
    "experiments/README.md": 0,
    "experiments/answers/README.md": 100,
    "experiments/defaults/README.md": 165,
    "experiments/mining/README.md": 460,
    "experiments/references/README.md": 430,
    "experiments/rules/dropout.md": 276,
    "experiments/rules/features.md": 226,
    "experiments/rules/ideas.md": 300,
    "experiments/rules/labels.md": 320,
    "experiments/rules/passes.md": 700,
    "experiments/theory/README.md": 40,
}


@pytest.mark.parametrize("page", PAGES)
def test_figures_are_those_of_their_files(page):
    found = list(figures.figures(pages.ROOT / page))
    wrong = [f"{one.where}: {one.printed} is {one.found:.4g}" for one in found if not one.right]
    assert not wrong, "\n".join(wrong)
    assert len(found) >= PAGES[page]


@pytest.mark.parametrize("page", PAGES)
def test_no_figure_is_without_a_file(page):
    """Each number with a decimal point has a value in a file, or is said to be no result."""
    assert not figures.unmarked(pages.ROOT / page)


def written(root, page, sources):
    """A page and its sources, in a folder that stands for the project."""
    place = root / "tests/docs/sources/page.txt"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(sources)
    (root / "page.md").write_text(page)
    return root / "page.md"


def test_a_wrong_figure_is_found(tmp_path, monkeypatch):
    """Of a table with an empty cell, two figures a cell, and a name; and of a sentence."""
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    file = {"runs": [{"of": {"data": data}, "seed": seed, "P": p, "R": 10 * p}
                     for data, seed, p in (("a", 0, 1.0), ("a", 1, 2.0), ("b", 0, 3.25))],
            "most": [7, 1234.6]}  # fmt: skip
    (tmp_path / "f.json").write_text(json.dumps(file))
    sources = """# Page
table 2
  b | P, R | f.json runs[of.data=b].{head}
   | both | f.json runs[of.data={0}][seed={1}].(P / R)
  names | first=a
text
  1,235 | f.json most.1
  7.1 | f.json most.0
"""
    text = """# Page

| another | table |
|---|---|
| 1 | 2 |

| data | seed | both | P | R |
|---|---|---|---|---|
| `first` | 0 | 1 / 10 (of 2 seeds) | | |
| | 1 | %s / 20.0 | | |
| b | 0 | 3.2 / 33 | **3.25** | 32.5 |

At most 1,235, and 7.1%%.
"""
    page = written(tmp_path, text % "2.1", sources)
    found = list(figures.figures(page))
    assert [one.printed for one in found] == [
        "1", "10", "2.1", "20.0", "3.25", "32.5", "3.2", "33", "1,235", "7.1"
    ]  # fmt: skip
    wrong = [one.printed for one in found if not one.right]
    assert wrong == ["2.1", "7.1"]  # 3.25 may be 3.2 or 3.3, and 32.5 33
    assert figures.unmarked(page) == []
    with pytest.raises(LookupError, match="nothing at runs"):
        figures.Figure("", "1", "f.json", "runs[of.data=c].P").found  # noqa: B018


def test_figures_of_a_text(tmp_path, monkeypatch):
    """Operations on paths, by hand; a number that no rule names; one that the text lacks."""
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    values = [("new", 1, 12.0), ("new", 2, 16.0), ("old", 0, 90.0), ("old", 1, 10.0)]
    runs = [{"of": of, "seed": seed, "P": p} for of, seed, p in [*values, ("old", 2, 8.0)]]
    (tmp_path / "f.json").write_text(json.dumps({"runs": runs, "share": 0.25, "bytes": 3 * 2**19}))
    (tmp_path / "g.json").write_text(json.dumps({"runs": [{"P": 4}]}))
    sources = """# Page
text
  5.0 | f.json runs[of=new].P minus runs[of=old].P by seed
  1.6 | f.json runs[of=new].P over runs[of=old].P by seed
  12.0 / 8.0 | f.json (runs[of=new].P min / runs[of=old].P min)
  9.0 | f.json runs[of=old].P median minus g.json runs.P plus 3
  25 | f.json share in percent
  1.5 and 1.5 | f.json (bytes in MiB / bytes over 2**20)
  2.5 | = (1 + 4) / 2
  no results | 0.07
"""
    text = """# Page

From 8.0 to 12.0: 5.0, 1.6, 9.0, 25% and 1.5 with 2.5 at 0.07, and `7.7`, and 3.3 of no file.

## Another part

Its 0.07 is said elsewhere, and 1.6 too.
"""
    page = written(tmp_path, text, sources)
    found = {one.printed: one.right for one in figures.figures(page)}
    assert found == {"5.0": True, "1.6": True, "12.0": True, "8.0": True, "9.0": True,
                     "25": True, "1.5": True, "2.5": True}  # fmt: skip
    # 10 - 4 + 3 is 9, the median of 8, 10 and 90 being 10.
    assert figures.unmarked(page) == [
        "# Page: 3.3",
        "## Another part: 0.07",
        "## Another part: 1.6",
    ]


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ("# Page\ntext\n  1.6 | f.json share\n", r"\['1.6'\] not in the text of # Page"),
        ("# Page\ntable 2\n  . | #1 | f.json share\n", "no table 2 below # Page"),
        ("## Page\ntext\n  no results | 2\n", "no heading ## Page"),
        (
            "# Page\ntable 1\n  1 | #0 | f.json share\n  ^2 | #0 | f.json share\n",
            r"no figure in the table has the rule \^2 \| #0",
        ),
        ("# Page\ntables 1\n  . | #1 | f.json share\n", "found tables 1, expected table or text"),
    ],
)
def test_sources_of_what_is_not_there(sources, said, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    with pytest.raises(AssertionError, match=said):
        list(figures.figures(written(tmp_path, "# Page\n\n| n |\n|---|\n| 1 |\n", sources)))


def test_every_page_with_sources_is_looked_at():
    folder = pages.ROOT / "tests/docs/sources"
    there = {str(path.relative_to(folder).with_suffix(".md")) for path in folder.rglob("*.txt")}
    assert there <= set(PAGES)
