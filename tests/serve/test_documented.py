"""The curl commands of the README, the pages and `snm serve --help`, as they stand."""

import shlex
import shutil
import subprocess

import pages
import pytest

from snm.serve.cli import Serve

PAGES = [pages.ROOT / "README.md", *sorted((pages.ROOT / "docs").glob("*.md"))]
# The fixture's model has these features and words; a page's own model has others.
COMMANDS = {
    path.name: [
        words
        for block in pages.blocks(path)
        if block.kind == "sh"
        for words in pages.commands(block.text)
        if words[0] == "curl"
    ]
    for path in PAGES
}
COMMANDS["snm serve --help"] = [
    shlex.split(line) for line in Serve.__doc__.splitlines() if line.strip().startswith("curl ")
]


def test_the_commands_are_found():
    assert [len(COMMANDS[name]) for name in ("README.md", "serving.md", "snm serve --help")] == [
        1,
        1,
        2,
    ]


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl is installed")
@pytest.mark.parametrize("where", [name for name, found in COMMANDS.items() if found])
def test_documented_commands_are_answered(address, where):
    for words in COMMANDS[where]:
        assert words[-1] == "localhost:8080/predict"
        command = [*words[:-1], words[-1].replace("localhost:8080", address)]
        done = subprocess.run([*command, "-sS", "--fail-with-body"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.startswith('{"answers":[{"labels":[')
