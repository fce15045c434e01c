"""The real package runs in `test_process.py`, where SNM_PECOS_PYTHON names an interpreter of it."""

import subprocess
import sysconfig
import venv
from pathlib import Path

import numpy as np
import pytest
import scipy
from scipy.sparse import csr_matrix, load_npz, save_npz

from snm.compare.peers import pecos_script
from snm.compare.peers.pecos import PECOS, xr_linear
from snm.compare.peers.process import PeerOptions, check, main, run_peer

# What the script calls of the package. A model's scores depend only on the seed of its tree: label
# -> score, for each point.
_FAKE = """
from pathlib import Path
import numpy as np
from scipy.sparse import csr_matrix, save_npz

SCORES = {5: {0: 0.9, 1: 0.5, 2: 0.1}, 6: {1: 0.9, 3: 0.6}, 7: {3: 0.7, 0: 0.1}}
SCORES[0] = SCORES[5]

class LabelEmbeddingFactory:
    @staticmethod
    def create(Y=None, X=None, method="pifa", **kwargs):
        assert method == "pifa" and kwargs == {"threads": 1}
        return Y.T @ X

class Indexer:
    @staticmethod
    def gen(feat_mat, train_params=None, indexer_type=None, seed=0, threads=-1):
        assert indexer_type == "hierarchicalkmeans" and threads == 1
        return feat_mat, seed

class XLinearModel:
    @classmethod
    def train(cls, X, Y, C=None, threads=-1):
        assert (X.dtype, Y.dtype, threads) == (np.float32, np.float32, 1)
        np.testing.assert_array_equal(C[0].toarray(), (Y.T @ X).toarray())
        for name, matrix in (("x", X), ("y", Y)):
            save_npz(Path(__file__).with_name(name), matrix)
        model = cls()
        model.seed = C[1]
        LINE
        return model

    def predict(self, X, only_topk=None, threads=-1):
        assert threads == 1
        rows = np.zeros((X.shape[0], 4), np.float32)
        for label, score in list(SCORES[self.seed].items())[:only_topk]:
            rows[:, label] = score
        return csr_matrix(rows)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a fake of the package, in an interpreter of its own that is named to snm."""
    home = tmp_path / "venv"
    venv.create(home, symlinks=True)
    monkeypatch.setenv("SNM_PECOS_PYTHON", str(home / "bin" / "python"))
    paths = {"base": str(home), "platbase": str(home)}
    site = Path(sysconfig.get_path("purelib", "posix_prefix", vars=paths))
    installed = {str(Path(module.__file__).parents[1]) for module in (np, scipy)}
    (site / "installed.pth").write_text("\n".join(installed))
    (site / "libpecos-1.2.8.dist-info").mkdir()
    (site / "libpecos-1.2.8.dist-info" / "METADATA").write_text("Name: libpecos\nVersion: 1.2.8\n")
    folder = site / "pecos" / "xmc"
    (folder / "xlinear").mkdir(parents=True)
    _write(folder)
    (folder / "xlinear" / "model.py").write_text("from pecos.xmc import XLinearModel")
    return folder


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    """Three training points, two test points and four labels."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "train.txt").write_text("3 3 4\n0,3 1:2\n1 2:1\n2 0:1\n")
    (folder / "test.txt").write_text("2 3 4\n1 0:2\n2,3 2:1\n")
    return str(folder)


def _write(folder: Path, line: str = "") -> None:
    """Writes the fake; `line` is code that runs in training."""
    (folder / "__init__.py").write_text(_FAKE.replace("LINE", line))


X = csr_matrix(np.array([[0, 2, 0.5], [0, 0, 0], [1, 0, 0]], np.float64))
Y = csr_matrix(np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]], np.float32))
X_TEST = csr_matrix(np.array([[0, 1, 0], [3, 0, 0]], np.float32))


@pytest.mark.parametrize(
    ("models", "k", "expected"),
    [
        (1, 4, [0, 1, 2, -1]),
        (1, 2, [0, 1]),
        # 0: 0.9 + 0.1; 1: 0.5 + 0.9; 2: 0.1; 3: 0.6 + 0.7
        (3, 4, [1, 3, 0, 2]),
        # Label 3 is first of no model.
        (3, 2, [1, 3]),
    ],
)
def test_answers_over_files(models: int, k: int, expected: list[int], package: Path) -> None:
    labels, seconds, predict_seconds = xr_linear(models)(X, Y, X_TEST, k=k, seed=5, threads=1)
    assert labels.dtype == np.int64 and labels.tolist() == [expected, expected]
    assert seconds > 0 and predict_seconds > 0
    np.testing.assert_array_equal(load_npz(package / "x.npz").toarray(), X.toarray())
    np.testing.assert_array_equal(load_npz(package / "y.npz").toarray(), Y.toarray())


def test_the_script_exits_with_its_parent(package: Path, tmp_path: Path) -> None:
    (package / "__init__.py").write_text("import time; time.sleep(60)")
    for name, matrix in (("train", X), ("labels", Y), ("test", X_TEST)):
        save_npz(tmp_path / f"{name}.npz", matrix)
    command = PECOS._command(pecos_script.__file__, str(tmp_path), "2", "1", "5", "1")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=50, check=False)
    assert done.returncode == 3


def test_a_peer_from_end_to_end(package: Path, tiny: str, tmp_path: Path) -> None:
    _write(package, "held = np.ones(1 << 28, np.uint8)")
    found = run_peer("xr-linear", tiny, tmp_path / "out.json", PeerOptions(threads=1))
    # The answers are 0, 1, 2 for both points, and the labels 1, and 2 and 3.
    assert found["metrics"]["P@1"] == 0.0
    assert found["metrics"]["P@3"] == pytest.approx(100 * 2 / 6)
    assert (found["package"], found["version"]) == ("libpecos", "1.2.8")
    assert found["memory_before_bytes"] < 1 << 28 < found["peak_memory_bytes"] < 1 << 29


def test_a_missing_interpreter_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SNM_PECOS_PYTHON", raising=False)
    out = tmp_path / "out.json"
    assert main(["xr-linear", "synthetic", str(out)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and told.startswith("snm: error: --peers xr-linear: found ")
    assert "pip install libpecos" in told and "SNM_PECOS_PYTHON" in told
    assert run_peer("xr-linear", "synthetic", out)["failed"] == check(["xr-linear"])["xr-linear"]
    assert not out.exists()
