"""Bars and spinners: on a terminal they say what goes on, elsewhere nothing."""

import io
import re

import pytest
from rich.console import Console
from rich.progress import MofNCompleteColumn

from snm.system import terminal


@pytest.fixture
def drawn(monkeypatch):
    """What a terminal gets; its last picture is drawn when a bar ends."""
    monkeypatch.setenv("TERM", "xterm")
    console = Console(file=io.StringIO(), force_terminal=True, width=100, markup=False)
    monkeypatch.setattr(terminal, "console", console)
    return console.file.getvalue


def test_each_count_has_a_bar_of_its_own(drawn):
    with terminal.counters() as counter:
        counter("training points", 7)(3)
        counter("test points", 5)(5)
    text = drawn()
    assert "training points" in text and "3/7" in text
    assert "test points" in text and "5/5" in text


def test_without_totals_the_text_has_the_count_now_and_then(drawn):
    with terminal.counters(bars=False) as counter:
        on_progress = counter("reading [words]")
        for done in range(1, 1030):
            on_progress(done)
    text = drawn()
    assert "reading [words]: 1,024" in text
    assert "1,029" not in text and "/" not in text


def test_a_spinner_says_what_it_is_told(drawn):
    with terminal.text_spinner("points") as tell:
        tell("3 [points]")
    assert "3 [points]" in drawn() and "0:00:00" not in drawn()


def test_a_spinner_may_show_the_time(drawn):
    with terminal.text_spinner("points", timed=True):
        pass
    assert "points" in drawn() and "0:00:00" in drawn()


@pytest.mark.parametrize("stays", [False, True])
def test_a_bar_may_stay(drawn, stays):
    """One that does not is erased: its last line is cleared after it was drawn."""
    with terminal.make_bar(MofNCompleteColumn(), stays=stays) as bar:
        bar.add_task("runs", total=2)
    assert drawn().endswith("\x1b[2K") != stays


def test_without_a_terminal_nothing_is_drawn(capsys):
    with terminal.counters() as counter, terminal.text_spinner("points") as tell:
        counter("points", 7)(3)
        tell("3 points")
    assert capsys.readouterr().out == ""


def test_a_table_has_texts_at_the_left_and_numbers_at_the_right(drawn):
    table = terminal.make_table("MiB", ["part"], ["now", "later"], box=None)
    table.add_row("rows of classes", "1", "2")
    terminal.console.print(table)
    lines = [line.strip() for line in re.sub(r"\x1b\[\d*m", "", drawn()).splitlines()]
    assert lines == ["MiB", "part             now  later", "rows of classes    1      2"]
