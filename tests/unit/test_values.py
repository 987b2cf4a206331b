"""What goes into a message is copied, frozen, and refused with its path where JSON can't hold it."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given

from diarist.runtime.errors import InvalidMessageError
from diarist.runtime.messages import UserMessage
from diarist.runtime.values import EMPTY, MAX_DEPTH, FrozenDict, FrozenList, check, freeze, freeze_mapping, thaw

from .strategies import json_values


class Number(IntEnum):
    ONE = 1


def cycle() -> dict[str, Any]:
    inner: dict[str, Any] = {}
    inner["again"] = [inner]
    return inner


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, r"metadata.a\[1\].b: nan is no JSON number"),
        (math.inf, "inf is no JSON number"),
        (-math.inf, "-inf is no JSON number"),
        (b"x", r"metadata.a\[1\].b: bytes is no JSON value"),
        (bytearray(b"x"), "bytearray is no JSON value"),
        (datetime(2025, 1, 1, tzinfo=UTC), "datetime is no JSON value"),
        (Decimal(1), "Decimal is no JSON value"),
        (Number.ONE, "Number is no JSON value"),
        ({1}, "set is no JSON value"),
        (object(), "object is no JSON value"),
        ({1: 2}, r"metadata.a\[1\].b: key 1 is int, not a string"),
        ({"c": {None: 2}}, r"metadata.a\[1\].b.c: key None is NoneType"),
        (cycle(), "nested deeper than 200 levels, or a cycle"),
        (nested(MAX_DEPTH + 5), "nested deeper"),
    ],
)
def test_what_json_cant_hold_is_refused_with_its_path(value: Any, text: str) -> None:
    for given_value in ({"a": [0, {"b": value}]}, freeze({"a": [0, {"b": value}]})):
        with pytest.raises(InvalidMessageError, match=text):
            check(given_value, "metadata")


@given(json_values)
def test_all_json_passes_and_is_kept(value: Any) -> None:
    check(value, "metadata")
    frozen = freeze(value)
    check(frozen, "metadata")
    assert frozen == value
    assert thaw(frozen) == value
    assert freeze(frozen) is frozen or not isinstance(frozen, dict | list)


def test_values_up_to_the_limit_pass() -> None:
    check(nested(MAX_DEPTH), "metadata")


def test_a_cycle_in_a_message_is_an_error_and_no_endless_loop() -> None:
    message = UserMessage([{"type": "weird", "inside": cycle()}], metadata=cycle())
    with pytest.raises(InvalidMessageError, match="cycle"):
        check(message.to_dict(), "message")


def test_frozen_values_are_copies() -> None:
    given_value: dict[str, Any] = {"a": [{"b": 1}], "o": OrderedDict(x=1), "t": (1, 2)}
    frozen = freeze_mapping(given_value)
    given_value["a"][0]["b"] = 2
    assert frozen == {"a": [{"b": 1}], "o": {"x": 1}, "t": [1, 2]}
    assert isinstance(frozen["a"], FrozenList)
    assert isinstance(frozen["o"], FrozenDict)
    plain = thaw(frozen)
    plain["a"][0]["b"] = 3
    assert frozen["a"][0]["b"] == 1
    assert freeze_mapping(None) is freeze_mapping({}) is EMPTY


CHANGES: list[Callable[[Any], object]] = [
    lambda value: value.__setitem__(0, 1),
    lambda value: value.__delitem__(0),
    lambda value: value.clear(),
    lambda value: value.pop(),
    lambda value: value.__ior__({1: 1}),
    lambda value: value.update({1: 1}),
    lambda value: value.setdefault(1, 1),
    lambda value: value.popitem(),
    lambda value: value.__iadd__([1]),
    lambda value: value.__imul__(2),
    lambda value: value.append(1),
    lambda value: value.extend([1]),
    lambda value: value.insert(0, 1),
    lambda value: value.remove(1),
    lambda value: value.reverse(),
    lambda value: value.sort(),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", [FrozenDict, FrozenList])
def test_no_method_changes_a_frozen_value(kind: type[Any], change: Callable[[Any], object]) -> None:
    value = kind({"a": 1}) if kind is FrozenDict else kind([1])
    with pytest.raises((TypeError, AttributeError)):
        change(value)
    assert value == ({"a": 1} if kind is FrozenDict else [1])
