"""What a power cut may leave of what is written, errors of the disk, and flipped bits."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from benchmarks.trust import bit_flips, crash_states
from benchmarks.trust.crash_model import Call, Recorder, write_state
from snm.checkpoints.store import Checkpoints
from snm.system.files import atomic, disk


def test_a_file_is_old_or_new(tmp_path):
    """As `write_atomic` orders its calls; without the syncs it may also be torn."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"o" * 2000)
    with Recorder(tmp_path).recording() as record:
        atomic.write_atomic(path, b"n" * 2000)
    states = [state["a.txt"] for _, state in record.states(300)]
    assert set(states) == {b"o" * 2000, b"n" * 2000}
    assert [call.what for call in record.calls] == ["name", "write", "sync", "name", "sync"]
    record.calls = [call for call in record.calls if call.what != "sync"]
    torn = {state.get("a.txt") for _, state in record.states(300)}
    assert len(torn) > 10
    # Blocks of 512 bytes are whole.
    blocks = {raw[i : i + 512] for raw in torn for i in range(0, len(raw) - 511, 512)}
    assert blocks <= {b"o" * 512, b"n" * 512, b"\0" * 512}


def test_names_need_a_sync_of_their_folder(tmp_path):
    (tmp_path / "old").write_bytes(b"1")
    with Recorder(tmp_path).recording() as record:
        disk.rename(tmp_path / "old", tmp_path / "new")
        disk.write(tmp_path / "other", b"2")
        disk.sync(tmp_path / "other")
        disk.remove(tmp_path / "new")
    node = record.begun["old"][0]
    assert Call("name", "new", node, b"", "old") in record.calls
    last = [frozenset(state) for cut, state in record.states(400) if cut == len(record.calls)]
    # The removal may come without the rename; the synced content not without its name.
    assert {frozenset({"old"}), frozenset({"new"}), frozenset({"other"})} <= set(last)
    state = {"folder": None, "folder/file": b"3"}
    assert (write_state(tmp_path / "made", state) / "folder" / "file").read_bytes() == b"3"


def test_errors_are_raised_once(tmp_path):
    with Recorder(tmp_path, error=OSError(5, "no"), fail_at=1).recording():
        with pytest.raises(OSError, match=r"no.*a\.partial"):
            atomic.write_atomic(tmp_path / "a.txt", b"new")
        atomic.write_atomic(tmp_path / "a.txt", b"new")
    assert (tmp_path / "a.txt").read_bytes() == b"new"


def test_threads_are_recorded_one_at_a_time(tmp_path):
    """What a thread has synced is not noted as gone because another one looked before."""

    def write(name: str) -> None:
        for n in range(40):
            atomic.write_atomic(tmp_path / name / f"{n}.txt", b"%d" % n)

    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    with Recorder(tmp_path).recording() as record, ThreadPoolExecutor(3) as pool:
        list(pool.map(write, ("a", "b", "c")))
    gone = [call.path for call in record.calls if call.what == "name" and call.node is None]
    assert [path for path in gone if path.endswith(".txt") and "/." not in path] == []


def test_the_member_that_is_first_keeps_its_checkpoint(tmp_path):
    """Its names are on the disk with it, though another member made the folder above."""
    with Recorder(tmp_path).recording() as record:
        (tmp_path / "checkpoints").mkdir()  # not synced
        store = Checkpoints(tmp_path / "checkpoints" / "member-2")
        store.save(12, {"rows": np.ones((3, 2), np.float32)}, {"step": 12}, None)
    states = [state for cut, state in record.states(300) if cut == len(record.calls)]
    assert states
    assert all("checkpoints/member-2/12/manifest.json" in state for state in states)


@pytest.mark.slow
def test_power_cuts_and_some_errors():
    found = crash_states.measure(300, every=30)
    assert sum(row["states"] for row in found["states"]) == 300
    assert all(row["failed"] == 0 for row in found["states"])
    assert all(row["errors"] >= 1 for row in found["errors"])


@pytest.mark.slow
def test_without_syncs_the_same_cuts_lose_data(tmp_path):
    bench = crash_states.Bench(tmp_path)
    # Which state is drawn first depends on the process id, which is in names.
    with pytest.raises(AssertionError, match=r"half of it is left|it is lost"):
        crash_states.cuts_of_a_verb(bench, "import", 300, tmp_path, synced=False)


@pytest.mark.slow
def test_flipped_bits_are_named_or_harmless():
    found = bit_flips.measure(600)
    assert found["all"]["named"] + found["all"]["harmless"] == 600, found["all"]
    outcomes = {(row["of"], file["file"]): file for row in found["of"] for file in row["by file"]}
    for name in ("labels.txt", "vectorizer.json", "weighting.npz", "memory.npz", "run.json",
                 "result.json", "memory.json"):  # fmt: skip
        assert "harmless" not in outcomes.get(("run", name), {}), name
    for library in ("faiss", "hnswlib"):
        assert "harmless" not in outcomes[f"index, {library}", f"index.{library}"]
