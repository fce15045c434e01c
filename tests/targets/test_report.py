"""The table of targets, and what follows from an account by arithmetic."""

import dataclasses
import importlib.util

import pages
import pytest
import tiny
from command_line import refused

from snm.config.resolve import resolve
from snm.config.settings import Config, preset
from snm.errors import InputError
from snm.machine.platform import compiling_for, for_platform, platform
from snm.targets import programs
from snm.targets.account import Account, Exchange
from snm.targets.programs import Program
from snm.targets.report import _print, estimate_seconds, limits, report, with_mesh_of_target
from snm.targets.table import TARGETS, find_target

SOURCES = ("/tpu/docs/v5e)", "/tpu/docs/v5p)", "/tpu/docs/v6e)", ".txtpb`")


def program(name="training, k' 16", **changes) -> Program:
    counts = Account(moved=8 * 3.35232e9, exchanges=[Exchange("all-reduce", 4, 450_000_000)] * 8)
    counts.operations.update({"float32": 8 * 67e9, "default": 8 * 495e9})
    sizes = dict(arguments=100, aliased=80, results=85, temporaries=7)
    made = Program(name, 8, **sizes, account=counts, faults=[], seconds=1.0)
    return dataclasses.replace(made, **changes)


def test_times_are_amounts_over_peaks():
    """1 ms of memory, 1 ms of each product, and 2 * 3/4 ms of links, each a step."""
    found = limits(program(), TARGETS["h100"])
    assert found == pytest.approx({"memory": 1e-3, "products": 2e-3, "links": 1.5e-3})
    assert estimate_seconds(program(), TARGETS["h100"]) == (pytest.approx(2e-3), "products")
    # What a TPU rounds to bfloat16 by default, and makes of six products in float32.
    tpu = limits(program(), TARGETS["v5e"])["products"]
    assert tpu == pytest.approx(67e9 / (197e12 / 6) + 495e9 / 197e12)


def test_a_report_adds_up():
    found = report(TARGETS["h100"], "label=4", [program(), program("evaluation")], 500, limit=111)
    assert found["peak_bytes"] == 100 + 85 - 80 + 7 and not found["fits"]
    assert found["seconds_per_epoch"] == pytest.approx(500 * 2e-3)
    (one, _) = found["programs"]
    assert one["collectives_per_step"] == {"all-reduce": {"count": 1, "bytes": 450_000_000}}
    assert one["moved_bytes_per_step"] == pytest.approx(3.35232e9)


def test_an_epoch_has_the_steps_of_each_stage(capsys):
    """2 ms a step for a quarter of them, and the 4 ms of a larger sample for the others."""
    larger = Account(moved=8 * 4 * 3.35232e9, exchanges=[])
    both = [program(share=0.25), program("training, k' 32", account=larger, share=0.75)]
    found = report(TARGETS["h100"], "", both, 2000, limit=112)
    assert found["seconds_per_epoch"] == pytest.approx(2000 * 3.5e-3)
    _print(found)
    assert "2,000 steps an epoch: at least 7 s on average. Times are" in capsys.readouterr().out


def test_the_stages_of_a_run_are_its_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "make_devices", lambda *_: [None])
    monkeypatch.setattr(programs, "compile_training", lambda name, *_: program(name))
    monkeypatch.setattr(programs, "compile_scoring", lambda name, *_: program(name))
    data = tiny.dataset(tmp_path / "data")
    asked = dataclasses.replace(tiny.CONFIG, epochs=4, mined=4, mined_start=8)
    found, _ = programs.compile_run(data, resolve(asked, data), TARGETS["h100"])
    shares = {one.name: one.share for one in found if one.name.startswith("training")}
    assert shares == pytest.approx({"training, k' 8": 0.5, "training, k' 4": 0.5})


def test_devices_and_mesh_must_agree():
    assert with_mesh_of_target("h100-4", preset("paper"))[1].mesh == "label=4"
    asked = Config(mesh="data=2,label=4")
    assert with_mesh_of_target("v5p", asked)[1].mesh == with_mesh_of_target("v5p-8", asked)[1].mesh
    with pytest.raises(InputError, match="v5e-4"):
        with_mesh_of_target("v5e-4", asked)
    with pytest.raises(InputError, match="v5e-1 to v5e-8"):
        with_mesh_of_target("v5e", Config(mesh="label=16"))


@pytest.mark.parametrize("text", ["h300", "v5e-0", "v5e-9", "v5e-x", "h100-"])
def test_unknown_targets_are_refused(text):
    with pytest.raises(InputError, match=r"v5e, v5p, v6e, h100, h200, b200|-1 to "):
        find_target(text)


@pytest.mark.parametrize(("target", "wheel"), [("v5e", "libtpu"), ("b200", "jax_cuda12_plugin")])
def test_without_the_compiler_one_line_says_how_to_get_it(target, wheel, capsys):
    if importlib.util.find_spec(wheel) is not None:
        pytest.skip("the compiler is installed")
    told = refused(capsys, "plan", "synthetic", "--preset", "paper", "--target", target)
    assert told.startswith(f"--target {target}")
    assert f"pip install -e '.[{TARGETS[target].extra}]'" in told


def test_the_page_has_the_peaks_of_each_target():
    page = (pages.ROOT / "docs/targets.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    named = {row[0]: row for row in rows if row[0] in TARGETS and row[-1].endswith(SOURCES)}
    assert list(named) == list(TARGETS)
    for name, target in TARGETS.items():
        rates = [target.rates[kind] / 1e12 for kind in ("bfloat16", "tensorfloat32", "float32")]
        peaks = [target.memory / 2**30, target.bandwidth / 1e9, *rates, target.link / 1e9]
        for cell, peak in zip(named[name][1:-1], peaks, strict=True):
            digits = len(cell.partition(".")[2])
            assert float(cell.replace(",", "")) == round(peak, digits), (name, cell, peak)


def test_the_platform_is_the_one_compiled_for():
    assert platform() == "cpu"
    with compiling_for("gpu", 1 << 30):
        assert (platform(), for_platform({"cpu": 1, "gpu": 2})) == ("gpu", 2)
    assert platform() == "cpu"
