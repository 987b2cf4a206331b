"""Erasing text for good, and sweeping tombstones that are past their time.

Both go through lightweight transactions, as commits do: their tombstones take Paxos's timestamps and hide nothing
that comes after them, whatever the clocks say.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from diarist.backends.cassandra.bridge import Row, applied
from diarist.backends.cassandra.link import Link
from diarist.runtime.ids import Key
from diarist.runtime.repository import Commit, Point

ERASE: Final = "erase"
EXPIRE: Final = "expire"
BUCKET_SECONDS: Final = 600.0
_TOP: Final = 2**62

_PAGE: Final = 500
"""Sizes, or due rows, in one read."""
_STEP: Final = 50
"""Records erased by one transaction."""
_BEFORE_ALL: Final = (float("-inf"), "", "", -1, "")


@dataclass(frozen=True, slots=True)
class Due:
    """A row of the table `due`."""

    what: str
    bucket: int
    at: float
    key: Key
    version: int
    life: str

    @property
    def columns(self) -> tuple[Any, ...]:
        return (self.what, self.bucket, self.at, *self.key, self.version, self.life)

    def is_open(self, head: Row | None) -> bool:
        """Whether its tombstone has not landed and still may: the conversation stands just before it."""
        before: Point = (head["life"], head["version"]) if head else ("", 0)
        return before == (self.life, self.version - 1)


def announcements(commit: Commit) -> Iterator[tuple[Any, ...]]:
    """What is written before a tombstone, so that the sweep finds it."""
    head = commit.head
    life = commit.expected[0] if commit.expected else ""
    times = {ERASE: head.updated} | ({} if head.expires is None else {EXPIRE: head.expires})
    for what, at in times.items():
        yield Due(what, _bucket(at), at, commit.key, commit.record.first, life).columns


def _bucket(at: float) -> int:
    return int(max(-_TOP, min(_TOP, at // BUCKET_SECONDS)))


class Sweeper:
    """Erases, and removes what is expired."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def erase(self, key: Key, low: int, high: int, tombstone: int = 0) -> int:
        """`Repository.erase`: page by page, a few records per transaction. Only sizes are read.

        Stops where no tombstone of at least that version stands or stood: then the conversation was swept meanwhile,
        and what is there now began anew."""
        total = 0
        while low <= high:
            rows = await self._link.fetch("sizes", (*key, low, high, _PAGE))
            if rows and (rows[0]["erase_to"] or 0) < tombstone:
                break
            filled = [row for row in rows if row["size"] is not None]
            for start in range(0, len(filled), _STEP):
                step = filled[start : start + _STEP]
                if not await self._erase(key, step):
                    break  # somebody else was at it, or the conversation has gone: look again
                total += len(step)
            else:
                if len(rows) < _PAGE:
                    break
                low = rows[-1]["seq"] + 1
        return total

    async def _erase(self, key: Key, rows: Sequence[Row]) -> bool:
        statements = [("erase", (*key, row["seq"], row["erase_to"])) for row in rows]
        answer = await self._link.conditional(partial(self._link.batch, statements))
        return applied(answer[0])

    async def sweep(self, now: float, limit: int) -> int:
        """`Repository.sweep`. Rows that turn out to be nothing's are dropped on the way and not counted."""
        touched = 0
        async for due in self._due(now):
            if touched >= limit:
                break
            touched += await (self._finish(due) if due.what == ERASE else self._expire(due, now))
        return touched

    async def _due(self, now: float) -> AsyncIterator[Due]:
        """Erasures first, whenever they were asked for; then what has expired, oldest first."""
        rows = await self._link.fetch("buckets", ())
        buckets = sorted((row["what"], row["bucket"]) for row in rows)
        for what, bucket in buckets:
            if what == EXPIRE and bucket > _bucket(now):
                continue
            position: tuple[Any, ...] = _BEFORE_ALL
            while True:
                page = await self._link.fetch("due", (what, bucket, *position, _PAGE))
                for row in page:
                    due = Due(what, bucket, row["at"], Key(row["namespace"], row["id"]), row["version"], row["life"])
                    if what == ERASE or due.at <= now:
                        yield due
                if len(page) < _PAGE:
                    break
                position = tuple(page[-1][name] for name in ("at", "namespace", "id", "version", "life"))

    async def _head(self, key: Key) -> Row | None:
        rows = await self._link.fetch("head", key)
        return rows[0] if rows and rows[0]["life"] is not None else None

    async def _finish(self, due: Due) -> bool:
        """Erase what a tombstone left, if it is there. Whether anything was left."""
        head = await self._head(due.key)
        if due.is_open(head):
            return False
        erased = 0
        if head is not None and (head["erase_to"] or 0) >= due.version:
            erased = await self.erase(due.key, 1, head["erase_to"], due.version)
        await self._link.fetch("done", due.columns)
        return erased > 0

    async def _expire(self, due: Due, now: float) -> bool:
        """Remove a tombstone with all that belongs to it. Whether it was there."""
        head = await self._head(due.key)
        if due.is_open(head):
            return False
        gone = False
        if head is not None and head["deleted"] and head["expires"] is not None and head["expires"] <= now:
            forget = [("forget_head", (*due.key, head["life"], head["version"])), ("forget", due.key)]
            answer = await self._link.conditional(partial(self._link.batch, forget))
            gone = applied(answer[0])
            if not gone:
                return False
        await self._link.fetch("done", due.columns)
        return gone
