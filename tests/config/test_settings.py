"""Settings: preset < TOML < flags, and every wrong one named in one line."""

import dataclasses
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snm.cli.main import base_settings
from snm.config.fields import GROUPS
from snm.config.settings import PRESETS, Config, config_text, preset, read_config
from snm.errors import InputError


def toml(folder: Path, text: str) -> Path:
    file = folder / "settings.toml"
    file.write_text(text)
    return file


def test_presets():
    assert preset("default") == Config()
    # Reddi et al. (2019), section 5: of the loss, its sizes and its steps.
    reddi = dict(preset="paper", encoder="relu", loss="bowl", phi="hinge", vartheta="top", mined=16,
                 dim=512, epochs=20, learning_rate=50.0)  # fmt: skip
    assert reddi.items() <= dataclasses.asdict(preset("paper")).items()
    assert all(preset(name).check() for name in PRESETS)
    with pytest.raises(InputError, match=r"^preset: found 'papre', expected one of default"):
        preset("papre")


def test_toml_lies_over_its_preset(tmp_path):
    found = read_config(toml(tmp_path, 'preset = "paper"\ndim = 7\nlearning_rate = 3\n'))
    assert found == dataclasses.replace(preset("paper"), dim=7, learning_rate=3.0)
    assert type(found.learning_rate) is float


def test_toml_lies_over_a_base(tmp_path):
    base = dataclasses.replace(preset("paper"), epochs=9)
    found = read_config(toml(tmp_path, 'sampled = "all"\nmined = 8\n'), base=base)
    assert found == dataclasses.replace(base, sampled="all", mined=8)


def test_a_preset_flag_lies_under_the_file(tmp_path):
    """`--preset` picks what lies under the file; the other flags are read over both."""
    file = toml(tmp_path, "epochs = 2\n")
    words = ["train", "data", "--config", str(file), "--preset=paper", "--dim", "9"]
    assert base_settings(words) == dataclasses.replace(preset("paper"), epochs=2)
    assert base_settings(["train", "data", f"--config={file}"]).epochs == 2
    assert base_settings(["evaluate", "run"]) == Config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning_rat = 1.0", r"learning_rat: found an unknown key, .*learning_rate$"),
        ("epoch = 3", r"epoch: found an unknown key, expected for example epochs$"),
        ("dim = 1.5", r"dim: found 1.5, expected a whole number$"),
        ("dim = true", r"dim: found True, expected a whole number$"),
        ('dim = "8"', r"dim: found '8', expected a whole number$"),
        ("bias = 1", r"bias: found 1, expected true or false$"),
        ('learning_rate = "fast"', r"learning_rate: found 'fast', expected a number or auto$"),
        (
            'loss = "bowls"',
            r"loss: found 'bowls', expected bowl or powl or softmax or .* SNM_IMPORT adds$",
        ),
        ('sampled = "most"', r"sampled: found 'most', expected a whole number or all or auto$"),
        ("monitor = 3", r"monitor: found 3, expected a text$"),
        ('preset = "big"', r"preset: found 'big', expected default or fast or paper$"),
        ("dim 3", r"settings.toml: found no TOML: .*line 1.*expected lines `key = value`$"),
        ("learning_rate = nan", r"^learning_rate: found nan, expected a finite number$"),
        (
            f"learning_rate = -1{400 * '0'}",
            "learning_rate: found a whole number of more than 308 digits, expected a finite numb",
        ),
        ("negative_weight = inf", r"^negative_weight: found inf, expected a finite number$"),
    ],
)
def test_wrong_files(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as found:
        read_config(toml(tmp_path, text))
    assert "\n" not in str(found.value)


def test_no_file(tmp_path):
    with pytest.raises(InputError, match=r"none\.toml: found no such file or directory"):
        read_config(tmp_path / "none.toml")
    with pytest.raises(InputError, match=r"is a directory"):
        read_config(tmp_path)
    file = tmp_path / "latin.toml"
    file.write_bytes(b'monitor = "\xe9"\n')
    with pytest.raises(InputError, match=r"latin\.toml: found no TOML"):
        read_config(file)


def test_a_number_may_stand_where_auto_may(tmp_path):
    found = read_config(toml(tmp_path, 'score_scale = 8\nepochs = "auto"\n'))
    assert type(found.score_scale) is float
    assert (found.score_scale, found.epochs) == (8.0, "auto")
    with pytest.raises(InputError, match=r"score_scale: found 'big', expected a number or auto$"):
        read_config(toml(tmp_path, 'score_scale = "big"\n'))
    with pytest.raises(InputError, match=r"^score_scale: found 0.0, expected a number above 0"):
        read_config(toml(tmp_path, "score_scale = 0\n"))


@settings(max_examples=20, deadline=None)
@given(
    dim=st.integers(1, 10**6),
    learning_rate=st.floats(1e-30, 1e30),
    negative_weight=st.floats(0, 1e3),
    sampled=st.one_of(st.integers(1000, 10**9), st.sampled_from(["all", "auto"])),
    mined=st.one_of(st.integers(1, 1000), st.just("all")),
    bias=st.booleans(),
    monitor=st.text(st.characters(codec="utf-8")),
    name=st.sampled_from(sorted(PRESETS)),
)
def test_what_is_written_reads_back(tmp_path_factory, name, **values):
    config = dataclasses.replace(preset(name), loss="bowl", **values)
    file = tmp_path_factory.mktemp("round") / "config.toml"
    file.write_text(config_text(config), encoding="utf-8")
    assert read_config(file) == config
    assert set(tomllib.loads(file.read_text(encoding="utf-8"))) == set(dataclasses.asdict(config))
    assert [path.name for path in file.parent.iterdir()] == ["config.toml"]


def test_a_file_of_another_preset_than_the_one_asked_for_is_refused(tmp_path: Path) -> None:
    """Its name would stand above the settings of the other."""
    path = tmp_path / "own.toml"
    path.write_text('preset = "fast"\ndim = 7\n')
    asked = dataclasses.replace(preset("fast"), dim=7)
    assert read_config(path) == read_config(path, base=preset("fast")) == asked
    with pytest.raises(InputError, match=r"own\.toml: preset: found 'fast', expected 'paper'"):
        read_config(path, base=preset("paper"))


CONFIGS = sorted((Path(__file__).parents[2] / "experiments" / "configs").glob("*.toml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configs_of_the_experiments_can_be_read(path: Path) -> None:
    name = read_config(path).preset
    assert path.stem.endswith(name)
    # Each opens with the table that it is about, and a command that names it.
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert f"--config experiments/configs/{path.name}" in text


def test_every_group_is_part_of_the_settings():
    assert Config.__bases__ == GROUPS[::-1]
