"""Sizes that a person writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snm.errors import InputError
from snm.planning.byte_sizes import parse_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [("80GiB", 80 * 2**30), ("16gb", 16 * 10**9), ("1.5 MiB", 1.5 * 2**20), ("4096", 4096)],
)
def test_sizes(text, expected):
    assert parse_bytes(text) == expected


@given(st.text(max_size=20))
def test_other_words_are_no_sizes(text):
    try:
        assert parse_bytes(text) >= 0
    except InputError as error:
        assert "a size such as 80GiB" in str(error)
