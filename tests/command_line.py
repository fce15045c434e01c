"""The command line as the tests call it."""

import json

import pytest

from snm.cli.main import main


def call(*words, status=0):
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    assert (stop.value.code or 0) == status


def contents(folder):
    """The bytes of each file of a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(capsys, *words):
    """The one line that a command is refused with."""
    call(*words, status=2)
    said = capsys.readouterr().err
    assert said.startswith("snm: error: ") and said.count("\n") == 1 and said.endswith("\n"), said
    return said.removeprefix("snm: error: ").rstrip("\n")


def answers(capsys, *words):
    """The answers of `snm predict` on standard output, and what was said beside them."""
    call("predict", *words)
    said = capsys.readouterr()
    return [json.loads(line) for line in said.out.splitlines()], said.err
