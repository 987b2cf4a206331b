"""Loading and listing: one statement, one row, whatever is asked for (queries.sql says why)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from diarist.backends.cursors import decode_cursor, encode_cursor
from diarist.backends.sqlite.connection import Channel
from diarist.backends.sqlite.statements import MAX_ROWS, QUERIES, filled, slots, with_rows
from diarist.runtime.codec import decode
from diarist.runtime.ids import Key
from diarist.runtime.repository import Done, Head, Listed, ListPage, Point, Snapshot, StoredRecord

_BEFORE_ALL: Final = Key("", "")


class Reader:
    """The reading half of a repository, over a connection of its own: it never waits for the writer."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def load(self, key: Key) -> Snapshot | None:
        for row in await self._channel.fetch(QUERIES["load"], key):
            life, version, owner, created, updated, expires, deleted, state, facts, payloads = row
            head = Head(life, version, owner, created, updated, expires, bool(deleted), state)
            return Snapshot(head, sorted(_records(facts, payloads), key=lambda record: record.first))
        return None

    async def versions(self, keys: Collection[Key]) -> Mapping[Key, Point]:
        wanted = list(dict.fromkeys(keys))
        found: dict[Key, Point] = {}
        for start in range(0, len(wanted), MAX_ROWS):
            part = wanted[start : start + MAX_ROWS]
            rows = slots(len(part))
            values = [value for place, key in enumerate(part) for value in (place, *key)]
            answer = await self._channel.fetch(with_rows("versions", rows, 3), filled(values, rows, 3))
            for place, life, version in _json(answer):
                found[part[place]] = (life, version)
        return found

    async def operations(self, key: Key, ids: Collection[str]) -> Mapping[str, Done]:
        wanted = list(dict.fromkeys(ids))
        found: dict[str, Done] = {}
        for start in range(0, len(wanted), MAX_ROWS):
            part = wanted[start : start + MAX_ROWS]
            rows = slots(len(part))
            values = filled([value for pair in enumerate(part) for value in pair], rows, 2)
            answer = await self._channel.fetch(with_rows("operations", rows, 2), [*values, *key])
            for place, version, first, count, digest in _json(answer):
                found[part[place]] = Done(version, first, count, digest)
        return found

    async def read(self, key: Key, low: int, high: int, limit: int, backwards: bool) -> Sequence[StoredRecord]:
        name = "read_backwards" if backwards else "read_forwards"
        [(facts, payloads)] = await self._channel.fetch(QUERIES[name], (*key, low, high, max(limit, 0)))
        return sorted(_records(facts, payloads), key=lambda record: record.first, reverse=backwards)

    async def conversations(self, namespace: str | None, after: str | None, limit: int) -> ListPage:
        start = decode_cursor(after) or _BEFORE_ALL
        if namespace is None:
            rows = await self._channel.fetch(QUERIES["list_all"], (*start, limit + 1))
        elif namespace < start.namespace:
            return ListPage((), None)
        else:
            last = start.id if start.namespace == namespace else ""
            rows = await self._channel.fetch(QUERIES["list_namespace"], (namespace, last, limit + 1))
        found = sorted(_listed(*rows[0]), key=lambda item: item.key)
        page = found[:limit]
        return ListPage(page, encode_cursor(page[-1].key) if page and len(found) > limit else None)


def _json(rows: Sequence[Sequence[str]]) -> list[list[Any]]:
    answer: list[list[Any]] = decode(rows[0][0].encode())
    return answer


def _records(facts: str, payloads: bytes | None) -> list[StoredRecord]:
    out: list[StoredRecord] = []
    place = 0
    for first, last, at, size in decode(facts.encode()):
        out.append(StoredRecord(first, last, (payloads or b"")[place : place + size], float(at)))
        place += size
    return out


def _listed(facts: str, states: bytes | None) -> list[Listed]:
    out: list[Listed] = []
    place = 0
    for namespace, name, life, version, owner, created, updated, expires, size in decode(facts.encode()):
        state = (states or b"")[place : place + size]
        gone = None if expires == "NULL" else float(expires)
        head = Head(life, version, owner, float(created), float(updated), gone, False, state)
        out.append(Listed(Key(namespace, name), head))
        place += size
    return out
