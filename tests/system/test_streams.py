"""Remarks and errors go to standard error alone."""

import io
import shlex
import subprocess
import sys

import pytest

from snm.system.streams import print_error, print_note


def test_an_error_is_one_line(capsys):
    print_note("a\x1b[31mb")
    print_error("a\nb.txt: found nothing")
    assert capsys.readouterr() == ("", "snm: a\\x1b[31mb\nsnm: error: a\\nb.txt: found nothing\n")


def test_nothing_gets_among_the_results_where_standard_error_is_closed(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)  # as in `snm predict ... 2>&-`
    print_note("a")
    print_error("b")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("words", ["snm --version", "snm predict"])
def test_a_command_whose_standard_output_is_closed(words):
    """Without it, `sys.stdout` is None."""
    command = f"{shlex.quote(sys.executable)} -m {words} >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True)
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if "version" in words else 2), done.stderr


class Gone(io.StringIO):
    def write(self, text):
        raise BrokenPipeError


def test_an_error_that_nobody_reads_is_no_other_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Gone())
    print_error("a")
    with pytest.raises(BrokenPipeError):  # a note is up to its caller
        print_note("a")
