"""The bytes of each stage, by hand."""

from planning.example_sizes import MIB, run_sizes

from snm.planning.bytes_by_stage import bytes_by_stage


def test_stages_by_hand():
    host, device = bytes_by_stage(run_sizes(), on_cpu=False)
    assert device["start"] == {"tables": 100 * MIB, "optimizer": 10 * MIB, "activations": 50 * MIB}
    assert sum(device["training"].values()) == (100 + 10 + 20 + 1) * MIB
    assert sum(device["loading"].values()) == 110 * MIB
    assert host["training"]["checkpoint"] == 110 * MIB  # the copy that is written on the side
    assert host["loading"]["checkpoint"] == 0  # what is in memory is not read
    host, _ = bytes_by_stage(run_sizes(validates=True), on_cpu=False)
    assert host["loading"]["checkpoint"] == 110 * MIB  # the best may be another one
    # Three members: each is read, and written to its place among the three.
    host, device = bytes_by_stage(run_sizes(members=3), on_cpu=False)
    assert device["loading"] == {"tables": 400 * MIB, "optimizer": 10 * MIB}
    assert host["loading"]["checkpoint"] == 110 * MIB
    # A mesh joins three that were all read.
    _, device = bytes_by_stage(run_sizes(members=3, devices=4), on_cpu=False)
    assert device["loading"] == {"tables": 600 * MIB, "optimizer": 30 * MIB}
    assert device["evaluation"] == {"tables": 300 * MIB, "optimizer": 0, "activations": 30 * MIB}
    # Two of three side by side: all that a member has while it trains is there twice.
    host, device = bytes_by_stage(run_sizes(members=3, parallel_members=2), on_cpu=False)
    assert sum(device["training"].values()) == 2 * (100 + 10 + 20 + 1) * MIB
    assert host["training"]["checkpoint"] == 220 * MIB and host["training"]["data"] == 7 * MIB
    assert host["training"]["batches"] == 6 * MIB
    # Data on the device, and a part to watch whose scores take more than a step.
    _, device = bytes_by_stage(run_sizes(device_data=2 * MIB, validates=True), on_cpu=False)
    assert device["training"]["data"] == 2 * MIB
    assert device["training"]["activations"] == 30 * MIB
    # A memory of neighbours is made at the end.
    host, device = bytes_by_stage(run_sizes(memory=7 * MIB), on_cpu=False)
    assert host["evaluation"]["neighbours"] == 7 * MIB
    assert [stage for stage in host if "neighbours" in host[stage]] == ["evaluation"]
    # On a CPU both are one memory.
    both, none = bytes_by_stage(run_sizes(), on_cpu=True)
    assert none == {}
    assert both["training"]["tables"] == 100 * MIB and both["training"]["batches"] == 3 * MIB
    assert both["loading"]["checkpoint"] == 0
