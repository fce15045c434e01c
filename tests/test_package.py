"""What editors and type checkers see of the package."""

import inspect
import tomllib
from importlib import resources
from pathlib import Path

import snm


def test_the_package_says_that_it_is_typed():
    assert resources.files("snm").joinpath("py.typed").is_file()
    project = Path(__file__).parents[1] / "pyproject.toml"
    shipped = tomllib.loads(project.read_text())["tool"]["setuptools"]["package-data"]
    assert "py.typed" in shipped["snm"]


def test_train_and_training_have_the_same_parameters():
    train, training = (inspect.signature(f).parameters for f in (snm.train, snm.training))
    assert train == training
    assert not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in train.values())
