"""Sizes that the data suggest."""

import pytest

from snm.config.auto import auto_sampled


def test_auto_size_grows_and_stays_below_k():
    sizes = [auto_sampled(k) for k in range(2, 70_000, 37)]
    assert sizes == sorted(sizes)
    assert all(b < k for b, k in zip(sizes, range(2, 70_000, 37), strict=True))
    assert auto_sampled(2**31 - 1) == 8192
    with pytest.raises(ValueError, match="at least 2"):
        auto_sampled(1)
