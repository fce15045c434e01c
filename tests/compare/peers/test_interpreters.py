import sys
from pathlib import Path

import numpy as np
import pytest

from snm.compare.peers.interpreters import THIS_INTERPRETER, OtherInterpreter

OTHER = OtherInterpreter("SNM_TEST_PYTHON")


def test_versions_of_installed_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNM_TEST_PYTHON", sys.executable)
    assert THIS_INTERPRETER.missing("numpy") is None and OTHER.missing("numpy") is None
    assert THIS_INTERPRETER.version("numpy") == OTHER.version("numpy") == ("numpy", np.__version__)
    assert THIS_INTERPRETER.version("json") == ("json", None)


@pytest.mark.parametrize(
    ("python", "found"),
    [
        (None, "the package libnone, which is not installed, and no SNM_TEST_PYTHON"),
        ("no/such/program", "SNM_TEST_PYTHON that names no program"),
        (
            sys.executable,
            "the package libnone, which is not installed in the Python of SNM_TEST_PYTHON",
        ),
        ("script", "the package libnone, which is not installed in the Python of SNM_TEST_PYTHON"),
    ],
)
def test_what_is_missing(
    python: str | None, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SNM_TEST_PYTHON", raising=False)
    if python == "script":  # executable, but nothing that the system can start
        python = str(tmp_path / "script")
        Path(python).write_bytes(b"\0")
        Path(python).chmod(0o755)
    if python is not None:
        monkeypatch.setenv("SNM_TEST_PYTHON", python)
    missing = OTHER.missing("libnone")
    assert missing is not None and missing[0] == found
    assert "VENV/bin/pip install libnone; export SNM_TEST_PYTHON=VENV/bin/python" in missing[1]


def test_a_failing_script_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNM_TEST_PYTHON", sys.executable)
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint('told')\nraise ValueError(sys.argv[1:])")
    with pytest.raises(RuntimeError) as failed:
        OTHER.run(script, ["no", "luck"], tmp_path / "errors")
    assert str(failed.value) == "in the Python of SNM_TEST_PYTHON: ValueError: ['no', 'luck']"
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def test_modules_beside_the_script_and_python_path_are_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNM_TEST_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "table.py").write_text("")
    script = tmp_path / "script.py"
    script.write_text("import table")
    with pytest.raises(RuntimeError, match="No module named 'table'"):
        OTHER.run(script, [], tmp_path / "errors")
