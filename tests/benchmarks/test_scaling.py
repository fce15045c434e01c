"""The bytes of a step over many devices: read from a module, and by the formula of the plan."""

import pytest

import snm
from benchmarks.devices import scaling
from snm.distributed.mesh import parse_mesh

MODULE = """
ENTRY %main (q: f32[128,512], s: f32[128,512], t: s32[]) -> f32[32,512] {
  %q = f32[128,512]{1,0} parameter(0)
  %s = f32[128,512]{1,0} parameter(1)
  %t = s32[] parameter(2)
  %a = f32[256,512]{1,0} all-gather(%q), channel_id=1, replica_groups={{0,4},{1,5}}, dimensions={0}
  %b = (f32[128,512]{1,0}, s32[]) all-reduce(%s, %t), replica_groups=[2,4]<=[8], to_apply=%add
  %c = f32[9]{0} all-reduce(%s), replica_groups={{0},{1}}, to_apply=%add
  %d = f32[9]{0} add(%s, %s)
  ROOT %e = f32[32,512]{1,0} reduce-scatter(%s), replica_groups=[2,4]<=[8], dimensions={0}
}
"""


def test_collectives_are_read_from_a_module():
    gathered, reduced, scattered = scaling.collectives(MODULE)
    assert gathered == scaling.Exchange("all-gather", 2, 256 * 512 * 4)
    assert reduced == scaling.Exchange("all-reduce", 4, 128 * 512 * 4 + 4)
    assert gathered.sent == 256 * 512 * 4 / 2
    assert reduced.sent == 2 * (128 * 512 * 4 + 4) * 3 / 4
    assert scattered == scaling.Exchange("reduce-scatter", 4, 32 * 512 * 4)
    assert scattered.sent == 128 * 512 * 4 * 3 / 4  # of what each had: all parts but its own


def test_one_device_sends_nothing_and_parts_send_their_best():
    assert set(scaling.sent_bytes(256, 1, 1).values()) == {0}
    few, many = (scaling.sent_bytes(256, 1, parts)["label"] for parts in (2, 64))
    best = 256 * scaling.MINED * 8
    assert many - few == pytest.approx(62 * best, rel=0.05)


def test_a_plan_needs_memory_first():
    gpu = scaling.AssumedGpu()
    assert scaling.estimate_step(10**9, 10**7, 4096, 32, gpu)["label"] == 64
    found = scaling.estimate_step(10**9, 10**7, 4096, 128, gpu)
    assert (found["data"], found["label"]) == (2, 64)
    rows = 4 * (10**9 * 513 + 10**7 * 512)
    assert found["tables"] == pytest.approx(rows / 64)
    found = scaling.estimate_step(3 * 10**6, 340_000, 1024, 8, gpu)
    assert (found["data"], found["label"]) == (8, 1)  # feature rows in eight, class rows whole
    assert found["tables"] == pytest.approx(4 * (3 * 10**6 * 513 + 340_000 / 8 * 512))


def test_sums_of_features_cross_the_axis_that_their_rows_lie_over():
    """With 4 x 2 over `data`, with 4 x 4 over `label`: by hand, one vector a point each."""
    vector, best = 4 * scaling.DIM, scaling.MINED * 8
    others = 2 * 64 * scaling.LABELS_A_POINT * 4
    by_data, by_label = scaling.sent_bytes(256, 4, 2), scaling.sent_bytes(256, 4, 4)
    assert by_data["label"] == (2 * 64 * vector + others + 2 * 64 * best) / 2
    assert by_label["label"] == (2 * 64 * vector * 2 + others + 4 * 64 * best) * 3 / 4
    assert by_data["data"] - by_label["data"] == 256 * vector * 3 / 4


def test_calls_are_timed_in_turn():
    called = []
    clock = iter([0, 1, 10, 14, 20, 22, 30, 37])

    def call(name):
        return lambda: called.append(name)

    found = scaling.time_interleaved({"a": call("a"), "b": call("b")}, 2, (lambda: next(clock),))
    assert called == ["a", "b", "a", "b"]
    assert found == {"a": [[1, 2]], "b": [[4, 7]]}


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["", "data=2,label=4"])
def test_a_step_that_is_timed_is_taken(mesh, monkeypatch):
    monkeypatch.setattr(scaling, "TIMED_SETTINGS", dict(dim=8, members=1, sampled=64))
    data = snm.generate(points=64, test_points=1, features=60, labels=100, seed=0)
    call = scaling.make_stepper(data, 16, mesh, 8)
    call()
    call()  # the parameters that the first left


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["data=2,label=4", "label=8", "data=8", "data=4,label=2"])
def test_the_count_is_the_formula(mesh):
    data, label = parse_mesh(mesh)
    text = scaling.compile_step(100_000, 100_000, 256, mesh)
    counted = sum(one.sent for one in scaling.collectives(text))
    formula = sum(scaling.sent_bytes(256, data, label).values())
    # The formula counts features and labels of a mean batch; blocks have room for more.
    assert counted == pytest.approx(formula, rel=0.03)
