"""The bytes of a step over many devices: read from a module, and by the formula of the plan."""

import pytest

import snm
from benchmarks import scaling

MODULE = """
  %a = f32[256,512]{1,0} all-gather(%q), channel_id=1, replica_groups={{0,4},{1,5}}, dimensions={0}
  %b = (f32[128,512]{1,0}, s32[]) all-reduce(%s, %t), replica_groups=[2,4]<=[8], to_apply=%add
  %c = f32[9]{0} all-reduce(%s), replica_groups={{0},{1}}, to_apply=%add
  %d = f32[9]{0} add(%s, %s)
"""


def test_collectives_are_read_from_a_module():
    gathered, reduced = scaling.exchanges(MODULE)
    assert gathered == scaling.Exchange("all-gather", 2, 256 * 512 * 4)
    assert reduced == scaling.Exchange("all-reduce", 4, 128 * 512 * 4 + 4)
    assert gathered.sent == 256 * 512 * 4 / 2
    assert reduced.sent == 2 * (128 * 512 * 4 + 4) * 3 / 4


def test_one_device_sends_nothing_and_parts_send_their_best():
    assert set(scaling.sent_bytes(256, 1, 1).values()) == {0}
    few, many = (scaling.sent_bytes(256, 1, parts)["label"] for parts in (2, 64))
    best = 256 * scaling.MINED * 8
    assert many - few == pytest.approx(62 * best, rel=0.05)


def test_a_plan_needs_memory_first():
    machine = scaling.Machine()
    assert scaling.planned(10**9, 10**7, 4096, 32, machine)["label"] == 64
    found = scaling.planned(10**9, 10**7, 4096, 128, machine)
    assert (found["data"], found["label"]) == (2, 64)
    rows = 4 * (10**9 * 513 + 10**7 * 512)
    assert found["tables"] == pytest.approx(rows / 64)


def test_calls_are_timed_in_turn():
    called = []
    clock = iter([0, 1, 10, 14, 20, 22, 30, 37])

    def call(name):
        return lambda: called.append(name)

    found = scaling.interleaved({"a": call("a"), "b": call("b")}, 2, (lambda: next(clock),))
    assert called == ["a", "b", "a", "b"]
    assert found == {"a": [[1, 2]], "b": [[4, 7]]}


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["", "data=2,label=4"])
def test_a_step_that_is_timed_is_taken(mesh, monkeypatch):
    monkeypatch.setattr(scaling, "TIMED_SETTINGS", dict(dim=8, members=1, sampled=64))
    data = snm.generate(points=64, test_points=1, features=60, labels=100, seed=0)
    call = scaling.stepper(data, 16, mesh, 8)
    call()
    call()  # the parameters that the first left


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["data=2,label=4", "label=8"])
def test_the_count_is_the_formula(mesh):
    data, label = (2, 4) if "data" in mesh else (1, 8)
    text = scaling.compiled(100_000, 100_000, 256, mesh)
    counted = sum(one.sent for one in scaling.exchanges(text))
    formula = sum(scaling.sent_bytes(256, data, label).values())
    assert counted == pytest.approx(formula, rel=0.01)
