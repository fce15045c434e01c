"""Names of the settings that other modules know too."""

import inspect
import re
from typing import get_args, get_type_hints

import pytest

from snm import SNMClassifier
from snm.config import fields
from snm.config.checks import Config
from snm.config.marks import load_table
from snm.model.encoder import ENCODERS


def test_the_encoders_of_the_setting_are_those_of_the_model():
    hints = get_type_hints(Config)
    assert get_args(hints["encoder"]) == tuple(ENCODERS)
    for name in ("tower_learning_rate", "tower_momentum"):
        used = [kind for kind in ENCODERS if fields.USED_IF[name].is_used(name, kind)]
        assert used == [kind for kind, encoder in ENCODERS.items() if encoder.has_layer]


@pytest.mark.parametrize("setting", ["schedule", "row_optimizer"])
def test_the_estimator_lists_every_object_of_the_table(setting):
    text = inspect.getdoc(SNMClassifier)
    (found,) = re.findall(rf"^  {setting}:(.*(?:\n    .*)*)", text, re.MULTILINE)
    assert not load_table(setting).keys() - {*re.findall(r"\w[\w-]*\w", found)}
