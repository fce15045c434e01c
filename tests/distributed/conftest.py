"""Meshes of up to eight devices, which a CPU plays: an accelerator with fewer skips the folder."""

import pytest
from devices import need


@pytest.fixture(autouse=True)
def _eight_devices() -> None:
    need(8)
