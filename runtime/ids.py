"""Conversation ids, namespaces, idempotency keys, and ids that Diarist makes itself."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from diarist.runtime.errors import InvalidIdError

MAX_ID_BYTES: Final = 512


class Key(NamedTuple):
    """What one conversation is known by. Stored exactly: nothing is trimmed or folded."""

    namespace: str
    id: str


def check_id(value: object, what: str = "conversation id") -> str:
    """`value` if it is a usable id: a string with something else than white space, at most 512 UTF-8 bytes."""
    if not isinstance(value, str):
        raise InvalidIdError(f"{what}: {type(value).__name__} is no string")
    if not value or value.isspace():
        raise InvalidIdError(f"{what}: blank")
    return _check_bytes(value, what)


def check_namespace(value: object) -> str:
    """`value` if it is a usable namespace: as an id, but "" is the default one."""
    return "" if isinstance(value, str) and not value else check_id(value, "namespace")


def _check_bytes(value: str, what: str) -> str:
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidIdError(f"{what}: a lone surrogate can't be written as UTF-8") from error
    if size > MAX_ID_BYTES:
        raise InvalidIdError(f"{what}: {size} bytes, at most {MAX_ID_BYTES}")
    return value


def new_id(source: random.Random) -> str:
    """96 random bits: ids of messages, operations and lives."""
    return f"{source.getrandbits(96):024x}"


def id_supply(source: random.Random) -> Callable[[], str]:
    """`new_id` for many ids: they are cut from bits drawn for 32 at once, which takes a third of the time of each."""
    return _ids(source).__next__


def _ids(source: random.Random) -> Iterator[str]:
    while True:
        digits = source.randbytes(12 * 32).hex()
        for start in range(0, 24 * 32, 24):
            yield digits[start : start + 24]


# A retry key that Diarist made up names the version at which its record was tried: made-up ids are not
# indexed (an index over random ids halves the throughput), so the look-up needs to know where to look.
_RETRY = re.compile(r"~([0-9a-f]{24})@([1-9][0-9]{0,17})\Z")


def retry_key(operation: str, version: int) -> str:
    """The idempotency key to hand out for an operation that came without one."""
    return f"~{operation}@{version}"


def parse_retry_key(key: str) -> tuple[str, int] | None:
    """(operation id, version tried) of a key made by `retry_key`, else None."""
    match = _RETRY.match(key)
    return (match[1], int(match[2])) if match else None
