"""What is free in a container and under limits of a process."""

import pytest
from command_line import refused

from snm.machine import ram
from snm.text import format_bytes

SECOND = ("memory.max", "memory.current", "inactive_file")
FIRST = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


@pytest.mark.parametrize("names", [SECOND, FIRST], ids=["second version", "first version"])
@pytest.mark.parametrize(
    ("stat", "free"),
    [("anon 50\nFILE 30\nother 9\n", 70), (None, 40), ("no numbers here\n", 40)],
    ids=["files that were read", "no counts", "counts of another form"],
)
def test_files_that_were_read_are_free(names, stat, free, tmp_path, monkeypatch):
    limit, used, field = names
    (tmp_path / limit).write_text("100\n")
    (tmp_path / used).write_text("60\n")
    if stat is not None:
        (tmp_path / "memory.stat").write_text(stat.replace("FILE", field))
    monkeypatch.setattr(ram, "control_groups", lambda _: [tmp_path])
    assert ram.available_ram() == free


def test_a_group_without_a_limit_leaves_what_the_machine_has(tmp_path, monkeypatch):
    monkeypatch.setattr(ram, "control_groups", lambda _: [])
    (tmp_path / "meminfo").write_text("MemTotal: 90 kB\nMemAvailable: 70 kB\n")
    real = ram.Path
    monkeypatch.setattr(
        ram,
        "Path",
        lambda name: real(tmp_path / "meminfo" if name == "/proc/meminfo" else name),
    )
    assert ram.available_ram() == 70 << 10
    (tmp_path / "memory.max").write_text("max\n")
    monkeypatch.setattr(ram, "control_groups", lambda _: [tmp_path])
    assert ram.available_ram() == 70 << 10


@pytest.mark.parametrize(
    ("limited", "name", "least"),
    [(ram.resource.RLIMIT_DATA, "ulimit -d", 384), (ram.resource.RLIMIT_AS, "ulimit -v", 1536)],
)
def test_a_limit_of_the_process_is_named(limited, name, least, tmp_path, capsys, monkeypatch):
    """A training that no library would get memory for is refused before one is imported."""
    allowed = (least << 20) - 1

    def getrlimit(which):
        return (allowed if which == limited else ram.resource.RLIM_INFINITY, None)

    monkeypatch.setattr(ram.resource, "getrlimit", getrlimit)
    assert ram.ram_limit_name() == name
    said = refused(capsys, "train", tmp_path, "--run-dir", tmp_path / "run")
    assert said.startswith(f"{name}: found {format_bytes(allowed)}, expected ")
    allowed += 1
    ram.check_ulimits()
