"""A box of tyro's becomes one line, also where it looks otherwise than today."""

import os

import pytest

from snm.cli.parse_errors import error_from_box, wide_terminal

CHOICE = "invalid choice 'x' for argument '--to'. Expected one of ('a', 'b')."


HELP = "For full helptext, run snm"
BOLD, RED, PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[0m"


@pytest.mark.parametrize(
    "box",
    [
        f"╭─ Invalid ─╮\n│ {CHOICE} │\n│ ──── │\n│ {HELP} │\n╰────╯\n",
        f" Invalid    \n ----- \n  {CHOICE}  \n  -----\n  {HELP}  \n   \n",
        f"{RED}╭─ Invalid ─╮{PLAIN}\n{RED}│{PLAIN} {BOLD}{CHOICE}{PLAIN} {RED}│{PLAIN}\n",
    ],
)
def test_frames_and_colours_are_no_part_of_it(box):
    assert error_from_box(box, "snm export").as_flags == "--to: found 'x', expected one of a, b"


def test_an_unknown_box_is_told_in_its_own_words():
    said = error_from_box("╭─ New ─╮\n│ Something is │\n│ wrong. │\n╰───╯\n", "snm train").as_flags
    assert said == "snm train: found Something is wrong., expected what `snm train --help` lists"
    assert "words that do not fit" in error_from_box("", "snm").as_flags


def test_values_that_are_told_otherwise():
    lines = ["╭ Value error ╮", "│ Error parsing --x: no such colour │", "│ ── │",
             "│ Argument helptext: │", "│     --x COLOUR │"]  # fmt: skip
    box = "\n".join(lines)
    assert error_from_box(box, "snm").as_flags == "--x: found no such colour, expected --x COLOUR"


@pytest.mark.parametrize("before", [None, "80"])
def test_the_screen_is_as_wide_as_before(monkeypatch, before):
    monkeypatch.delenv("COLUMNS", raising=False)
    if before is not None:
        monkeypatch.setenv("COLUMNS", before)
    with wide_terminal():
        assert int(os.environ["COLUMNS"]) > 10_000
    assert os.environ.get("COLUMNS") == before
