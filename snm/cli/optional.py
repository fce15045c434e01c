"""Parsing of optional values for tyro, without `None` in the help."""

from __future__ import annotations

import dataclasses
import types
from typing import Any, Union, get_args

from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    UnsupportedTypeAnnotationError,
)

__all__ = ["optional_types"]


def optional_types() -> ConstructorRegistry:
    """Rules for tyro that show `int | None` as `INT` in help, instead of `{None}|INT`.

    The word `None` is still accepted: it overrides a value from a settings file.
    """
    rules = ConstructorRegistry()
    rules.primitive_rule(_optional_rule)
    return rules


def _optional_rule(
    info: PrimitiveTypeInfo,
) -> PrimitiveConstructorSpec[Any] | UnsupportedTypeAnnotationError | None:
    """The rule for a union with None: that of its other types; None if `info` is not a union."""
    kinds = get_args(info.type)
    if info.type_origin not in (Union, types.UnionType) or type(None) not in kinds:
        return None
    others: Any = Union[tuple(kind for kind in kinds if kind is not type(None))]  # noqa: UP007
    rule = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(others, info.markers))
    if not isinstance(rule, PrimitiveConstructorSpec):
        return rule

    def parse(words: list[str]) -> Any:
        if words == ["None"]:
            return None
        try:
            return rule.instance_from_str(words)
        except ValueError as error:
            if len(words) > 1:
                raise
            raise ValueError(repr(words[0])) from error  # the whole value: int() shortens it

    def is_instance(value: Any) -> Any:
        return value is None or rule.is_instance(value)

    def to_words(value: Any) -> list[str]:
        return ["None"] if value is None else rule.str_from_instance(value)

    return dataclasses.replace(
        rule,
        instance_from_str=parse,
        is_instance=is_instance,
        str_from_instance=to_words,
    )
