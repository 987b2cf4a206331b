"""JSON values inside messages: copied and frozen when taken in, checked with their path before storing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from diarist.runtime.errors import InvalidMessageError

MAX_DEPTH = 200
"""Nesting that is still accepted. Python's own JSON encoder gives up at about 1,000."""


def _refuse(*_args: object, **_kwargs: object) -> NoReturn:
    raise TypeError("messages are frozen; make a changed copy with `message.replace(…)`")


class FrozenDict(dict[str, Any]):
    """A dict that can't be changed. It equals, prints and serialises like a plain one."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self))

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, _memo: object) -> dict[str, Any]:
        copy: dict[str, Any] = thaw(self)
        return copy

    def __reduce__(self) -> tuple[Callable[..., FrozenDict], tuple[dict[str, Any]]]:
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """A list that can't be changed. It equals, prints and serialises like a plain one."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(len(self))

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, _memo: object) -> list[Any]:
        copy: list[Any] = thaw(self)
        return copy

    def __reduce__(self) -> tuple[Callable[..., FrozenList], tuple[list[Any]]]:
        return FrozenList, (list(self),)


EMPTY: FrozenDict = FrozenDict()


def freeze(value: Any, _depth: int = 0) -> Any:
    """A frozen copy of nested dicts and lists. What is no JSON is left for `check` to name.

    Beyond `MAX_DEPTH` (so also in a cycle) the original is kept; `check` refuses it before it is stored.
    """
    kind = type(value)
    if kind is str or value is None or kind is int or kind is bool or kind is float:
        return value
    if kind is FrozenDict or kind is FrozenList or _depth > MAX_DEPTH:
        return value
    if isinstance(value, Mapping):
        mapping: Mapping[Any, Any] = value
        return FrozenDict({key: freeze(item, _depth + 1) for key, item in mapping.items()})
    if isinstance(value, (list, tuple)):
        items: Iterable[Any] = value
        return FrozenList(freeze(item, _depth + 1) for item in items)
    return value


def freeze_mapping(value: Mapping[str, Any] | None) -> FrozenDict:
    """`freeze` for a whole mapping, without a copy where there is nothing in it."""
    if not value:
        return EMPTY
    frozen = freeze(value)
    if not isinstance(frozen, FrozenDict):
        raise InvalidMessageError(f"expected a mapping, got {type(value).__name__}")
    return frozen


def is_some_mapping(value: Any) -> bool:
    """Whether it is a mapping with something in it."""
    if not isinstance(value, Mapping):
        return False
    mapping: Mapping[Any, Any] = value
    return len(mapping) > 0


def thaw(value: Any, _depth: int = 0) -> Any:
    """A plain, changeable copy of nested dicts and lists; beyond `MAX_DEPTH` (in a cycle) the original."""
    if isinstance(value, dict) and _depth <= MAX_DEPTH:
        mapping: dict[Any, Any] = value
        return {key: thaw(item, _depth + 1) for key, item in mapping.items()}
    if isinstance(value, list) and _depth <= MAX_DEPTH:
        items: list[Any] = value
        return [thaw(item, _depth + 1) for item in items]
    return value


def check(value: Any, path: str, _depth: int = 0) -> None:
    """Refuse what JSON can't hold, with the path to it.

    orjson would turn NaN into null and write datetimes, enums and dataclasses its own way: they would come
    back as something else, so they are refused instead.
    """
    if value is None or isinstance(value, (str, bool)) or type(value) is int:
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidMessageError(f"{path}: {value} is no JSON number")
    elif _depth > MAX_DEPTH:
        raise InvalidMessageError(f"{path[:80]}…: nested deeper than {MAX_DEPTH} levels, or a cycle")
    elif isinstance(value, dict):
        mapping: dict[Any, Any] = value
        for key, item in mapping.items():
            if not isinstance(key, str):
                raise InvalidMessageError(f"{path}: key {key!r} is {type(key).__name__}, not a string")
            check(item, f"{path}.{key}", _depth + 1)
    elif isinstance(value, (list, tuple)):
        items: Iterable[Any] = value
        for index, item in enumerate(items):
            check(item, f"{path}[{index}]", _depth + 1)
    else:
        raise InvalidMessageError(f"{path}: {type(value).__name__} is no JSON value")
