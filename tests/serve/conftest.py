"""One compiled batch size, which is enough for most tests of the server."""

import pytest
from serve.served import served, serving

from snm.serve import engine as engines

__all__ = ["served"]


@pytest.fixture(autouse=True, scope="session")
def one_size():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "_BATCH_SIZES", (8,))
        yield


@pytest.fixture(scope="session")
def address(served, one_size):
    with serving(served, max_points=20, max_bytes=10_000, max_k=15) as (address, _):
        yield address
