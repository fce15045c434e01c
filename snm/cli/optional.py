"""How options that may be left out are parsed: help names their values, and not `None` too."""

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
    """Rules for tyro, by which `int | None` is `INT` in help, where tyro has `{None}|INT`.

    The word `None` still stands for no value, which takes back what a file of settings gives.
    """
    rules = ConstructorRegistry()
    rules.primitive_rule(_without_none)
    return rules


def _without_none(
    info: PrimitiveTypeInfo,
) -> PrimitiveConstructorSpec[Any] | UnsupportedTypeAnnotationError | None:
    """The rule of the other types of a union with None; None if `info` is no such union."""
    kinds = get_args(info.type)
    if info.type_origin not in (Union, types.UnionType) or type(None) not in kinds:
        return None
    others: Any = Union[tuple(kind for kind in kinds if kind is not type(None))]  # noqa: UP007
    rule = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(others, info.markers))
    if not isinstance(rule, PrimitiveConstructorSpec):
        return rule

    def value(words: list[str]) -> Any:
        if words == ["None"]:
            return None
        try:
            return rule.instance_from_str(words)
        except ValueError as error:
            if len(words) > 1:
                raise
            raise ValueError(repr(words[0])) from error  # whole: int() cuts long ones

    def is_value(found: Any) -> Any:
        return found is None or rule.is_instance(found)

    def written(found: Any) -> list[str]:
        return ["None"] if found is None else rule.str_from_instance(found)

    return dataclasses.replace(
        rule,
        instance_from_str=value,
        is_instance=is_value,
        str_from_instance=written,
    )
