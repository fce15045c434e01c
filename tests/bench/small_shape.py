"""A shape whose parts take a moment, and the command that the tests of the benchmark call."""

import pytest

from snm.bench.shapes import Shape
from snm.cli.main import main

TINY = Shape("eurlex", 400, 300, 200, 12, 3.0, 16, 64, (1, 16), dim=8)


def exit_of(*words: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", *words])
    return stopped.value.code
