"""Losses, formats and verbs of a user's own, in a module that `$SNM_IMPORT` names."""

import json
import sys

import pytest
import tiny
from command_line import call, refused

from snm.cli import table
from snm.data.formats.foreign import READERS
from snm.losses.sampled import LOSSES
from snm.runs.folder import RunFolder

OWN = """
import dataclasses

import jax.numpy as jnp
from snm.cli import table
from snm.data.formats.foreign import READERS, Reader, Row
from snm.data.formats.records import numbered_lines
from snm.losses.sampled import LOSSES, HeadLoss


def read_tabbed(path, options):
    for number, line in numbered_lines(path):
        labels, _, text = line.partition("\\t")
        yield Row(f"{path}:{number}", text, None, tuple(labels.split("|")))


class Own(HeadLoss):
    name = "own"

    def value(self, scores, draw=None):
        return jnp.sum(scores.weights * jnp.maximum(0, 1 - scores.positive))


LOSSES["own"] = Own()
READERS["tabbed"] = Reader(read_tabbed, suffixes=(".tabbed",))


@dataclasses.dataclass
class Greet:
    'Greet whoever asks.'

    def __call__(self):
        print("hello")


table.VERBS = (*table.VERBS, table.Verb("greet", Greet, "", "say hello"))
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """A module on the path that adds a loss, an import format and a verb."""
    monkeypatch.setattr(table, "VERBS", table.VERBS)
    (tmp_path / "own_losses.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SNM_IMPORT", " own_losses ,")
    yield
    LOSSES.pop("own", None)
    READERS.pop("tabbed", None)
    sys.modules.pop("own_losses", None)


def test_a_module_of_ones_own_adds_a_loss(own_module, data, tmp_path, capsys):
    call("train", data, "--run-dir", tmp_path / "run", *tiny.FLAGS, "--loss", "own")
    assert RunFolder(tmp_path / "run").settings().loss == "own"


def test_a_format_of_ones_own_is_asked_for_by_name(own_module, tmp_path, capsys):
    source = tmp_path / "points.txt"
    source.write_text("fruit|red\tan apple\ntool\ta saw\n")
    words = ["data", "import", source, "--format"]
    call(*words, "tabbed", "--out", tmp_path / "out")
    assert (tmp_path / "out" / "labels.txt").read_text() == "fruit\nred\ntool\n"
    said = refused(capsys, *words, "tabs", "--out", tmp_path / "other")
    assert said == (
        "--format: found 'tabs', expected one of auto, jsonl, csv, parquet, raw, fasttext, "
        "svmlight, tabbed, or a name that the module of SNM_IMPORT adds"
    )


def test_a_verb_of_ones_own_has_help(own_module, capsys):
    call("greet", "--help")
    assert "Greet whoever asks." in capsys.readouterr().out
    call("greet")
    assert capsys.readouterr().out == "hello\n"


@pytest.mark.slow
def test_so_do_the_processes_of_a_comparison(own_module, data, tmp_path, capsys):
    flags = "--losses own --mined 2 --seeds 1 --epochs 1 --no-equal-seconds --preset paper"
    sizes = "--dim 8 --sampled 6 --batch-size 16"
    call("compare", data, "--out", tmp_path / "out", *flags.split(), *sizes.split())
    runs = [json.loads(path.read_text()) for path in (tmp_path / "out" / "runs").glob("*.json")]
    assert len(runs) == 2 and all("error" not in run for run in runs)


@pytest.mark.parametrize("content, said", [
    (None, "ModuleNotFoundError: No module named 'not_there'"),
    ("raise OSError('no\\n luck')", "OSError: no luck"),
])  # fmt: skip
def test_a_module_that_cannot_be_imported(content, said, tmp_path, monkeypatch, capsys):
    if content is not None:
        (tmp_path / "not_there.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("SNM_IMPORT", "not_there")
    assert f"SNM_IMPORT=not_there: found {said}" in refused(capsys, "data", "stats", "synthetic")
    call("data", "stats", "--help")
    call("data", "--help")
