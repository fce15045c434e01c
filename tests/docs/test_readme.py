"""The Python of the README and of the pages on Python and scikit-learn runs as it stands."""

from pathlib import Path

import pages
import pytest

from snm.data.load import load

README = pages.ROOT / "README.md"
PAGES = [pages.ROOT / "docs" / name for name in ("python.md", "scikit-learn.md")]
BLOCKS = [
    (path.name, block.text)
    for path in (README, *PAGES)
    for block in pages.blocks(path)
    if block.kind == "python"
]


def test_the_pages_have_examples() -> None:
    assert [name for name, _ in BLOCKS] == [
        "README.md",
        *["python.md"] * 6,
        "scikit-learn.md",
    ]


@pytest.mark.parametrize(
    "number",
    [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, len(BLOCKS)))],
)
def test_python_of_the_pages_runs(
    number: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    name, text = BLOCKS[number]
    exec(compile(text, f"{name}, block {number}", "exec"), scope)
    if number < 2:  # training, then prediction
        assert scope["labels"].shape == scope["scores"].shape == (500, 5)  # type: ignore[attr-defined]
    if number == 2:  # events, and a stop
        assert scope["result"]["steps"] > scope["reached"] >= 5  # type: ignore[index]
    if number == 3:  # matrices in memory
        assert capsys.readouterr().out == "100.0\n"
    if number == 4:  # matrices in files
        loaded, made = load("arrays"), scope["data"]
        assert (loaded.train.labels != made.train.labels).nnz == 0  # type: ignore[attr-defined]
    if number == 5:  # a log
        labels = scope["labels"]
        assert labels.shape == (1, 2) and labels.min() >= 0  # type: ignore[attr-defined]
    if number == 6:  # the head under an encoder
        assert 0 < float(scope["loss"]) < 3  # type: ignore[arg-type]
    if number == 7:  # scikit-learn
        assert capsys.readouterr().out == "[['sea', 'boats']]\n"
        assert scope["names"][0, 0] == "tools"  # type: ignore[index]


def test_names_of_the_package_are_no_modules() -> None:
    """Importing a module of the same name would put it in the place of the function."""
    import importlib.util

    import snm

    for name in snm.__all__:
        if callable(getattr(snm, name)):
            assert importlib.util.find_spec(f"snm.{name}") is None, name
