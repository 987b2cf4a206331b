"""Reading chunks: plain dicts and the vendors' objects through one small set of functions, no SDK imported.

`fields` looks one level deep and copies nothing where it can; `plain` makes the JSON that is kept.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, cast
from uuid import UUID

from diarist.adapters.streaming import protobuf
from diarist.runtime.values import FrozenDict, FrozenList

Fields = Mapping[str, Any]
Reader = Callable[[Any], Fields | None]

MAX_DEPTH = 100
"""Nesting of vendor data that is kept; deeper (or a cycle) is null. Below what a message may hold."""

MAX_NODES = 50_000
"""Lists and objects in one value that are kept; a small value that holds itself in many places unfolds to more."""

MAX_TYPES = 500

_SCALARS = (str, bytes, bytearray, int, float, complex, type(None), date, time, Decimal, UUID, Enum)
_AS_THEY_ARE = frozenset({str, int, bool, FrozenDict, FrozenList})
_UNSET_NAMES = frozenset({"Unset", "NotGiven", "Omit"})
"""SDKs' marks of a field that was not sent (Mistral, OpenAI, Anthropic)."""


def fields(value: object) -> Fields | None:
    """The fields of a mapping or of an SDK's object, one level deep; None if it is neither."""
    kind: Any = type(value)
    if kind is dict:
        return value  # type: ignore[return-value]
    read = _readers.get(kind)
    if read is None:
        read = _remembered(kind)
    if read is _pydantic and not value.__pydantic_extra__:  # type: ignore[attr-defined]
        return value.__dict__  # here and not in `_pydantic`: a call less for each level of each SDK chunk
    return read(value)


def _nothing(_value: object) -> None:
    return None


def _itself(value: Fields) -> Fields:
    return value


_readers: dict[Any, Reader] = {}
"""A memo by type, bounded. A plain dict: `lru_cache` takes 0.3 us a look-up, and a chunk has three levels."""


def _remembered(kind: Any) -> Reader:
    if len(_readers) >= MAX_TYPES:
        _readers.clear()
    read = _readers[kind] = _reader(kind)
    return read


def _reader(kind: Any) -> Reader:
    """How objects of a type are read."""
    if protobuf.is_message(kind):
        return protobuf.to_dict
    if issubclass(kind, Mapping):
        return _itself
    if issubclass(kind, (*_SCALARS, Sequence, Set, type, BaseException)):
        return _nothing
    if kind.__name__ in _UNSET_NAMES or any("__call__" in base.__dict__ for base in kind.__mro__):
        return _nothing
    if hasattr(kind, "__pydantic_fields__"):
        return _pydantic_reader(kind)
    return _object_reader(kind)


def _pydantic_reader(kind: Any) -> Reader:
    """Pydantic 2 keeps fields in `__dict__` and what the server sent beyond them in `__pydantic_extra__`."""
    aliases = {
        name: alias
        for name, field in kind.__pydantic_fields__.items()
        if (alias := field.serialization_alias or field.alias) and alias != name
    }

    def read_by_alias(value: Any) -> Fields:
        named = {aliases.get(name, name): item for name, item in value.__dict__.items()}
        return {**named, **(value.__pydantic_extra__ or {})}

    return read_by_alias if aliases else _pydantic


def _pydantic(value: Any) -> Fields:
    return {**value.__dict__, **(value.__pydantic_extra__ or {})}


def _object_reader(kind: Any) -> Reader:
    """Dataclasses, attrs classes, namespaces, proto-plus; wrappers that have nothing but `to_dict`."""
    slots = {name for base in kind.__mro__ for name in _names(base.__dict__.get("__slots__"))}
    if dataclasses.is_dataclass(kind):
        slots.update(field.name for field in dataclasses.fields(kind))
    public = [name for name in slots if not name.startswith("_")]

    def read(value: Any) -> Fields:
        inner = getattr(value, "_pb", None)
        if inner is not None and protobuf.is_message(type(inner)):
            return protobuf.to_dict(inner)
        found = {name: getattr(value, name) for name in public if hasattr(value, name)}
        own: Fields = getattr(value, "__dict__", {})
        found.update((name, item) for name, item in own.items() if not name.startswith("_"))
        if not found and callable(getattr(kind, "to_dict", None)):
            return fields(value.to_dict()) or {}
        return found

    return read


def _names(slots: Any) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots or ()


def listed(value: object) -> Collection[Any]:
    """The entries of a list, also of a tuple or a protobuf's repeated field; () for anything else."""
    kind: Any = type(value)
    if kind is list:
        return value  # type: ignore[return-value]
    if issubclass(kind, Sequence) and not issubclass(kind, (str, bytes, bytearray)):
        return value  # type: ignore[return-value]
    return ()


def word(value: object) -> str | None:
    """A non-empty string, also out of an SDK's enum; None for anything else."""
    if type(value) is str:
        return value or None
    if isinstance(value, Enum):
        return word(value.value) or value.name
    return str.__str__(value) or None if isinstance(value, str) else None


def number(value: object) -> int | None:
    """An index: a whole number, or one in digits (langchain#38456); None for anything else."""
    if type(value) is int:
        return value
    if isinstance(value, str) and len(value) < 10 and value.isdecimal():
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else None


def plain(value: Any) -> Any:
    """A frozen JSON copy, so that what a consumer does to its chunk later changes no message.

    Bytes become base64 and enums their words, as in the vendors' own JSON; NaN and infinities become strings
    (as in protobuf's JSON), because a message with them could not be stored. What has no JSON form is null.
    """
    kind: Any = cast("Any", type(value))
    if value is None or kind in _AS_THEY_ARE:
        return value
    return _Copier().copy(value)


class _Copier:
    """One copy: knows the way down, so that a cycle ends, and how much is left to copy."""

    __slots__ = ("left", "path")

    def __init__(self) -> None:
        self.left = MAX_NODES
        self.path: set[int] = set()

    def copy(self, value: Any) -> Any:
        kind: Any = cast("Any", type(value))
        if value is None or kind in _AS_THEY_ARE:
            return value
        if issubclass(kind, _SCALARS):
            return _plain_scalar(value)
        self.left -= 1
        if self.left < 0 or len(self.path) > MAX_DEPTH or id(value) in self.path:
            return None
        self.path.add(id(value))
        try:
            if issubclass(kind, (Sequence, Set)):
                return FrozenList([self.copy(item) for item in value])
            return self._fields(value)
        finally:
            self.path.discard(id(value))

    def _fields(self, value: Any) -> FrozenDict | None:
        found = fields(value)
        if found is None:
            return None
        if found is not value:  # an object: a field that was never sent has None and no place in the JSON
            more: Fields | None = getattr(value, "__pydantic_extra__", None)
            told: set[str] = getattr(value, "__pydantic_fields_set__", None) or set()
            sent = told | (more or {}).keys()
            found = {key: item for key, item in found.items() if item is not None or key in sent}
        return FrozenDict({_key(key): self.copy(item) for key, item in found.items()})


def _key(key: Any) -> str:
    kind: Any = cast("Any", type(key))
    return key if kind is str else str(plain(key))


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, Enum):
        return word(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    return None if isinstance(value, complex) else str(value)
