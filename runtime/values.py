"""JSON values inside messages: copied and frozen when taken in, checked with their path before storing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeGuard

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


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """`isinstance(value, Mapping)`, after which both type checkers know what is in it."""
    return isinstance(value, Mapping)


def is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    """`isinstance(value, dict)`, likewise."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether it is a list or a tuple."""
    return isinstance(value, (list, tuple))


def freeze(value: Any, _depth: int = 0) -> Any:
    """A frozen copy of nested dicts and lists. What is no JSON is left for `check` to name.

    Beyond `MAX_DEPTH` (so also in a cycle) the original is kept; `check` refuses it before it is stored.
    """
    if value is None or isinstance(value, (str, int, float, FrozenDict, FrozenList)) or _depth > MAX_DEPTH:
        return value
    if is_mapping(value):
        return FrozenDict({key: freeze(item, _depth + 1) for key, item in value.items()})
    if is_list(value):
        return FrozenList(freeze(item, _depth + 1) for item in value)
    return value


def freeze_mapping(value: Mapping[str, Any] | None) -> FrozenDict:
    """`freeze` for a whole mapping, without a copy where there is nothing in it."""
    if not value:
        return EMPTY
    frozen = freeze(value)
    if not isinstance(frozen, FrozenDict):
        raise InvalidMessageError(f"expected a mapping, got {type(value).__name__}")
    return frozen


def is_some_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether it is a mapping with something in it."""
    return is_mapping(value) and len(value) > 0


def thaw(value: Any, _depth: int = 0) -> Any:
    """A plain, changeable copy of nested dicts and lists; beyond `MAX_DEPTH` (in a cycle) the original."""
    if is_dict(value) and _depth <= MAX_DEPTH:
        return {key: thaw(item, _depth + 1) for key, item in value.items()}
    if is_list(value) and _depth <= MAX_DEPTH:
        return [thaw(item, _depth + 1) for item in value]
    same: Any = value
    return same


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
    elif is_dict(value):
        key: Any
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidMessageError(f"{path}: key {key!r} is {type(key).__name__}, not a string")
            check(item, f"{path}.{key}", _depth + 1)
    elif is_list(value):
        for index, item in enumerate(value):
            check(item, f"{path}[{index}]", _depth + 1)
    else:
        raise InvalidMessageError(f"{path}: {type(value).__name__} is no JSON value")
