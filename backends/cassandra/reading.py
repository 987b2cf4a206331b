"""Loading, reading and listing. Every statement has a LIMIT; pages follow each other by key, so nothing ever blocks.

A read at quorum level can catch a transaction between its replicas: one has committed it, the others have not yet.
Then the driver's read shows the new head, and a repair brings the head alone to the others; a second read, of the
record, may ask those. Only the newest record can be missing so, as each transaction completes the one before; its
first version stands in the head (`tip`), so whoever misses it notices, and reads again at the serial level, which
completes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final

from diarist.backends.cassandra.bridge import Row, Rows
from diarist.backends.cassandra.link import Link
from diarist.backends.cursors import decode_cursor, encode_cursor
from diarist.runtime.errors import BackendError
from diarist.runtime.ids import Key
from diarist.runtime.repository import Done, Head, Listed, ListPage, Point, Snapshot, StoredRecord
from diarist.runtime.state import view_ranges

FIRST_PAGE: Final = 32
"""Records in the first page of a read. The next pages are as large as the bytes of the one before allow."""

PAGE_BYTES: Final = 4 << 20
MOST_ROWS: Final = 1000
KEYS_AT_ONCE: Final = 100
"""Callers' keys in one look-up."""
SCAN_ROWS: Final = 500
"""Conversations looked at in one step, where a listing leaves most of them out."""
TRIES: Final = 20
"""How often a load starts again because the conversation moved on under it."""


class Reader:
    """The reading half of a repository."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def load(self, key: Key) -> Snapshot | None:
        """`Repository.load`. Records never change but by erasure, so a head and its records are one state unless
        something was erased in between, and then the head has moved."""
        serial = False
        for _ in range(TRIES):
            head = await self._head(key, serial=serial)
            if head is None:
                return None
            parts = _merged([(part.first, part.last) for part in view_ranges(head["state"])])
            found = await asyncio.gather(*(self._range(key, low, high, serial) for low, high in parts))
            rows = [row for part in found for row in part]
            if not serial and any(low <= head["tip"] <= high for low, high in parts) and not _has(rows, head["tip"]):
                serial = True
            elif all(row["body"] is not None for row in rows) or await self._stands(key, head):
                return Snapshot(_head(head), [_record(row) for row in rows])
        raise BackendError(f"{self._link.where}: the conversation changes all the time", outcome="not_executed")

    async def _head(self, key: Key, *, serial: bool = False) -> Row | None:
        rows = await self._link.fetch("head", key, serial=serial)
        return rows[0] if rows and rows[0]["life"] is not None else None

    async def _stands(self, key: Key, head: Row) -> bool:
        """Whether the conversation is still where the head says."""
        now = await self._head(key)
        return now is not None and _point(now) == _point(head)

    async def _range(self, key: Key, low: int, high: int, serial: bool) -> Rows:
        return await self._pages(key, low, high, 1 << 62, backwards=False, serial=serial)

    async def versions(self, keys: Collection[Key]) -> Mapping[Key, Point]:
        """`Repository.versions`: at quorum level, which sees every commit that was acknowledged."""
        link, wanted = self._link, list(dict.fromkeys(keys))
        bridge = await link.open()
        answers = [bridge.request(partial(link.bound, "point", key)) for key in wanted]
        found: dict[Key, Point] = {}
        await _all_done(answers)
        for key, answer in zip(wanted, answers, strict=True):
            rows = await link.answer(answer)
            if rows and rows[0]["life"] is not None:
                found[key] = _point(rows[0])
        return found

    async def operations(self, key: Key, ids: Collection[str]) -> Mapping[str, Done]:
        """`Repository.operations`. What it misses of a transaction that is half committed is found at the commit:
        a key that is there already makes that a conflict."""
        wanted = list(dict.fromkeys(ids))
        parts = [wanted[start : start + KEYS_AT_ONCE] for start in range(0, len(wanted), KEYS_AT_ONCE)]
        found = await asyncio.gather(*(self._link.fetch("keys", (*key, part)) for part in parts))
        return {
            row["key"]: Done(row["done_version"], row["done_first"], row["done_count"], row["done_digest"])
            for rows in found
            for row in rows
        }

    async def read(self, key: Key, low: int, high: int, limit: int, backwards: bool) -> Sequence[StoredRecord]:
        """`Repository.read`. A single version is read at the serial level: that is how an outcome is settled, and
        there absence must prove that no transaction before will still put a record there."""
        if low > high or limit < 1:
            return ()
        if low == high:
            rows = await self._pages(key, low, high, 1, backwards=backwards, serial=True)
        else:
            rows = await self._pages(key, low, high, limit, backwards=backwards, serial=False)
            if await self._lacks_tip(key, rows, low, high, limit, backwards):
                rows = await self._pages(key, low, high, limit, backwards=backwards, serial=True)
        return [_record(row) for row in rows]

    async def _lacks_tip(self, key: Key, rows: Rows, low: int, high: int, limit: int, backwards: bool) -> bool:
        """Whether the newest record belongs into the answer and is not there."""
        if len(rows) >= limit and not backwards:
            return False
        head = max((row["tip"] for row in rows), default=None)
        if head is None:
            found = await self._head(key)
            head = found["tip"] if found else None
        return head is not None and low <= head <= high and not _has(rows, head)

    async def _pages(self, key: Key, low: int, high: int, limit: int, *, backwards: bool, serial: bool) -> list[Row]:
        """At most `limit` rows, in pages of some `PAGE_BYTES`."""
        out: list[Row] = []
        size = FIRST_PAGE
        while limit > 0 and low <= high:
            wanted = min(size, limit)
            name = "backwards" if backwards else "forwards"
            page = await self._link.fetch(name, (*key, low, high, wanted), serial=serial)
            out += page
            if len(page) < wanted:
                break
            limit -= wanted
            if backwards:
                high = page[-1]["seq"] - 1
            else:
                low = page[-1]["seq"] + 1
            mean = sum(len(row["header"]) + len(row["body"] or b"") for row in page) // len(page) + 1
            size = max(1, min(MOST_ROWS, PAGE_BYTES // mean))
        return out

    async def conversations(self, namespace: str | None, after: str | None, limit: int) -> ListPage:
        """`Repository.conversations`: in the order of the ring, which no append changes; sorted within a page."""
        position = decode_cursor(after)
        items: list[Listed] = []
        while True:
            wanted = limit + 1 - len(items) if namespace is None else max(SCAN_ROWS, limit + 1)
            wanted = min(wanted, MOST_ROWS)
            rows = await self._scan(position, wanted)
            for row in rows:
                position = Key(row["namespace"], row["id"])
                if row["life"] is None or row["deleted"] or namespace not in (None, position.namespace):
                    continue
                if len(items) == limit:
                    return _list_page(items, encode_cursor(items[-1].key) if items else after)
                items.append(Listed(position, _head(row)))
            if len(rows) < wanted:
                return _list_page(items, None)

    async def _scan(self, position: Key | None, count: int) -> Rows:
        if position is None:
            return await self._link.fetch("list_first", (count,))
        return await self._link.fetch("list_next", (*position, count))


async def _all_done(answers: Collection[asyncio.Future[Rows]]) -> None:
    if answers:
        await asyncio.wait(answers)
    for answer in answers:
        answer.exception()  # seen: only the first one is raised, the others need no warning


def _list_page(items: Sequence[Listed], cursor: str | None) -> ListPage:
    return ListPage(sorted(items, key=lambda item: item.key), cursor)


def _merged(parts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges ascending and apart."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(parts):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return out


def _has(rows: Rows, seq: int) -> bool:
    return any(row["seq"] == seq for row in rows)


def _point(row: Row) -> Point:
    return (row["life"], row["version"])


def _head(row: Row) -> Head:
    return Head(
        life=row["life"],
        version=row["version"],
        owner=row["owner"],
        created=row["created"],
        updated=row["updated"],
        expires=row["expires"],
        deleted=row["deleted"],
        state=row["state"],
    )


def _record(row: Row) -> StoredRecord:
    body = row["body"]
    payload = row["header"] if body is None else row["header"] + b"\n" + body
    return StoredRecord(row["seq"], row["last"], payload, row["at"])
