"""A package that is not there, with answers as the test says."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from snm.compare.peers.protocol import Answers, Peer
from snm.compare.peers.table import PEERS


def answering(monkeypatch: pytest.MonkeyPatch, answer: Callable[..., Any], weighted: bool = True,
              package: str = "json") -> None:  # fmt: skip
    monkeypatch.setitem(PEERS, "fake", Peer(package, "made up", answer, weighted))


def of(rows: list[list[int]]) -> Callable[..., Answers]:
    return lambda x, y, x_test, *, k, seed, threads: (np.array(rows), 2.5, 0.25)
