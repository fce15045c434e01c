"""One entry of the table makes a verb: its subcommand, its help, its line and its hints."""

import contextlib
import dataclasses
import functools
import io
import itertools
import re
import shlex

import pytest
from command_line import call, refused
from tyro.conf import Positional

from snm.cli import table
from snm.cli.main import main, parse
from snm.cli.table import VERBS, Verb, find, options, overview
from snm.cli.train.verb import Watching
from snm.config.marks import TABLES, load_table
from snm.config.settings import Config, preset
from snm.distributed.launch import ProcessOptions


def render_help(words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as stop:
        main([*words.split(), "--help"])
    assert not stop.value.code
    return out.getvalue()


help_of = functools.cache(render_help)
"""The help of words, rendered once for all tests."""


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.words)
def test_the_help_of_a_verb_has_examples_that_parse(verb):
    assert "For example:" in help_of(verb.words)
    own = 0
    for line in re.findall(r"^ *(?:srun )?snm (\w.*)$", verb.kind.__doc__, re.MULTILINE):
        words = shlex.split(line)
        found = find(words)
        assert found is not None and type(parse(words)) is found.kind, line
        own += found is verb
    assert own


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.words)
def test_help_is_what_a_user_reads(verb):
    """Without `None`, words of the code, and an empty line above the examples."""
    shown = help_of(verb.words)
    assert f"snm {verb.words} " in shown and not re.search(r"For example:\n\s*\n", shown)
    text = " ".join(shown.replace("│", "").split())
    assert "{None}" not in text and not re.search(r"\(default: (None|''|)\)", text)
    assert verb.words != "train" or "(default: 256)" in text
    inner = r"class rows?\b|feature rows?\b|\bvisits?\b|first member|\bno (answers|negatives)\b"
    assert not re.findall(inner, text)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.words)
def test_hints_know_the_options_of_the_parser(verb):
    lines = re.findall(r"^[│ ] (-.*?)(?:  |$)", help_of(verb.words), re.MULTILINE)
    shown = {word for line in lines for word in re.findall(r"--[a-z][a-z-]*", line)}
    assert shown - {"--help"} == set(options(verb.kind))


def test_the_overview_has_a_line_for_each_verb():
    shown = help_of("")
    for verb in VERBS:
        assert re.search(rf"^  snm {re.escape(verb.words)} .*{re.escape(verb.summary)}$", shown,
                         re.MULTILINE), verb  # fmt: skip
    assert shown.rstrip("\n") == overview()
    lines = shown.splitlines()
    order = ["data fetch", "train", "doctor", "export", "grow", "compare", "bench"]
    places = [next(i for i, line in enumerate(lines) if f" snm {verb} " in line) for verb in order]
    assert places == sorted(places) and "deployment, and research" in lines[1]
    # One screen.
    assert len(shown.splitlines()) <= 24 and max(map(len, shown.splitlines())) <= 80
    assert len({verb.words for verb in VERBS}) == len(VERBS)


def test_settings_start_at_the_preset_and_the_file(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text("epochs = 2\ndim = 7\n")
    words = ["train", "x", "--run-dir=r", "--preset=paper", f"--config={file}", "--dim", "9"]
    assert parse(words).settings == dataclasses.replace(preset("paper"), epochs=2, dim=9)
    assert parse(["plan", "x"]).settings == preset("default")


def test_a_new_verb_is_one_entry(monkeypatch, capsys):
    @dataclasses.dataclass
    class Greet:
        """Greet somebody."""

        name: Positional[str]
        loudly: bool = False

        def __call__(self):
            print(self.name.upper() if self.loudly else self.name)

    monkeypatch.setattr(table, "VERBS", (*VERBS, Verb("greet", Greet, "NAME", "say a name")))
    call("greet", "you", "--loudly")
    assert capsys.readouterr().out == "YOU\n"
    assert "snm greet NAME" in render_help("") and "Greet somebody." in render_help("greet")
    assert refused(capsys, "gret", "you").endswith("for example greet")
    assert refused(capsys, "greet", "you", "--loud").endswith("for example --loudly")


@pytest.mark.parametrize("words", ["train", "plan"])
def test_settings_are_in_groups_and_none_is_lost(words):
    shown = help_of(words)
    names = ("main", "feature", "model", "loss and sampling", "after-training", "optimization",
             "evaluation", "run")  # fmt: skip
    places = [shown.index(f"{name} options") for name in names]
    assert places == sorted(places)
    for option in options(Config):
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", shown), option
    main = re.findall(r"^[│ ] --([a-z][a-z-]*)", shown[places[0] : places[1]], re.MULTILINE)
    assert main == ["preset", "epochs", "batch-size", "dim", "learning-rate", "seed"]
    required = ["--run-dir", "runs/a"] if words == "train" else []
    command = parse([words, "data/a", *required, "--preset", "paper", "--mined", "64", "--no-auc"])
    assert command.settings == dataclasses.replace(preset("paper"), mined=64)


def test_the_flags_of_several_processes_are_in_a_box_of_their_own():
    shown = help_of("train")
    box = shown[shown.index("multi-process options") :]
    flags = ["--coordinator HOST:PORT", "--num-processes", "--process-id", "--peer-timeout"]
    places = [box.index(f" {flag}") for flag in flags]
    assert places == sorted(places) and shown.count(" --num-processes ") == 1
    words = ["train", "x", "--run-dir=r", "--process-id=1", "--device-memory=1GiB"]
    command = parse(words)
    assert command.processes == ProcessOptions(process_id=1)
    assert command.watching == Watching(device_memory="1GiB")


def test_help_names_what_a_setting_may_be():
    """For settings of a table, which help does not import."""
    shown = help_of("train")
    assert not re.search(r"^[│ ] --[a-z-]+ STR", shown, re.MULTILINE)
    text = " ".join(shown.replace("│", "").split())
    for setting in TABLES:
        flag = f"--{setting.replace('_', '-')} NAME"
        said = text[text.index(flag) :].partition("(default: ")[0]
        for name in load_table(setting):
            assert re.search(rf"(?<![\w-]){name}(?![\w-])", said), (setting, name)


@pytest.mark.parametrize("width", ["80", "200"])
def test_help_breaks_lines_at_the_width_of_the_screen_alone(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", width)
    lines = render_help("data import").splitlines()
    first = next(i for i, line in enumerate(lines) if "Folder of a run, or a data set:" in line)
    start = lines[first].index("Folder")
    text = [line[start:].rstrip("│ ") for line in lines[first : first + 5]]
    last = next(i for i, line in enumerate(text) if line.endswith("grown."))
    room = int(width) - start - 4  # beside a border
    for line, after in itertools.pairwise(text[: last + 1]):  # the next word has no room
        assert len(line) + 1 + len(after.split()[0]) > room
