"""Protobuf messages as the JSON that the vendor's REST interface would send.

After the protobuf JSON mapping (https://protobuf.dev/programming-guides/json/): camelCase names, enums by
name, well-known Struct types as JSON. It reads through descriptors, so that no protobuf package is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ENUM = 14  # FieldDescriptor.TYPE_ENUM
_STRUCTS = {"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"}


def is_message(kind: Any) -> bool:
    """Whether a type is a generated message class."""
    return hasattr(kind, "DESCRIPTOR") and hasattr(kind, "ListFields")


def to_dict(message: Any) -> dict[str, Any]:
    """The fields that are set, all levels."""
    return {descriptor.json_name: _value(descriptor, value) for descriptor, value in message.ListFields()}


def _value(descriptor: Any, value: Any) -> Any:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__") or is_message(type(value)):
        return _single(descriptor, value)
    if issubclass(type(value), Mapping):
        return {str(key): _single(None, value[key]) for key in value}
    return [_single(descriptor, item) for item in value]


def _single(descriptor: Any, value: Any) -> Any:
    if is_message(type(value)):
        return _struct(value) if value.DESCRIPTOR.full_name in _STRUCTS else to_dict(value)
    if descriptor is not None and descriptor.type == _ENUM:
        named = descriptor.enum_type.values_by_number.get(value)
        return named.name if named is not None else value
    return value


def _struct(value: Any) -> Any:
    """A Struct, ListValue or Value as JSON. Their numbers are doubles; whole ones become integers."""
    kind = value.DESCRIPTOR.full_name
    if kind == "google.protobuf.Struct":
        return {key: _struct(value.fields[key]) for key in value.fields}
    if kind == "google.protobuf.ListValue":
        return [_struct(item) for item in value.values]
    which = value.WhichOneof("kind")
    inner = None if which in (None, "null_value") else getattr(value, which)
    if isinstance(inner, float):
        return int(inner) if inner.is_integer() else inner
    return _struct(inner) if is_message(type(inner)) else inner
