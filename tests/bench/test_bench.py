"""Tests the benchmark harness: its arithmetic, files and comparisons, not the timings."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bench.small_shape import TINY

from benchmarks.tables.summary import markdown
from snm.bench import contest as contest_module
from snm.bench import kernels, peers
from snm.bench.cli import make_results_table, slower
from snm.bench.contest import (
    Contest,
    Contestant,
    Missing,
    OwnContestant,
    quartiles,
    ratios,
    run_contest,
)
from snm.bench.parts import PARTS
from snm.bench.rates import MachineRates, Rates, Work
from snm.bench.shapes import SHAPES, make_points
from snm.bench.steps import copies_table, step_work

# -- arithmetic --------------------------------------------------------------------------------


def test_floor_of_a_step_by_hand():
    # EUR-Lex: 256 points, 1024 labels, 512 dimensions; a multiply-add is two operations.
    scores = 2 * 256 * 1024 * 512
    linear = 2 * 256 * 512 * 512
    mined = step_work(SHAPES["eurlex"], 16, rows_touched=2000)
    assert mined.flop == scores + 3 * linear == 671_088_640
    # The sample's rows are read; all of them may be mined by some point, and are then read and
    # written; feature rows are read for the sums, and read and written for the update.
    assert mined.bytes == 4 * 512 * (1024 + 2 * 1024 + 3 * 2000)
    negative_sampling = step_work(SHAPES["eurlex"], 1024)
    assert negative_sampling.flop == 3 * scores + 3 * linear == 1_207_959_552
    # At 32,768 labels, 512 points with 16 mined and a positive touch no more than 8,704 rows.
    many = step_work(SHAPES["amazon670k"], 16)
    assert many.bytes == 4 * 512 * (32_768 + 2 * 8_704)


def test_a_floor_is_the_slower_of_products_and_copies():
    rates = Rates(flop=100.0, bytes=10.0)
    assert Work(flop=300, bytes=20).seconds(rates) == 3
    assert Work(flop=300, bytes=50).seconds(rates) == 5


def test_ratios_are_taken_round_by_round():
    # The third round was slow for both, which must not affect the ratio.
    assert ratios([10, 20, 300], [10, 10, 100]) == pytest.approx((1.5, 2.0, 2.5))
    assert quartiles([4, 1, 2, 3, 5]) == (2, 3, 4)
    with pytest.raises(ValueError):
        ratios([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%copy.1 = f32[5000,512]{1,0} copy(f32[5000,512]{1,0} %p)", True),
        ("%copy.2 = f32[3993,512]{1,0} copy(%p)", True),
        ("%copy.3 = f32[256,512]{1,0} copy(%p)", False),
        ("%fusion = f32[5000,512]{1,0} fusion(%copy.3), kind=kLoop", False),
    ],
)
def test_a_copy_of_a_table_is_found(line, expected):
    assert copies_table(line, SHAPES["eurlex"]) is expected


# -- a contest with a fake clock ---------------------------------------------------------------


class Clock:
    """A clock that only the contestants advance."""

    def __init__(self):
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def takes(self, *seconds: float):
        """A job whose calls take 0 seconds (the warm-up), then these seconds in turn."""
        left = [0.0, *seconds]

        def call() -> None:
            self.now += left.pop(0)

        return call


class Steady:
    """A machine with 100 operations and 10 bytes per second."""

    platform = "cpu"

    def rates(self, *, copies: bool = True) -> Rates:
        return Rates(100.0, 10.0)

    def peak_memory(self) -> int:
        return 4096


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(contest_module.time, "perf_counter", clock)
    return clock


def rows_of(clock) -> list:
    ours = [
        OwnContestant("fast", clock.takes(1, 2, 3, 1, 2, 3), case="fast", sampled=64, mined=16,
                      work=Work(flop=50), points=100, against=("slow", "absent", "twice"),
                      notes={"size": 3}),
        OwnContestant("twice", clock.takes(2, 4, 12, 2, 4, 12), times=2, sampled=64, mined="all"),
    ]  # fmt: skip
    peers = [Contestant("slow", clock.takes(10, 10, 60)), Missing("absent", "not installed")]
    return run_contest(Contest("step", "tiny", Steady(), ours, lambda: peers), 3, lambda text: None)


def test_rows_of_a_contest(clock):
    fast, twice = rows_of(clock)
    assert fast["median_s"] == 2
    assert fast["quartiles_s"] == [1.5, 2.5]
    assert fast["floor_s"] == 0.5
    assert fast["ratio_to_floor"] == 4
    assert fast["ratio_to_peer"] == {"slow": 10, "twice": 1}  # of 10, 5, 20; of 1, 1, 2
    assert fast["peers_missing"] == {"absent": "not installed"}
    assert fast["examples_per_s"] == 50  # 100 in 2 seconds
    assert fast["share_of_products"] == 0.25  # 50 in 2 seconds, of 100 a second
    assert "share_of_copies" not in fast
    assert fast["peak_bytes"] == 4096
    assert fast["size"] == 3
    assert twice["median_s"] == 2  # of 1, 2, 6: a call does the job twice
    assert twice["floor_s"] is None
    assert twice["ratio_to_floor"] is None
    make_results_table([fast, twice])


def test_rows_are_json_with_the_promised_names(clock):
    row = json.loads(json.dumps(rows_of(clock)))[0]
    promised = {"part", "shape", "sampled", "mined", "device", "median_s", "quartiles_s", "floor_s",
                "ratio_to_floor", "ratio_to_peer", "peak_bytes"}  # fmt: skip
    assert promised <= set(row)


def test_tables_that_are_in_memory_together_have_no_peak(clock):
    ours = [OwnContestant(name, clock.takes(1, 2), case=name) for name in ("few", "many")]
    rows = run_contest(
        Contest("growth", "tiny", Steady(), ours, has_peaks=False), 2, lambda text: None
    )
    assert [row["peak_bytes"] for row in rows] == [None, None]
    assert [column.header for column in make_results_table(rows).columns][-1] == "times faster than"
    told = "\n".join(markdown([{**row, "on": {"malloc": "default"}} for row in rows]))
    assert "peak" not in told
    assert "| tiny | many | 1500 (1250-1750) |" in told.replace(",", "")


# -- against an earlier run --------------------------------------------------------------------


def test_a_repeat_is_not_slower_and_twice_the_time_is(clock):
    before = [row | {"compute_dtype": "float32"} for row in rows_of(clock)]
    assert slower(before, before) == []
    now = [dict(row) for row in before]
    now[0] |= {"ratio_to_floor": 8.0, "ratio_to_floor_quartiles": [7.0, 9.0]}
    now[1] |= {"median_s": 12.0, "quartiles_s": [11.0, 13.0]}
    first, second = slower(now, before)
    assert first.startswith("slower: step tiny fast k' 16: 2.00 times")
    assert second.startswith("slower: step tiny k' all: 6.00 times")


def test_a_noisy_ratio_is_not_called_slower(clock):
    before = [row | {"compute_dtype": "float32"} for row in rows_of(clock)]
    now = [dict(before[0]) | {"ratio_to_floor": 8.0, "ratio_to_floor_quartiles": [3.5, 9.0]}]
    assert slower(now, before) == []


# -- data and machine --------------------------------------------------------------------------


def test_synthetic_points_have_the_sizes_of_their_shape():
    features, labels = make_points(TINY, 4000)
    assert features.shape == (4000, 300)
    assert labels.shape == (4000, 200)
    counts = np.diff(features.indptr)
    assert counts.min() >= 1
    assert abs(counts.mean() - 12) < 5 * np.sqrt(12 / 4000)
    assert features.has_canonical_format  # no feature twice in a point
    np.testing.assert_allclose(features.multiply(features).sum(axis=1), 1, rtol=1e-5)
    # In proportion to 1 / rank: with few draws a point the first rank leads the tenth by far.
    often = np.sort(np.bincount(labels.indices, minlength=200))[::-1]
    assert 4 < often[0] / often[9] < 12


def test_a_machine_has_rates():
    rates = MachineRates(8, 16).rates()
    assert rates.flop > 0
    assert rates.bytes > 0


# -- the parts ---------------------------------------------------------------------------------


def test_each_type_of_factors_is_compared_with_the_rate_of_its_products():
    machine = MachineRates(TINY.batch, TINY.dim)
    found = {one.ours[0].case: one.machine for one in PARTS["evaluate"](TINY, machine)}
    assert found["float32"] is machine
    assert found["bfloat16"]._left.dtype == jnp.bfloat16
    assert found["bfloat16"]._left.shape == (TINY.batch, TINY.dim)


def test_scores_have_the_factors_of_the_row(monkeypatch):
    taken = []
    monkeypatch.setattr(
        kernels, "best_scores", lambda *_, compute_dtype: taken.append(compute_dtype)
    )
    half = dataclasses.replace(TINY, compute_dtype="bfloat16")
    (contest,) = PARTS["score_mine"](half, MachineRates(TINY.batch, TINY.dim, jnp.bfloat16))
    contest.ours[0].call()
    assert taken == [jnp.bfloat16]


@pytest.mark.parametrize("part", ["bag", "score_mine"])
def test_parts_are_compiled_as_a_training_step(part, monkeypatch):
    monkeypatch.setattr(kernels, "step_options", lambda: {"no_such_option": 1})
    (contest,) = PARTS[part](TINY, MachineRates(TINY.batch, TINY.dim))
    with pytest.raises(jax.errors.JaxRuntimeError, match="no_such_option"):
        contest.ours[0].call()


@pytest.mark.parametrize(
    "part", ["sample", *(pytest.param(part, marks=pytest.mark.slow) for part in ("step", "epoch"))]
)
def test_what_runs_on_a_gpu_runs_here(part):
    """Runs the branches for GPUs: data on the device, many steps per dispatch, bfloat16 factors."""
    machine = MachineRates(TINY.batch, TINY.dim, jnp.bfloat16)
    machine.platform = "gpu"
    size = dataclasses.replace(TINY, compute_dtype="bfloat16")
    for contest in PARTS[part](size, machine):
        contest.peers = tuple
        for row in run_contest(contest, 2, lambda text: None):
            assert row["median_s"] > 0
            assert row["device"] == "gpu"


def test_shapes_are_those_of_the_papers_table():
    assert {name: shape.num_labels for name, shape in SHAPES.items()} == {
        "eurlex": 3993, "amazoncat": 13_330, "wikilshtc": 325_056, "amazon670k": 670_091,
        "amazon3m": 2_812_281,
    }  # fmt: skip


# -- the peers do the same job -----------------------------------------------------------------


def test_draws_have_no_last_call(monkeypatch):
    drawn = []
    monkeypatch.setattr(jax, "block_until_ready", drawn.append)
    _, choice = peers.draws(8, 4)
    for _ in range(10_001):
        choice.call()
    assert len(set(map(tuple, np.asarray(drawn)))) > 1


def test_no_peer_of_float32_is_timed_against_bfloat16():
    half = dataclasses.replace(TINY, compute_dtype="bfloat16")
    (contest,) = PARTS["score_mine"](half, MachineRates(TINY.batch, TINY.dim, jnp.bfloat16))
    found = [*contest.peers(), *peers.steps(half, 16, [], "cpu")]
    assert len(found) == 2 + 3
    assert all(one.reason.startswith("float32 only") for one in found)


@pytest.mark.parametrize("mine_first", [False, True])
def test_torch_starts_from_the_same_loss(mine_first):
    torch = pytest.importorskip("torch", reason="the peers are an extra: bench")

    from snm.bench.peers_torch import TorchStep
    from snm.bench.shapes import make_model, make_source
    from snm.model.model import init_state
    from snm.model.train_step import train_step

    source = make_source(TINY, 16, 16)
    batch = jax.tree.map(lambda leaf: leaf[0], source.stack(0, 1))
    model = make_model(TINY, 16)
    state = init_state(model)
    peer = TorchStep(TINY, 16, [batch], mine_first=mine_first)
    with torch.no_grad():
        peer.features.weight.copy_(torch.from_numpy(np.array(state.features.rows)))
        peer.classes.weight.copy_(torch.from_numpy(np.array(state.head.table.rows)))
        (kernel,) = jax.tree.leaves(state.tower)
        peer.linear.weight.copy_(torch.from_numpy(np.array(kernel.T)))
    _, metrics = jax.jit(train_step, static_argnums=0)(model, state, batch)
    assert peer() == pytest.approx(float(metrics.loss), rel=1e-5)


def test_a_peer_that_is_broken_is_left_out(monkeypatch):
    def no_library(name):
        raise OSError("libcudnn.so.9: cannot open shared object file\nsee elsewhere")

    monkeypatch.setattr(peers.importlib, "import_module", no_library)
    (missing,) = peers._needs(["torch forward"], list, "torch")
    expected = "torch does not work here: libcudnn.so.9: cannot open shared object file"
    assert missing == Missing("torch forward", expected)

    def not_installed(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(peers.importlib, "import_module", not_installed)
    (missing,) = peers._needs(["torch forward"], list, "torch")
    assert missing.reason == "torch is not installed: pip install -e '.[bench]' -c constraints.txt"
