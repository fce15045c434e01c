"""What the JSON files of a run must hold, and the types that the code reads them as."""

import typing

import pytest

from snm.runs.schema import FACTS, MEMORY, MemoryRecord, RunFacts


@pytest.mark.parametrize(
    ("table", "kind", "unchecked"),
    [(FACTS, RunFacts, set()), (MEMORY, MemoryRecord, {"inherited_from"})],
)
def test_types_have_the_keys_that_are_checked(table, kind, unchecked):
    hints = typing.get_type_hints(kind, include_extras=True)
    assert set(hints) == set(table) | unchecked
    optional = {
        name for name, hint in hints.items() if typing.get_origin(hint) is typing.NotRequired
    }
    assert optional == {name for name, field in table.items() if not field.needed} | unchecked
