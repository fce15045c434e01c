"""The README's Python runs as it stands."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_readme_has_examples() -> None:
    assert len(BLOCKS) == 3


@pytest.mark.parametrize("number", range(3))
def test_python_of_the_readme_runs(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    exec(compile(BLOCKS[number], f"README.md, block {number}", "exec"), scope)
    if number == 1:
        assert scope["names"][0, 0] == "tools"  # type: ignore[index]
    if number == 2:
        assert 0 < float(scope["loss"]) < 3  # type: ignore[arg-type]


def test_names_of_the_package_are_no_modules() -> None:
    """Importing a module of the same name would put it in the place of the function."""
    import importlib.util

    import snm

    for name in snm.__all__:
        if callable(getattr(snm, name)):
            assert importlib.util.find_spec(f"snm.{name}") is None, name
