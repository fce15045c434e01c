import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snm.compare.peers import process as peers
from snm.compare.peers.process import check, main, measure, run_peer
from snm.compare.peers.protocol import Answers, Peer
from snm.compare.peers.table import PEERS
from snm.compare.peers.words import are_counts, as_words
from snm.compare.records import read_record
from snm.data.formats.dispatch import write_text
from snm.data.load import load
from snm.data.synthetic import generate
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.evaluation.metrics import propensities
from snm.machine.memory import peak_memory

_TRAIN = "4 3 6\n0 0:3\n0,1 1:1\n2 0:1 2:2\n3,4 2:1\n"
_TEST = "2 3 6\n0,5 0:2 1:2\n1 2:1\n"


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Four training points, two test points, six labels; labels 0 to 5 have 2, 1, 1, 1, 1 and 0
    training points."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "train.txt").write_text(_TRAIN)
    (folder / "test.txt").write_text(_TEST)
    return str(folder)


def _answering(monkeypatch: pytest.MonkeyPatch, answer: Callable[..., Any], weighted: bool = True,
               package: str = "json") -> None:  # fmt: skip
    monkeypatch.setitem(PEERS, "fake", Peer(package, "made up", answer, weighted))


def _of(rows: list[list[int]]) -> Callable[..., Answers]:
    return lambda x, y, x_test, *, k, seed, threads: (np.array(rows), 2.5, 0.25)


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


def test_check_says_what_is_missing_without_importing(monkeypatch: pytest.MonkeyPatch) -> None:
    _answering(monkeypatch, _of([]), package="no_such_package")
    monkeypatch.setitem(PEERS, "other", Peer("xml.dom", "made up", _of([])))
    monkeypatch.delitem(sys.modules, "xml.dom", raising=False)
    found = check(["fake", "other"])
    assert found["other"] is None
    assert found["fake"] is not None and "pip install 'snm[peers]'" in found["fake"]
    assert "xml.dom" not in sys.modules


def test_a_missing_package_is_one_line(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answering(monkeypatch, _of([]), package="no_such_package")
    out = tmp_path / "out.json"
    assert main(["fake", data, str(out)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith("snm: error: --peers fake: found ")
    assert "pip install 'snm[peers]'" in told
    assert not out.exists()
    failed = run_peer("fake", data, out)
    assert failed["name"] == "fake" and "not installed" in failed["failed"]


# -- scores ------------------------------------------------------------------------------------


def test_metrics_by_hand(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Point 0 has labels 0 and 5, and the package finds 0 first and 5 third; point 1 has label 1,
    # found third, before the padding of the package's answer.
    _answering(monkeypatch, _of([[0, 1, 5, 2, 3], [2, 3, 1, -1, -1]]))
    found = measure("fake", data)
    metrics = found["metrics"]
    p = propensities(np.array([2, 1, 1, 1, 1, 0]), 4)
    expected = {
        "P@1": 100 * 1 / 2,
        "P@3": 100 * (2 + 1) / 6,
        "P@5": 100 * (2 + 1) / 10,
        "R@1": 100 * (1 / 2 + 0) / 2,
        "R@3": 100.0,
        "nDCG@3": 100 * ((1 + 1 / 2) / (1 + 1 / np.log2(3)) + 1 / 2) / 2,
        "PSP@1": 100 * (1 / p[0]) / (1 / min(p[0], p[5]) + 1 / p[1]),
        "PSP@3": 100.0,
        "coverage@1": 100 / 3,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)
    assert metrics["points"] == 2
    assert found["seconds"] == 2.5 and found["predict_seconds"] == 0.25
    assert found["settings"] == "made up"
    assert found["data"] == {"name": "tiny", "sha256": load(data).sha256}
    assert found["peak_memory_bytes"] >= found["memory_before_bytes"] > 1 << 20


def test_metrics_are_those_of_an_evaluation(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from snm.evaluation import evaluate as evaluation

    assert peers.KS == evaluation.KS
    _answering(monkeypatch, _of([[0, 1, 2, 3, 4]] * 2))
    found = measure("fake", data)["metrics"]
    counts = {"points", "points_without_labels"}
    assert set(found) == {*evaluation.metric_names(6), *counts}


def test_filtered_labels_are_neither_right_nor_wrong(
    data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path(data) / "filter_labels_test.txt").write_text("0 1\n")
    (Path(data) / "filter_labels_train.txt").write_text("")
    asked: list[int] = []

    def answer(x: Any, y: Any, x_test: Any, *, k: int, seed: int, threads: int) -> Answers:
        asked.append(k)
        return np.array([[1, 0, 2, 3, 4, 5], [1, 0, 2, 3, 4, 5]]), 0.0, 0.0

    _answering(monkeypatch, answer)
    assert measure("fake", data)["metrics"]["P@1"] == 100.0
    assert asked == [6]


def test_seen_labels_are_dropped_from_the_predictions(
    data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = load(data).test
    assert test is not None
    own = [test.features[row].indices.tolist() for row in range(2)]
    others = [[label for label in range(6) if label not in of_row] for of_row in own]
    asked: list[int] = []

    def answer(x: Any, y: Any, x_test: Any, *, k: int, seed: int, threads: int) -> Answers:
        asked.append(k)
        rows = [of_row + rest for of_row, rest in zip(own, others, strict=True)]
        return np.array([(row + [-1] * 6)[:6] for row in rows]), 0.0, 0.0

    _answering(monkeypatch, answer)
    told: list[np.ndarray] = []
    scored = peers._scored
    monkeypatch.setattr(
        peers, "_scored", lambda found, *rest: told.append(found) or scored(found, *rest)
    )
    measure("fake", data, seen="drop")
    measure("fake", data)
    assert asked == [min(5 + max(map(len, own)), 6), 5]
    assert [row[row >= 0].tolist() for row in told[0]] == [rest[:5] for rest in others]
    assert told[1][:, 0].tolist() == [of_row[0] for of_row in own]


def test_arguments_of_a_package(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []

    def answer(x: Any, y: Any, x_test: Any, *, k: int, seed: int, threads: int) -> Answers:
        seen.append((x, y, x_test, k, seed, threads))
        return np.zeros((2, 5), np.int64) - 1, 0.0, 0.0

    raw = load(data)
    assert raw.test is not None
    fitted = Weighting.fit("tfidf", raw.train.features)
    _answering(monkeypatch, answer)
    measure("fake", data, seed=3, threads=2)
    _answering(monkeypatch, answer, weighted=False)
    measure("fake", data)
    weighted, unweighted = seen
    assert weighted[3:] == (5, 3, 2)
    for given, points in ((weighted[0], raw.train), (weighted[2], raw.test)):
        np.testing.assert_array_equal(given.toarray(), fitted.apply(points.features).toarray())
    np.testing.assert_array_equal(unweighted[0].toarray(), [[3, 0, 0], [0, 1, 0], [1, 0, 2],
                                                            [0, 0, 1]])  # fmt: skip
    np.testing.assert_array_equal(unweighted[1].toarray(), raw.train.labels.toarray())


def test_a_held_out_part_is_scored_instead_of_test(
    data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = load(data).split(0.25, 1)
    assert held.test is not None
    first = held.test.labels.indices[0]
    others = [label for label in range(6) if label != first][:4]
    _answering(monkeypatch, _of([[first, *others]]))
    (Path(data) / "test.txt").unlink()
    metrics = measure("fake", data, validation_fraction=0.25, seed=1)["metrics"]
    assert metrics["points"] == 1 and metrics["P@1"] == 100.0
    with pytest.raises(InputError, match="no test points"):
        measure("fake", data)


@pytest.mark.parametrize(
    ("options", "said"), [({"weighting": "idf"}, "one of none"), ({"threads": 0}, "1 or more")]
)
def test_bad_settings(
    options: dict[str, Any], said: str, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _answering(monkeypatch, _of([]))
    with pytest.raises(InputError, match=said):
        measure("fake", data, **options)


# -- words -------------------------------------------------------------------------------------


def test_counts_repeat_a_word_up_to_ten_times() -> None:
    x = csr_matrix([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 40.0, 0.0]])
    assert list(as_words(x, counted=True)) == ["0 0 2", "", " ".join(["1"] * 10)]


def test_other_values_give_one_word_per_feature() -> None:
    x = csr_matrix(([0.3, -7.0, 0.0], ([0, 0, 1], [4, 2, 1])), shape=(2, 5))
    assert list(as_words(x.tocsr(), counted=False)) == ["2 4", ""]


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1, 2, 1000], True), ([1, 0.5], False), ([-1, 2], False), ([2019, 1], False),
     ([np.inf], False), ([], True)],
)  # fmt: skip
def test_are_counts(values: list[float], expected: bool) -> None:
    assert are_counts(csr_matrix(np.array([values], np.float32))) is expected


# -- the process -------------------------------------------------------------------------------


def test_a_failing_package_gives_a_one_line_error_and_no_file(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(*_: Any, **__: Any) -> Answers:
        raise RuntimeError("out of\nluck")

    _answering(monkeypatch, answer)
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

    _answering(monkeypatch, answer)
    measure("fake", data)
    assert capfd.readouterr() == ("", "")


def test_an_output_file_that_cannot_be_written(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answering(monkeypatch, _of([]))
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
assert status or {{"jax"}} & set(sys.modules)
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
    _answering(monkeypatch, _of([]))
    started = _in_child(monkeypatch, 'assert "jax" not in sys.modules')
    out = tmp_path / "peers" / "fake.json"
    found = run_peer("fake", data, out, weighting="l2", threads=1)
    assert found["metrics"]["P@1"] == 50.0
    assert read_record(out) == found
    assert run_peer("fake", data, out, weighting="l2", threads=1) == found
    assert len(started) == 1
    assert run_peer("fake", data, out, weighting="none", threads=1)["asked"]["weighting"] == "none"
    assert len(started) == 2
    assert [path.name for path in out.parent.iterdir()] == ["fake.json"]


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
    _answering(monkeypatch, _of([]))
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
    code = "from snm.machine import memory; print(memory.resident_memory(), memory.peak_memory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    now, peak = (int(word) for word in done.stdout.split())
    assert 0 < now <= peak < peak_memory()
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
    found = run_peer(name, str(folder), tmp_path / f"{name}.json", threads=1)
    assert "failed" not in found
    # Always the same five answers, the most frequent labels.
    frequent = np.argsort(-made.label_frequency())[:5]
    chance = 100 * made.test.labels[:, frequent].sum() / (5 * made.test.num_points)
    assert found["metrics"]["P@5"] > 1.2 * chance
    assert found["seconds"] > 0 and found["predict_seconds"] > 0
    assert found["peak_memory_bytes"] >= found["memory_before_bytes"] > 0
    assert found["version"]
