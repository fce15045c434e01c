"""Tables in a terminal are no wider than it, cut no word, and leave no cell out."""

import re

import pytest
from compare.comparison import BASE, arm, full, many, results
from rich.console import Console

from snm.compare.report.tables import all_sheets
from snm.compare.report.terminal import layout_tables


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("made", [full, many])
def test_tables_fit_and_are_whole(made, width, capsys):
    console = Console(width=width)
    for sheet in all_sheets(made()):
        console.print(*layout_tables(sheet, width), sep="\n")
        told = capsys.readouterr().out
        assert max(map(len, told.splitlines())) <= width
        words = told.split()
        for row in sheet.rows:
            for name in row[0].split():
                assert name in words or name + "," in words
            for cell in row[1:]:
                # A ratio has its x before its interval there.
                lines = re.sub(r"\(([\d.]+)(.*)x\)$", r"\1x\2", cell).replace(" ± ", " ±")
                assert set(lines.split()) <= set(words)


def test_a_cell_has_its_interval_and_its_ratio_below(capsys):
    base = [2.0, 4.0, 3.0]
    found = results(arm(BASE, base), arm("top-16", [4.0, 8.0, 6.0], base), seeds=3)
    (sheet,) = [each for each in all_sheets(found) if each.title == "Equal steps"]
    Console(width=80).print(*layout_tables(sheet, 80), sep="\n")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    at = next(n for n, line in enumerate(lines) if line[:1] == ["top-16"])
    assert lines[at] == ["top-16", "16", "of", "32", *["6.00"] * 6]
    assert lines[at + 1 : at + 4] == [["±4.97"] * 6, ["2.00x"] * 6, ["±0.00"] * 6]


def test_a_table_that_goes_on_says_so(capsys):
    (sheet,) = [each for each in all_sheets(full()) if each.title == "Generalization bounds"]
    for width, parts in ((80, 2), (120, 1)):
        Console(width=width).print(*layout_tables(sheet, width), sep="\n")
        shown = capsys.readouterr().out
        assert shown.count("Generalization bounds") == parts
        assert shown.count("Generalization bounds, continued") == parts - 1
