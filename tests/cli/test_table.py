"""One entry of the table makes a verb: its subcommand, its help, its line and its hints."""

import dataclasses
import itertools
import re
import shlex

import pytest
from command_line import call, refused
from tyro.conf import Positional

from snm.cli import table
from snm.cli.main import main, parse
from snm.cli.table import VERBS, Verb, find, options, overview
from snm.cli.train.verb import Processes, Watching
from snm.config.marks import TABLES, load_table
from snm.config.settings import Config, preset


def help_of(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*words.split(), "--help"])
    assert not stop.value.code
    return capsys.readouterr().out


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.words)
def test_the_help_of_a_verb_has_examples_that_parse(verb, capsys):
    shown = help_of(verb.words, capsys)
    assert "For example:" in shown
    own = 0
    for line in re.findall(r"^ *(?:srun )?snm (\w.*)$", verb.kind.__doc__, re.MULTILINE):
        words = shlex.split(line)
        found = find(words)
        assert found is not None and type(parse(words)) is found.kind, line
        own += found is verb
    assert own


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.words)
def test_hints_know_the_options_of_the_parser(verb, capsys):
    lines = re.findall(r"^[│ ] (-.*?)(?:  |$)", help_of(verb.words, capsys), re.MULTILINE)
    shown = {word for line in lines for word in re.findall(r"--[a-z][a-z-]*", line)}
    assert shown - {"--help"} == set(options(verb.kind))


def test_the_overview_has_a_line_for_each_verb(capsys):
    shown = help_of("", capsys)
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
    assert "snm greet NAME" in help_of("", capsys) and "Greet somebody." in help_of("greet", capsys)
    assert refused(capsys, "gret", "you").endswith("for example greet")
    assert refused(capsys, "greet", "you", "--loud").endswith("for example --loudly")


@pytest.mark.parametrize("words", ["train", "plan"])
def test_settings_are_in_groups_and_none_is_lost(words, capsys):
    shown = help_of(words, capsys)
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


def test_the_flags_of_several_processes_are_in_a_box_of_their_own(capsys):
    shown = help_of("train", capsys)
    box = shown[shown.index("multi-process options") :]
    flags = ["--coordinator HOST:PORT", "--num-processes", "--process-id", "--peer-timeout"]
    places = [box.index(f" {flag}") for flag in flags]
    assert places == sorted(places) and shown.count(" --num-processes ") == 1
    words = ["train", "x", "--run-dir=r", "--process-id=1", "--device-memory=1GiB"]
    command = parse(words)
    assert command.processes == Processes(process_id=1)
    assert command.watching == Watching(device_memory="1GiB")


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.words)
def test_help_has_no_defaults_of_no_value(verb, capsys):
    shown = " ".join(help_of(verb.words, capsys).replace("│", "").split())
    assert not re.search(r"\(default: (None|''|)\)", shown)
    assert verb.words != "train" or "(default: 256)" in shown


def test_help_names_what_a_setting_may_be(capsys):
    """For settings of a table, which help does not import."""
    shown = help_of("train", capsys)
    assert not re.search(r"^[│ ] --[a-z-]+ STR", shown, re.MULTILINE)
    text = " ".join(shown.replace("│", "").split())
    for setting in TABLES:
        flag = f"--{setting.replace('_', '-')} NAME"
        said = text[text.index(flag) :].partition("(default: ")[0]
        for name in load_table(setting):
            assert re.search(rf"(?<![\w-]){name}(?![\w-])", said), (setting, name)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.words)
def test_help_does_not_need_the_words_of_the_code(verb, capsys):
    shown = " ".join(help_of(verb.words, capsys).replace("│", "").split())
    inner = r"class rows?\b|feature rows?\b|\bvisits?\b|first member|\bno (answers|negatives)\b"
    assert not re.findall(inner, shown)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.words)
def test_examples_follow_at_once(verb, capsys):
    call(*verb.words.split(), "--help")
    assert not re.search(r"For example:\n\s*\n", capsys.readouterr().out)


@pytest.mark.parametrize("width", ["80", "200"])
def test_help_breaks_lines_at_the_width_of_the_screen_alone(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", width)
    lines = help_of("data import", capsys).splitlines()
    first = next(i for i, line in enumerate(lines) if "Folder of a run, or a data set:" in line)
    start = lines[first].index("Folder")
    text = [line[start:].rstrip("│ ") for line in lines[first : first + 5]]
    last = next(i for i, line in enumerate(text) if line.endswith("grown."))
    room = int(width) - start - 4  # beside a border
    for line, after in itertools.pairwise(text[: last + 1]):  # the next word has no room
        assert len(line) + 1 + len(after.split()[0]) > room
