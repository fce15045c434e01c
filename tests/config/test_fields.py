"""The docstrings of the settings, which are their help."""

import ast
import inspect
import re
from typing import get_args, get_type_hints

import pytest

from snm import SNMClassifier
from snm.config import fields
from snm.config.marks import TABLES, load_table
from snm.model.encoder import ENCODERS


def help_of_fields():
    """Name of a setting -> its docstring."""
    found = {}
    for group in ast.parse(inspect.getsource(fields)).body:
        if isinstance(group, ast.ClassDef):
            for field, text in zip(group.body, group.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    found[field.target.id] = ast.literal_eval(text.value)
    return found


def missing(setting, text):
    """The names of the setting's table that are no word of the text."""
    return load_table(setting).keys() - {*re.findall(r"\w[\w-]*\w", text)}


@pytest.mark.parametrize("setting", TABLES)
def test_the_help_names_every_object_of_the_table(setting):
    """The lists are written by hand, because `--help` must not import the tables."""
    assert not missing(setting, help_of_fields()[setting])


def test_the_encoders_of_the_setting_are_those_of_the_model():
    hints = get_type_hints(fields.AllSettings)
    assert get_args(hints["encoder"]) == tuple(ENCODERS)
    for name in ("tower_learning_rate", "tower_momentum"):
        used = [kind for kind in ENCODERS if fields.USED_IF[name].is_used(name, kind)]
        assert used == [kind for kind, encoder in ENCODERS.items() if encoder.has_layer]


@pytest.mark.parametrize("setting", ["schedule", "row_optimizer"])
def test_so_does_the_estimator_where_it_lists_them(setting):
    text = inspect.getdoc(SNMClassifier)
    (found,) = re.findall(rf"^  {setting}:(.*(?:\n    .*)*)", text, re.MULTILINE)
    assert not missing(setting, found)
