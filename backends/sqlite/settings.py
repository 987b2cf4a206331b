"""What can be set on a SQLite store, and its URL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from diarist.runtime.errors import BackendError

Synchronous = Literal["off", "normal", "full", "extra"]

# SQLite refuses rows over 10**9 bytes; a record shares its row with little else.
_LARGEST_RECORD: Final = 900_000_000

_KINDS: Final[dict[str, Callable[[str], object]]] = {"synchronous": str, "busy_timeout": float}


@dataclass(frozen=True, slots=True)
class SQLiteSettings:
    """Durability, waiting and sizes.

    `synchronous`: "full" survives a power cut; "normal" may then lose the last commits (never the order); see
    https://sqlite.org/pragma.html#pragma_synchronous. `busy_timeout`: seconds to wait for another process's
    write. `wal_autocheckpoint`: pages. `wal_reserve`: bytes that the write-ahead log is grown to when commits go
    on, because a sync of overwritten blocks takes half the time of a sync that makes a file longer; 0: none.
    `cache`: bytes of page cache, per connection. `max_record_bytes`: bytes of one record's payload.
    `vacuum_bytes`: up to this size of the file, the sweep after an erasure runs VACUUM (it takes about a second per
    100 MB and holds up commits); 0: never.
    """

    synchronous: Synchronous = "full"
    busy_timeout: float = 10.0
    wal_autocheckpoint: int = 10_000
    wal_reserve: int = 16 << 20
    cache: int = 16 << 20
    max_record_bytes: int = 64 << 20
    vacuum_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        if self.synchronous not in get_args(Synchronous):
            raise _refused(f"synchronous={self.synchronous!r}: one of {', '.join(get_args(Synchronous))}")
        if not 0 <= self.busy_timeout <= 86_400:
            raise _refused(f"busy_timeout={self.busy_timeout!r}: 0 to 86400 seconds")
        for name in ("wal_autocheckpoint", "wal_reserve", "cache", "vacuum_bytes"):
            if not 0 <= getattr(self, name) <= 1 << 31:
                raise _refused(f"{name}={getattr(self, name)!r}: 0 to {1 << 31}")
        if not 1 <= self.max_record_bytes <= _LARGEST_RECORD:
            raise _refused(f"max_record_bytes={self.max_record_bytes!r}: 1 to {_LARGEST_RECORD}")


def parse_url(url: str, settings: SQLiteSettings) -> tuple[str, SQLiteSettings]:
    """The path and the settings of `sqlite:///relative.db?synchronous=normal` or `sqlite:////absolute.db`.

    Percent escapes in the path are decoded: `%3F` and `%23` stand for `?` and `#`.
    """
    parts = urlsplit(url)
    if parts.scheme != "sqlite":
        raise _refused(f"{url!r} is no sqlite URL")
    if parts.netloc or not parts.path.startswith("/"):
        raise _refused(f"{url!r}: write sqlite:///relative.db or sqlite:////absolute.db, with three slashes or four")
    if parts.fragment:
        raise _refused(f"{url!r}: write %23 for a # in a file name")
    path = unquote(parts.path[1:], errors="surrogateescape")
    if path in ("", ":memory:"):
        raise _refused(f"{url!r} names no file; for a store that goes with the process, use memory://")
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        settings = _set(settings, name, value)
    return path, settings


def _set(settings: SQLiteSettings, name: str, value: str) -> SQLiteSettings:
    if name not in SQLiteSettings.__dataclass_fields__:
        known = ", ".join(SQLiteSettings.__dataclass_fields__)
        raise _refused(f"sqlite URL: there is no option {name!r}; there are {known}")
    try:
        change: dict[str, Any] = {name: _KINDS.get(name, int)(value)}
        return replace(settings, **change)
    except ValueError as error:
        raise _refused(f"sqlite URL: {name}={value!r} is no number") from error


def _refused(text: str) -> BackendError:
    return BackendError(text, outcome="not_executed")
