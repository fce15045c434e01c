"""Resolved settings: no `auto` is left in them, and a run's file has all of them."""

import dataclasses
import json
from typing import get_args, get_type_hints

import pytest
import tiny
from command_line import refused
from edits import accept_edits

import snm
from snm.config.fields import settings_with
from snm.config.marks import Trait
from snm.config.resolve import resolve
from snm.config.resolved import RESOLVED, ResolvedConfig, changed_by_data, read_resolved
from snm.config.settings import Config, config_text, preset
from snm.errors import InputError

# Devices decide it, in each process that trains.
OF_DEVICES = {"data_on", "mining_kernel"}


def words(hint):
    """All literals of an annotation, those of unions too."""
    return [hint] if not get_args(hint) else [word for arg in get_args(hint) for word in words(arg)]


def test_no_type_allows_auto():
    of = {
        kind: {name for name, hint in get_type_hints(kind).items() if "auto" in words(hint)}
        for kind in (Config, ResolvedConfig)
    }
    assert of[ResolvedConfig] == OF_DEVICES
    assert of[Config] == OF_DEVICES | set(RESOLVED)
    assert [f.name for f in dataclasses.fields(ResolvedConfig)] == [
        f.name for f in dataclasses.fields(Config)
    ]  # the order of the lines in config.toml
    with pytest.raises(TypeError, match=f"{len(RESOLVED)} required keyword-only arguments"):
        ResolvedConfig()


def test_a_resolved_type_is_the_asked_one_without_auto():
    asked, resolved = get_type_hints(Config), get_type_hints(ResolvedConfig)
    for name in RESOLVED:
        without = {"auto", "few"} if name in ("epochs", "members") else {"auto"}
        assert set(words(resolved[name])) == set(words(asked[name])) - without, name


def test_a_run_keeps_what_auto_chose():
    kept = set(settings_with(Trait.FIXED_AT_START))
    assert kept <= set(RESOLVED)
    assert not kept & set(settings_with(Trait.MAY_CHANGE))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.dataset(tmp_path_factory.mktemp("data") / "tiny")


@pytest.mark.parametrize(
    "config",
    [
        preset("default"),
        preset("paper"),
        tiny.CONFIG,
        dataclasses.replace(preset("default"), loss="bowl", members=2),
        dataclasses.replace(preset("default"), loss="rankcosine", sampled="all"),
        dataclasses.replace(preset("default"), sampler="in-batch", batch_size=8),
        dataclasses.replace(preset("paper"), mined="auto", score_scale="auto", seen="auto"),
    ],
)
def test_no_value_is_auto(config, data, tmp_path):
    found = resolve(config, data)
    assert type(found) is ResolvedConfig
    values = dataclasses.asdict(found)
    assert {name for name, value in values.items() if value == "auto"} <= OF_DEVICES
    for name in RESOLVED:
        if getattr(config, name) != "auto" and (name, config.sampler) != ("sampled", "in-batch"):
            # The k' of a preset may be more than there are labels to mine.
            assert values[name] == getattr(config, name) or (name, values[name]) == ("mined", "all")
    assert resolve(found, data) == found
    # Through the file of a run, and through the task of a comparison.
    (tmp_path / "config.toml").write_text(config_text(found))
    read = read_resolved(tmp_path / "config.toml")
    assert type(read) is ResolvedConfig and read == found
    assert snm.read_config(tmp_path / "config.toml") == found
    assert ResolvedConfig(**json.loads(json.dumps(values))) == found


def test_resolved_settings_equal_those_that_they_replace(data):
    found = resolve(tiny.CONFIG, data)
    plain = Config(**dataclasses.asdict(found))
    assert found == plain and plain == found and hash(found) == hash(plain)
    other = dataclasses.replace(found, dim=9)
    assert type(other) is ResolvedConfig and other != found and other != plain
    assert found != "settings"


def test_a_file_that_lacks_a_setting_is_of_another_version(tmp_path, capsys):
    data, run = tiny.write(tmp_path / "data"), tmp_path / "run"
    snm.train(data, dataclasses.replace(tiny.CONFIG, epochs=1), run)
    path, out = run / "config.toml", tmp_path / "out"
    whole = path.read_text()
    path.write_text("".join(line for line in whole.splitlines(True) if "seen = " not in line))
    accept_edits(run)
    said = "config.toml: found no seen, expected all settings: it is cut off, or of another version"
    for words in (("evaluate", run), ("export", run, "--to", "npz", "--out", out),
                  ("train", data, "--run-dir", run, *tiny.FLAGS)):  # fmt: skip
        assert said in refused(capsys, *words)
    path.write_text(whole.replace('mining_kernel = "auto"', 'mining_kernel = "on"'))
    accept_edits(run)
    assert "config.toml: mining_kernel: found 'on', expected auto or off" in refused(
        capsys, "evaluate", run
    )
    path.write_text(whole.replace('seen = "keep"', 'seen = "auto"'))
    with pytest.raises(InputError, match="seen: found auto, expected a value, as `snm train`"):
        read_resolved(path)


def test_propensities_are_those_of_a_public_set_of_that_name(data):
    named = dataclasses.replace(data, name="Amazon-670K")
    for found, config, expected in (
        (data, tiny.CONFIG, (0.55, 1.5)),
        (named, tiny.CONFIG, (0.6, 2.6)),
        (named, preset("paper"), (0.6, 2.6)),
        (named, dataclasses.replace(tiny.CONFIG, propensity_a=0.55), (0.55, 2.6)),
    ):
        own = resolve(config, found)
        assert (own.propensity_a, own.propensity_b) == expected
    assert changed_by_data(tiny.CONFIG, resolve(tiny.CONFIG, named))["propensity_a"] == "auto"


def test_a_run_keeps_its_propensities_where_its_data_have_another_name(tmp_path):
    config = dataclasses.replace(tiny.CONFIG, epochs=1, checkpoint_every=1000)
    data = tiny.write(tmp_path / "Amazon-670K")
    first = snm.train(data, config, tmp_path / "run")
    again = snm.train(
        data.rename(tmp_path / "moved"), dataclasses.replace(config, epochs=2), tmp_path / "run"
    )
    assert first["epochs"] == 1 and again["epochs"] == 2
    found = read_resolved(tmp_path / "run/config.toml")
    assert (found.propensity_a, found.propensity_b) == (0.6, 2.6)


def test_what_few_passes_decided_stays_when_passes_are_added(tmp_path, monkeypatch):
    monkeypatch.setattr("snm.config.resolve.evidence_lost", lambda *_: 0.0)
    monkeypatch.setattr("snm.config.resolve.neighbors_lost", lambda *_: 0.0)
    monkeypatch.setattr("snm.config.auto.MIN_MEMORY_POINTS", 20)
    monkeypatch.setattr(
        "snm.config.auto.auto_memory", lambda n, members, epochs, *_, **__: epochs < 4
    )
    data = snm.load_data(tiny.write(tmp_path / "data"))
    few = dataclasses.replace(tiny.CONFIG, input_dropout="auto", memory="auto", epochs=3)
    more = dataclasses.replace(few, epochs=4)
    decided = [
        (found.input_dropout, found.memory) for found in (resolve(few, data), resolve(more, data))
    ]
    assert decided == [(0.0, "on"), (0.5, "off")]
    snm.train(data, few, tmp_path / "run")
    assert snm.train(data, more, tmp_path / "run")["epochs"] == 4
    found = read_resolved(tmp_path / "run/config.toml")
    assert (found.input_dropout, found.memory) == (0.0, "on")
    for name, value in (("input_dropout", 0.5), ("memory", "off")):
        with pytest.raises(InputError, match=name):
            snm.train(data, dataclasses.replace(more, **{name: value}), tmp_path / "run")
