"""The real data sets beside the checkout, for the tests that need them."""

from pathlib import Path

import pytest

REAL_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def real_data_folder(name: str) -> Path:
    folder = REAL_DATA / name
    if not folder.is_dir():
        pytest.skip(f"real data not found: {name} is not beside the checkout")
    return folder
