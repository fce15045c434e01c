"""What editors and type checkers see of the package."""

import ast
import dataclasses
import inspect
import tomllib
from importlib import resources
from pathlib import Path

import snm
from snm.trainer.request import RunRequest


def test_the_package_says_that_it_is_typed():
    assert resources.files("snm").joinpath("py.typed").is_file()
    project = Path(__file__).parents[1] / "pyproject.toml"
    shipped = tomllib.loads(project.read_text())["tool"]["setuptools"]["package-data"]
    assert "py.typed" in shipped["snm"]


def test_each_public_name_stands_in_all_lists():
    """For type checkers, for the import at the first use, for `from snm import *` and for `dir`."""
    body = ast.parse(Path(snm.__file__).read_text(encoding="utf-8")).body
    (checked,) = (node.body for node in body if isinstance(node, ast.If))
    for_checkers = {name.name: node.module for node in checked for name in node.names}
    assert for_checkers == {name: f"snm.{home}" for name, home in snm._HOMES.items()}
    functions = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    public = {name for name in functions if not name.startswith("_")}
    assert sorted(public | for_checkers.keys()) == sorted(snm.__all__) == dir(snm)
    assert all(callable(getattr(snm, name)) for name in snm.__all__)


def test_train_and_training_have_the_same_parameters():
    train, training = (inspect.signature(f).parameters for f in (snm.train, snm.training))
    assert train == training
    assert {field.name for field in dataclasses.fields(RunRequest)} <= train.keys()
    assert not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in train.values())
