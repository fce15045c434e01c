"""Names with control characters, ANSI escapes and marks of direction are shown as escapes."""

import io

import pytest
import tiny
from command_line import refused
from rich.table import Table
from rich.text import Text

from snm.compare.report.html import page
from snm.system.terminal import console, progress_bar, say, wide_console
from snm.text import escape_controls

EVIL = "a\x1b[31m\x9b2J\u202eb<script>"  # bells and returns, rich leaves out
SHOWN = r"a\x1b[31m\x9b2J\u202eb<script>"


@pytest.fixture
def printed(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(console, "_file", out)
    return out


def test_what_is_plain_stays():
    text = "tab\tline\nnaïve 日本 🙂 e\u0301"
    assert escape_controls(text) == text


def test_a_name_that_is_not_utf8_can_be_printed():
    assert escape_controls(b"a\xffb".decode("utf-8", "surrogateescape")).encode() == rb"a\udcffb"


def test_everything_that_is_printed_is_escaped(printed):
    table = Table(title=EVIL)
    table.add_column(EVIL)
    table.add_row(EVIL)
    for show in (say, console.print, lambda text: console.print(Text(text, style="red"))):
        show(EVIL)
    console.print(table)
    with progress_bar() as bar:
        bar.add_task(EVIL, total=1)
    text = printed.getvalue()
    assert text.count(SHOWN) >= 3
    assert not {"\x1b", "\x9b", "\u202e"} & set(text)


def test_a_wide_console_escapes_and_keeps_rows_on_one_line(capsys):
    table = Table(title="all")
    table.add_row(EVIL, "x" * 100)
    wide_console().print(table)
    assert any(SHOWN in line and "x" * 100 in line for line in capsys.readouterr().out.split("\n"))


def test_errors_are_one_line(tmp_path, capsys):
    said = refused(capsys, "data", "stats", tmp_path / f"{EVIL}\nsecond")
    assert SHOWN.partition("<")[0] in said and r"\nsecond" in said


def test_styles_stay():
    """What this program prints itself is no name: colours still reach a terminal."""
    from rich.console import Console

    from snm.system.terminal import _Escaping

    terminal = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
    terminal.push_render_hook(_Escaping())
    terminal.print(Text(EVIL, style="red"))
    assert terminal.file.getvalue() == f"\x1b[31m{SHOWN}\x1b[0m\n"


def test_the_report_escapes():
    inside = page.environment()
    assert inside.from_string("{{ name }}").render(name=EVIL) == (
        SHOWN.replace("<", "&lt;").replace(">", "&gt;")
    )
    assert inside.from_string("{{ rows[0] }}").render(rows=[3]) == "3"


def test_label_names(tmp_path, capsys):
    """Where a label's name is part of an error."""
    data = tiny.write(tmp_path / "data")
    (data / "labels.txt").write_text(f"{EVIL}\n" * 19)
    said = refused(capsys, "data", "stats", data)
    assert "\x1b" not in said
