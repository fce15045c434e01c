"""Names of packages, the process that runs one, and each package that is installed."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compare.peers.fake_peer import answering, of
from scipy.sparse import csr_matrix

from snm.compare.peers.process import PeerOptions, check, main, measure_peer, run_peer
from snm.compare.peers.protocol import Answers, Peer
from snm.compare.peers.table import PEERS
from snm.compare.records import read_record
from snm.data.formats.repository_text.writer import write_text
from snm.data.generated.synthetic import generate
from snm.errors import InputError
from snm.machine.ram import peak_ram

# -- names -------------------------------------------------------------------------------------


def test_an_unknown_name_gives_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"^peers: found 'fastext', expected .* fasttext"):
        check(["omikuji", "fastext"])


def test_a_peer_of_another_module(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside.py").write_text(
        "import numpy as np\n"
        "from snm.compare.peers.protocol import Peer\n"
        "def answer(x, y, x_test, *, k, seed, threads):\n"
        "    return np.tile(np.arange(k), (x_test.shape[0], 1)), 1.0, 1.0\n"
        "PEERS = {'mine': Peer('numpy', 'all the same', answer)}\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.syspath_prepend(tmp_path)
    assert check(["outside:mine", "neighbors"]) == {"outside:mine": None, "neighbors": None}
    found = run_peer("outside:mine", data, tmp_path / "out.json")
    assert found["settings"] == "all the same" and found["metrics"]["P@1"] == 50.0
    with pytest.raises(InputError, match=r"'outside:mien', expected for example outside:mine"):
        check(["outside:mien"])
    for wrong in ("no_such_module:mine", "json:mine", ":mine", ".outside:mine"):
        with pytest.raises(InputError, match="a module on PYTHONPATH with a table PEERS"):
            check([wrong])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("PEERS = {}", "PEERS is no table with a peer"),
        ("PEERS = ['mine']", "PEERS is no table with a peer"),
        ("def", "SyntaxError: invalid syntax"),
        ("raise RuntimeError('out of\\nluck')", "RuntimeError: out of luck"),
    ],
)
def test_a_module_of_peers_that_is_none(
    text: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    with pytest.raises(InputError, match="a module on PYTHONPATH with a table PEERS") as refused:
        check(["broken:mine"])
    assert found in str(refused.value) and "\n" not in str(refused.value)


def test_check_says_what_is_missing_without_importing(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, of([]), package="no_such_package")
    monkeypatch.setitem(PEERS, "other", Peer("xml.dom", "made up", of([])))
    monkeypatch.delitem(sys.modules, "xml.dom", raising=False)
    found = check(["fake", "other"])
    assert found["other"] is None
    assert found["fake"] is not None and "pip install -e '.[peers]'" in found["fake"]
    assert "xml.dom" not in sys.modules
    monkeypatch.setitem(PEERS, "within", Peer("no_such_package.part", "made up", of([])))
    assert "no_such_package.part, which is not installed" in (check(["within"])["within"] or "")


def test_a_missing_package_is_one_line(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, of([]), package="no_such_package")
    out = tmp_path / "out.json"
    assert main(["fake", data, str(out)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith("snm: error: --peers fake: found ")
    assert "pip install -e '.[peers]'" in told
    assert not out.exists()
    failed = run_peer("fake", data, out)
    assert failed["name"] == "fake" and "not installed" in failed["failed"]


# -- the process -------------------------------------------------------------------------------


def test_a_failing_package_gives_a_one_line_error_and_no_file(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(*_: Any, **__: Any) -> Answers:
        raise RuntimeError("out of\nluck")

    answering(monkeypatch, answer)
    assert main(["fake", data, str(tmp_path / "new" / "out.json")]) == 1
    assert capsys.readouterr().err == "snm: error: fake: RuntimeError: out of luck\n"
    assert list((tmp_path / "new").iterdir()) == []


def test_output_of_a_package_is_discarded(
    data: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def answer(*_: Any, **__: Any) -> Answers:
        os.write(1, b"progress")
        os.write(2, b"progress")
        return np.zeros((2, 5), np.int64) - 1, 0.0, 0.0

    answering(monkeypatch, answer)
    measure_peer("fake", data)
    assert capfd.readouterr() == ("", "")


def test_an_output_file_that_cannot_be_written(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, of([]))
    assert main(["fake", data, str(tmp_path)]) == 2
    assert main(["fake", data, f"{data}/train.txt/out.json"]) == 2
    assert capsys.readouterr().err.count("\n") == 2


# A process with the fake package in its table; `line` is Python code that the package runs.
_CHILD = """
import sys, numpy as np
from snm.compare.peers import process as peers
from snm.compare.peers.protocol import Peer
def answer(x, y, x_test, *, k, seed, threads):
    {line}
    return np.tile(np.arange(k), (x_test.shape[0], 1)), 1.0, 1.0
peers.PEERS["fake"] = Peer("json", "made up", answer)
status = peers.main()
assert "jax" not in sys.modules
sys.exit(status)
"""


def _in_child(monkeypatch: pytest.MonkeyPatch, line: str) -> list[list[str]]:
    """Makes `run_peer` start a process with the fake; returns a list of the started commands."""
    start, started = subprocess.Popen, []

    def patched(command: list[str], **options: Any) -> Any:
        started.append(command)
        return start([command[0], "-c", _CHILD.format(line=line), *command[3:]], **options)

    monkeypatch.setattr(subprocess, "Popen", patched)
    return started


def test_run_peer_reuses_a_result_with_equal_arguments(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, of([]))
    started = _in_child(monkeypatch, 'assert "jax" not in sys.modules')
    out = tmp_path / "peers" / "fake.json"
    found = run_peer("fake", data, out, PeerOptions(weighting="l2", threads=1))
    assert found["metrics"]["P@1"] == 50.0
    assert read_record(out) == found
    assert run_peer("fake", data, out, PeerOptions(weighting="l2", threads=1)) == found
    assert len(started) == 1
    assert [path.name for path in out.parent.iterdir()] == ["fake.json"]
    options = PeerOptions(weighting="none", threads=1, propensity=(0.6, 2.6))
    amazon = run_peer("fake", data, out, options)
    assert len(started) == 2
    assert amazon["asked"]["weighting"] == "none" and amazon["asked"]["propensity"] == [0.6, 2.6]
    run_peer("fake", data, out, options)
    assert len(started) == 2  # a tuple and the list of the file are the same
    assert amazon["metrics"]["P@1"] == 50.0
    assert amazon["metrics"]["PSP@1"] != pytest.approx(found["metrics"]["PSP@1"], rel=1e-3)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("raise ValueError('no luck')", "fake: ValueError: no luck"),
        (
            "import os; os.kill(os.getpid(), 9)",
            "ended by SIGKILL, often because of too little memory",
        ),
        pytest.param("import os; os.abort()", "ended by SIGABRT", marks=pytest.mark.slow),
    ],
)
def test_run_peer_reports_the_reason_of_a_failure(
    line: str, reason: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, of([]))
    _in_child(monkeypatch, line)
    out = tmp_path / "peers" / "fake.json"
    assert run_peer("fake", data, out) == {"name": "fake", "failed": reason}
    assert list(out.parent.iterdir()) == []


def test_the_process_exits_with_its_parent(data: str, tmp_path: Path) -> None:
    line = "import time; time.sleep(60)"
    command = [sys.executable, "-c", _CHILD.format(line=line), "fake", data,
               str(tmp_path / "out.json"), "--with-parent"]  # fmt: skip
    done = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=50, check=False)
    assert done.returncode == 3
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


def test_peak_memory_excludes_that_of_the_parent() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("memory of a process is told otherwise here")
    held = np.ones(1 << 27, np.uint8)  # 128 MiB in this process, much more than the child needs
    code = "from snm.machine import ram; print(ram.resident_ram(), ram.peak_ram())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    now, peak = (int(word) for word in done.stdout.split())
    assert 0 < now <= peak < peak_ram()
    assert peak < held.nbytes + (1 << 26)


# -- the packages themselves -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PEERS))
def test_each_package_learns(name: str, tmp_path: Path) -> None:
    if (reason := check([name])[name]) is not None:
        pytest.skip(f"{name}: {reason}")
    made = generate(points=2000, test_points=300, features=1000, labels=400, seed=2)
    assert made.test is not None
    x, y = made.train.features.tolil(), made.train.labels.tolil()
    x[3], y[5] = 0, 0  # a point without features, and one without labels
    folder = tmp_path / "made"
    folder.mkdir()
    write_text(folder / "train.txt", csr_matrix(x), csr_matrix(y))
    write_text(folder / "test.txt", made.test.features, made.test.labels)
    found = run_peer(name, str(folder), tmp_path / f"{name}.json", PeerOptions(threads=1))
    assert "failed" not in found
    # Always the same five answers, the most frequent labels.
    frequent = np.argsort(-made.label_frequency())[:5]
    chance = 100 * made.test.labels[:, frequent].sum() / (5 * made.test.num_points)
    assert found["metrics"]["P@5"] > 1.2 * chance
    assert found["seconds"] > 0 and found["predict_seconds"] > 0
    assert found["peak_memory_bytes"] >= found["memory_before_bytes"] > 0
    assert found["version"]
