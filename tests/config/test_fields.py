"""Names of the settings that other modules know too."""

import dataclasses
import inspect
import re
from typing import get_args, get_type_hints

import pytest

from snm import SNMClassifier
from snm.config import fields
from snm.config.marks import load_table
from snm.config.settings import Config
from snm.losses.sampled import LossOptions
from snm.losses.sampled.options import USED_WITH_ANY_LOSS
from snm.model.encoder import ENCODERS


def test_the_encoders_of_the_setting_are_those_of_the_model():
    hints = get_type_hints(Config)
    assert get_args(hints["encoder"]) == tuple(ENCODERS)
    for name in ("tower_learning_rate", "tower_momentum"):
        used = [kind for kind in ENCODERS if fields.USED_IF[name].is_used(name, "encoder", kind)]
        assert used == [kind for kind, encoder in ENCODERS.items() if encoder.has_layer]


def test_the_loss_decides_on_each_of_its_options():
    """But on those that are read whatever the loss is."""
    options = {field.name for field in dataclasses.fields(LossOptions)}
    settings = {field.name for field in dataclasses.fields(Config)}
    by_loss = {name for name, control in fields.USED_IF.items() if "loss" in control.settings}
    assert by_loss == (options & settings) - USED_WITH_ANY_LOSS


@pytest.mark.parametrize("setting", ["schedule", "row_optimizer"])
def test_the_estimator_lists_every_object_of_the_table(setting):
    text = inspect.getdoc(SNMClassifier)
    (found,) = re.findall(rf"^  {setting}:(.*(?:\n    .*)*)", text, re.MULTILINE)
    assert not load_table(setting).keys() - {*re.findall(r"\w[\w-]*\w", found)}
