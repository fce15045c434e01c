"""Work in threads: results in order, failures told, and no thread where there is one core."""

import threading

import pytest

from snm.machine import cores, groups


@pytest.mark.parametrize("count", [0, 1, 2, 50])
@pytest.mark.parametrize("number", [1, 3])
def test_results_are_in_the_order_of_the_items(count, number, monkeypatch):
    monkeypatch.setattr(cores, "num_cores", lambda: number)
    assert cores.on_all_cores(lambda x: x * x, range(count)) == [x * x for x in range(count)]


def test_several_items_are_worked_on_at_once(monkeypatch):
    monkeypatch.setattr(cores, "num_cores", lambda: 2)
    both = threading.Barrier(2, timeout=30)
    assert sorted(cores.on_all_cores(lambda _: both.wait(), [0, 1])) == [0, 1]


def test_one_core_has_no_threads(monkeypatch):
    monkeypatch.setattr(cores, "num_cores", lambda: 1)
    here = threading.current_thread()
    assert cores.on_all_cores(lambda _: threading.current_thread(), [0, 1]) == [here, here]


def test_the_first_failure_is_told(monkeypatch):
    monkeypatch.setattr(cores, "num_cores", lambda: 2)
    with pytest.raises(ZeroDivisionError):
        cores.on_all_cores(lambda x: 1 // x, [1, 0, 2])


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("0::/", {"cpu.max": "250000 100000"}, 3),
        ("0::/", {"cpu.max": "max 100000"}, 64),
        ("0::/a/b", {"a/cpu.max": "400000 100000", "a/b/cpu.max": "max 100000"}, 4),
        ("0::/elsewhere", {"cpu.max": "10000 100000"}, 1),  # a container sees its group as the root
        (
            "4:cpu,cpuacct:/job\n5:memory:/job",
            {
                "cpu,cpuacct/job/cpu.cfs_quota_us": "800000",
                "cpu,cpuacct/job/cpu.cfs_period_us": "100000",
            },
            8,
        ),
        ("4:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 64),
        ("4:cpuacct,cpu:/", {f"cpu/cpu.cfs_{n}_us": "200000" for n in ("quota", "period")}, 1),
        ("0::/", {"cpu.max": "no number"}, 64),
        ("0::/", {"cpu.max": "100000 0"}, 64),
        ("no line of one\\n\\n0::/größe", {"cpu.max": "200000 100000"}, 2),
        (None, {}, 64),
    ],
)
def test_a_container_has_the_cores_that_it_gets_time_of(
    cgroup, files, expected, tmp_path, monkeypatch
):
    for name, text in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(f"{text}\n")
    if cgroup is not None:
        (tmp_path / "cgroup").write_text(f"{cgroup}\n", encoding="utf-8")
    monkeypatch.setattr(groups, "_PROC", tmp_path)
    monkeypatch.setattr(groups, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: range(64), raising=False)
    cores._quota.cache_clear()
    try:
        assert cores.num_cores() == expected
    finally:
        cores._quota.cache_clear()


@pytest.mark.parametrize(
    ("settings", "threads"),
    [
        ({}, 7),
        ({"NPROC": "3"}, 3),
        ({"NPROC": "3", "PJRT_NPROC": "2"}, 2),
        ({"NPROC": "3", "PJRT_NPROC": "many"}, 3),
        ({"PJRT_NPROC": "0"}, 1),
    ],
)
def test_the_threads_of_xla(settings, threads, monkeypatch):
    monkeypatch.setattr(cores, "_affinity", lambda: 7)
    for name in ("NPROC", "PJRT_NPROC"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert cores.xla_threads() == threads
