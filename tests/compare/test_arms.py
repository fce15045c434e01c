"""The arms of `snm compare`: their names, settings and grids."""

import dataclasses
import json
import sys

import pytest
import tiny

import snm
from snm.cli.main import main
from snm.compare.arms import BASELINE, EXTRAS, plan_arms, tuning_grid
from snm.compare.campaign import WITHOUT_MEMORY, Campaign
from snm.compare.cli import Compare
from snm.config.resolve import resolve
from snm.errors import InputError
from snm.losses.sampled import LOSSES


def test_a_comparison_starts_from_the_preset_of_its_file(tmp_path):
    path = tmp_path / "fast.toml"
    path.write_text('preset = "fast"\ndim = 7\n')
    expected = dataclasses.replace(snm.preset("fast"), dim=7, mined="all", **WITHOUT_MEMORY)
    for asked in (None, "fast"):
        assert Compare("tiny", tmp_path, config=path, preset=asked).base() == expected
    with pytest.raises(InputError, match=r"fast\.toml: preset: found 'fast', expected 'paper', as"):
        Compare("tiny", tmp_path, config=path, preset="paper").base()
    path.write_text("dim = 7\n")
    paper = dataclasses.replace(snm.preset("paper"), dim=7, mined="all")
    assert Compare("tiny", tmp_path, config=path).base() == paper
    path.write_text('preset = ["fast"]\n')
    with pytest.raises(InputError, match=r"fast\.toml: preset: found"):
        Compare("tiny", tmp_path, config=path).base()


@pytest.mark.parametrize(
    ("flag", "lines", "memory", "adjustment"),
    [
        (None, "", "off", "off"),
        ("on", "", "on", "auto"),
        ("auto", "", "auto", "auto"),
        (None, 'memory = "auto"', "auto", "auto"),
        (None, 'memory = "on"\nlogit_adjustment = "off"', "on", "off"),
        ("off", 'memory = "on"\nlogit_adjustment = "on"', "off", "off"),
        (None, 'logit_adjustment = "auto"', "off", "auto"),
    ],
)
def test_arms_have_a_memory_only_if_it_is_asked_for(tmp_path, flag, lines, memory, adjustment):
    path = tmp_path / "own.toml"
    path.write_text(lines)
    base = Compare("tiny", tmp_path, config=path, preset="default", memory=flag).base()
    assert (base.memory, base.logit_adjustment) == (memory, adjustment)


def test_no_arm_has_a_memory_that_the_preset_would_try(tmp_path):
    """Of 240 points in few epochs the preset fast tries one."""
    dataset = snm.load_data("synthetic")
    assert resolve(snm.preset("fast"), dataset).memory == "on"
    for flag, memory in ((None, "off"), ("auto", "on")):
        base = Compare("synthetic", tmp_path, preset="fast", memory=flag, sampled=64).base()
        base = dataclasses.replace(base, loss="bowl")
        arms = plan_arms(base, mined=(2,), losses=("bowl", "softmax"), extras=list(EXTRAS))
        made = Campaign("synthetic", dataset, arms, tmp_path).arms
        assert {arm.config.memory for arm in made} == {memory}
        assert {arm.config.logit_adjustment for arm in made} == {memory}
        told = [arm.about.endswith("; with a memory of neighbours") for arm in made]
        assert told == [memory == "on"] * len(made)


def test_arms_have_names_and_baselines():
    base = snm.preset("paper")
    arms = plan_arms(base, mined=(1, 16), losses=("bowl", "softmax"), exclude_all=True)
    names = [arm.name for arm in arms]
    assert names[:3] == [BASELINE, "top-1", "top-16"]
    assert "softmax-top-16-exclude-all" in names
    assert len(set(names)) == len(names) == 12
    by_name = {arm.name: arm for arm in arms}
    assert by_name[BASELINE].config.mined == "all"
    assert by_name["softmax-top-1"].baseline == "softmax-negative-sampling"
    assert by_name["top-16-exclude-all"].config.exclude == "all"
    plain = by_name["top-16"].config
    assert plain == dataclasses.replace(base, mined=16)


def test_extras_are_divided_by_negative_sampling_of_their_loss():
    softmax = ["frequency", "in-batch", "full-softmax"]
    for losses, loss, expected in (
        (("bowl", "softmax"), "bowl", "softmax-negative-sampling"),
        (("bowl", "softmax"), "softmax", "softmax-negative-sampling"),
        (("softmax", "bowl"), "bowl", BASELINE),
        (("bowl", "powl"), "bowl", BASELINE),  # of another loss: for its time alone
    ):
        base = dataclasses.replace(snm.preset("paper"), loss=loss)
        arms = plan_arms(base, mined=(16,), losses=losses, extras=[*softmax, "anneal"])
        by_name = {arm.name: arm for arm in arms}
        assert {by_name[name].baseline for name in softmax} == {expected}
        assert by_name["anneal"].baseline == BASELINE
        for name in softmax if "softmax" in losses else ():
            own, other = (dataclasses.asdict(arm.config) for arm in (by_name[name],
                                                                    by_name[expected]))  # fmt: skip
            assert {key for key in own if own[key] != other[key]} <= {
                "sampler", "sampled", "sampled_start",
            }  # fmt: skip


def test_arms_of_all_labels_have_all_at_every_step():
    """Where B of the other arms starts lower."""
    base = dataclasses.replace(snm.preset("paper"), sampled_start=8)
    *others, mined, softmax = plan_arms(
        base, mined=(2,), losses=("bowl",), extras=["anneal", "all-labels", "full-softmax"]
    )
    assert [arm.config.sampled_start for arm in others] == [8, 8, 8]
    for arm in (mined, softmax):
        assert (arm.config.sampled, arm.config.sampled_start) == ("all", 0)


def test_listwise_losses_are_arms_of_their_own(dataset):
    base = snm.preset("paper")
    listwise = [name for name in LOSSES if LOSSES[name].listwise]
    losses = ("bowl", *listwise)
    arms = plan_arms(base, mined=(2,), losses=losses, exclude_all=True)
    # Listwise arms already exclude all known labels, so they have no second arm that does.
    assert [arm.name for arm in arms] == [
        BASELINE, "top-2", f"{BASELINE}-exclude-all", "top-2-exclude-all",
        *(f"{loss}-{name}" for loss in listwise for name in (BASELINE, "top-2")),
    ]  # fmt: skip
    by_name = {arm.name: arm for arm in arms}
    arm = by_name["listmle-top-2"]
    assert arm.baseline == "listmle-negative-sampling" and "lists of all positives" in arm.about
    assert (arm.config.positives, arm.config.exclude, arm.config.mined) == ("all", "all", 2)
    for arm in arms:
        config = resolve(dataclasses.replace(arm.config, sampled=8, epochs=1), dataset)
        trials = [dataclasses.replace(config, **trial).check() for trial in tuning_grid(config)]
        assert len(trials) == 6
    assert resolve(by_name["listnet-top-2"].config, dataset).learning_rate == 20.0


@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_the_grid_has_the_arms_own_settings(dataset, weight):
    config = dataclasses.replace(
        tiny.CONFIG, loss="bowl", phi="hinge", positives="one", exclude="positive",
        negative_weight=weight,
    )  # fmt: skip
    own = resolve(config, dataset)
    grid = tuning_grid(own)
    assert own in [dataclasses.replace(own, **trial) for trial in grid]
    assert {trial["negative_weight"] for trial in grid} == {weight, 4 * weight}


def test_settings_of_a_loss_stay_with_it(dataset):
    """Those of bowl and powl are not passed on; a loss that the file names keeps its own."""
    small = dataclasses.replace(snm.preset("paper"), sampled=8, epochs=1)
    margin = dataclasses.replace(small, phi="logistic", vartheta="power-law", negative_weight=4.0)
    losses, extras = ("bowl", "softmax", "listnet"), ["frequency", "in-batch", "full-softmax"]
    for arm in plan_arms(margin, mined=(2,), losses=losses, extras=extras):
        config = resolve(arm.config, dataset)
        assert (config.phi == "logistic") == (config.loss == "bowl"), arm.name
    lists = dataclasses.replace(small, loss="listnet", transformation="sigmoid", temperature=2.0)
    for arm in plan_arms(lists, mined=(2,), losses=("listnet", "powl", "smoothed-dcg")):
        config = resolve(arm.config, dataset)
        assert (config.transformation == "sigmoid") == (config.loss == "listnet"), arm.name
        assert (config.temperature == 2.0) == (config.loss != "powl"), arm.name
    for loss in ("softmax", "listnet"):
        own = dataclasses.replace(small, loss=loss, learning_rate=2.0, score_scale=3.0)
        for arm in plan_arms(own, mined=(2,), losses=(loss,)):
            assert (arm.config.learning_rate, arm.config.score_scale) == (2.0, 3.0)
        softmax = ["frequency", "in-batch", "full-softmax"]
        for arm in plan_arms(own, mined=(2,), losses=(loss,), extras=softmax)[2:]:
            expected = (2.0, 3.0) if loss == "softmax" else ("auto", "auto")
            assert (arm.config.learning_rate, arm.config.score_scale) == expected
        for extra in ("power-law", "epsilon-tail", "subsample", "logistic", "squared-hinge"):
            with pytest.raises(InputError, match=f"{extra} where {loss} is the first loss"):
                plan_arms(own, mined=(2,), losses=(loss,), extras=[extra])
        arms = plan_arms(own, mined=(2,), losses=(loss,), extras=["anneal", "all-labels"])
        assert len(arms) == 4


def test_settings_stay_with_the_arms_that_read_them(dataset):
    base = dataclasses.replace(snm.preset("paper"), sampled=8, epochs=1, phi="ramp", ramp_rho=2.0,
                               power_alpha=3.0, frequency_power=0.5)  # fmt: skip
    extras = ["power-law", "logistic", "frequency"]
    arms = plan_arms(base, mined=(2,), losses=("bowl", "softmax"), extras=extras)
    configs = {arm.name: resolve(arm.config, dataset) for arm in arms}
    assert {name for name, config in configs.items() if config.ramp_rho == 2.0} == {
        BASELINE, "top-2", "power-law",
    }  # fmt: skip
    assert [name for name, config in configs.items() if config.power_alpha == 3.0] == ["power-law"]
    assert [n for n, config in configs.items() if config.frequency_power == 0.5] == ["frequency"]
    with pytest.raises(InputError, match=r"^power_alpha: found 3\.0 with vartheta top"):
        plan_arms(base, mined=(2,), losses=("bowl",), extras=["frequency"])


def test_every_extra_fits_a_data_set_and_every_arm_has_as_many_trials(dataset):
    base = dataclasses.replace(snm.preset("paper"), sampled=8, epochs=1)
    arms = plan_arms(base, mined=(2, 3), losses=("bowl", "powl", "softmax"), extras=list(EXTRAS))
    configs = [resolve(arm.config, dataset) for arm in arms]
    assert len({json.dumps(dataclasses.asdict(config)) for config in configs}) == len(arms)
    assert {len(tuning_grid(config)) for config in configs} == {6}


def test_mining_all_that_is_sampled_is_said_to_be_negative_sampling(
    folder, tmp_path, monkeypatch, capsys
):
    """Of 2 labels 1 is sampled, of 20 all 19: k' = B leaves no label out."""
    monkeypatch.setattr(Campaign, "run", lambda self, _: sys.exit(0))
    pair = tmp_path / "pair"
    pair.mkdir()
    for name in ("train.txt", "test.txt"):
        (pair / name).write_text("2 3 2\n0 0:1\n1 1:1\n")
    for number, (words, same) in enumerate(
        [
            ([pair], "top-1 is negative sampling, as B is 1"),
            ([folder, "--mined", 1, 19], "top-19 is negative sampling, as B is 19"),
            ([folder, "--mined", 1, 18], None),
        ]
    ):
        with pytest.raises(SystemExit) as error:
            main(["compare", *map(str, words), "--out", str(tmp_path / f"out{number}")])
        assert error.value.code == 0
        said = capsys.readouterr().out
        assert said.count("is negative sampling") == (same is not None)
        assert same is None or same in said
