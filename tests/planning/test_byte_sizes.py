"""Sizes that a person writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snm.errors import InputError
from snm.planning.byte_sizes import parse_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [("80GiB", 80 * 2**30), ("16gb", 16 * 10**9), ("1.5 MiB", 1.5 * 2**20), ("4096b", 4096)],
)
def test_sizes(text, expected):
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["80", "0GiB", "1.5 XB"])
def test_what_is_no_size(text):
    """A bare number is none: 80 may mean gigabytes."""
    with pytest.raises(InputError, match="expected a size such as 80GiB, 16GB or 500MiB"):
        parse_bytes(text)


@given(st.text("0127.-+ \u0663\u00b2kmgtibKGB", max_size=20))
def test_other_words_are_no_sizes(text):
    try:
        assert parse_bytes(text) >= 1
    except InputError as error:
        assert "a size such as 80GiB" in str(error)
