"""`snm data list` on terminals of several widths."""

import pytest
from command_line import call
from rich.console import Console

from snm.system import terminal


@pytest.mark.parametrize("width", [40, 60, 80, 120, 140])
def test_no_terminal_cuts_a_number(width, monkeypatch, capsys):
    """A narrower one has fewer columns, and is told which are missing."""
    monkeypatch.setattr(terminal, "wide_console", lambda: Console(width=width, highlight=False))
    call("data", "list")
    shown = capsys.readouterr().out
    table = [line for line in shown.splitlines() if line[:1] in tuple("┏┃┡│└")]
    assert "LF-WikiSeeAlsoTitles-320K" in shown and "…" not in shown
    assert max(map(len, table)) <= width
    assert ("left out, as the terminal is narrow: " in shown) == (width < 140)
    assert ("2,812,281" in shown) == (width >= 60)  # the labels of Amazon-3M
    assert ("mirrors" in "".join(table)) == (width == 140)
    assert ("verified: yes, if" in shown) == ("verified" in "".join(table))
