"""Appending: a whole batch of commits as one autocommit statement (session.sql says how)."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

from diarist.backends.sqlite.connection import Channel
from diarist.backends.sqlite.opening import reserve
from diarist.backends.sqlite.settings import SQLiteSettings
from diarist.backends.sqlite.statements import MAX_ROWS, MOST_ROWS, QUERIES, STEP_COLUMNS, filled, slots, with_rows
from diarist.runtime.codec import decode
from diarist.runtime.errors import BackendError, DiaristError, InvalidMessageError
from diarist.runtime.repository import (
    COMMITTED,
    Commit,
    CommitOutcome,
    Conflict,
    Done,
    Failed,
    Point,
    Rejected,
    Settle,
    Unknown,
)

_STATEMENT_BYTES: Final = 64 << 20
"""Payload in one statement; what is more goes into the next one."""

_log = logging.getLogger("diarist.backends.sqlite")

_RESERVE_AFTER: Final = 32
"""Batches after which the write-ahead log is grown ahead: not worth it for a process that writes only a little."""

_NONE: Final = (None,) * 6

Item = tuple[int, Commit]
"""A commit with its index in the batch."""


class Writer:
    """Commits through the writing channel, one statement at a time."""

    def __init__(self, channel: Channel, settings: SQLiteSettings) -> None:
        self._channel = channel
        self._settings = settings
        self._place = 0
        self.lock = asyncio.Lock()
        self.batches = 0
        """Since the write-ahead log was empty: at the start, and after an erasure."""

    async def commit(self, commits: Sequence[Commit], settle: Settle) -> None:
        """`Repository.commit`, by one caller at a time (`lock`)."""
        fit: list[Item] = []
        for index, commit in enumerate(commits):
            if refusal := self._refusal(commit):
                settle(index, Rejected(refusal))
            else:
                fit.append((index, commit))
        for items in _portions(fit):
            await self._append(items, settle)
        self.batches += 1
        if self.batches == _RESERVE_AFTER:
            await self._reserve()

    def _refusal(self, commit: Commit) -> DiaristError | None:
        size, most = len(commit.record.payload), self._settings.max_record_bytes
        if size > most:
            return InvalidMessageError(f"the record has {size} bytes; this store takes {most} in one record")
        if len(commit.keys) >= MOST_ROWS:
            return InvalidMessageError(f"the record has {len(commit.keys)} keys; this store takes {MOST_ROWS - 1}")
        return None

    async def _reserve(self) -> None:
        try:
            await reserve(await self._channel.connection(), self._channel.path, self._settings)
        except (DiaristError, sqlite3.Error) as error:
            _log.info("the write-ahead log could not be grown ahead: %s", error, extra={"path": self._channel.path})

    async def _append(self, items: Sequence[Item], settle: Settle) -> None:
        start, self._place = self._place, self._place + len(items)
        try:
            lost = await self._insert(items, start)
        except InvalidMessageError as error:
            if len(items) == 1:
                settle(items[0][0], Rejected(error))
            else:
                for item in items:
                    await self._append([item], settle)
        except DiaristError as error:
            outcome: CommitOutcome = Unknown(error) if error.outcome == "unknown" else Failed(error)
            for index, _ in items:
                settle(index, outcome)
        else:
            for place, (index, _) in enumerate(items, start):
                settle(index, Conflict(lost[place]) if place in lost else COMMITTED)

    async def _insert(self, items: Sequence[Item], start: int) -> dict[int, Point | None]:
        """Run the statement. Returns the places that lost their compare-and-set, and what stands there instead."""
        values: list[Any] = []
        keys = 0
        for place, (_, commit) in enumerate(items, start):
            values += _row(place, commit)
            for name, done in commit.keys.items():
                values += _key_row(place, commit, name, done)
            keys += len(commit.keys)
        rows = slots(len(items) + keys)
        statement = with_rows("append", rows, STEP_COLUMNS)
        changed = await self._channel.write(statement, filled(values, rows, STEP_COLUMNS))
        # Each commit changes its head and its log, each key a line; a conflict changes one line in all.
        if changed == 2 * len(items) + keys:
            return {}
        return await self._conflicts(start, len(items))

    async def _conflicts(self, start: int, count: int) -> dict[int, Point | None]:
        try:
            rows = await self._channel.fetch(QUERIES["conflicts"], (start, start + count - 1))
            await self._channel.fetch(QUERIES["forget_conflicts"])
        except BackendError as error:
            # The statement before was committed; only for whom is not known.
            raise BackendError(str(error), outcome="unknown") from error
        found: list[tuple[int, str | None, int]] = decode(rows[0][0].encode())
        return {place: None if life is None else (life, version) for place, life, version in found}


def _row(place: int, commit: Commit) -> tuple[Any, ...]:
    head, record, was = commit.head, commit.record, commit.expected
    return (
        "create" if was is None else "append",
        place,
        *commit.key,
        *(was or (None, None)),
        head.life,
        head.version,
        head.owner,
        head.created,
        head.updated,
        head.expires,
        head.deleted,
        head.state,
        record.first,
        record.last,
        record.at,
        record.payload,
        None,
        None,
        None,
    )


def _key_row(place: int, commit: Commit, key: str, done: Done) -> tuple[Any, ...]:
    where = ("key", place, *commit.key)
    return (*where, *_NONE[:3], done.version, *_NONE[:6], done.first, *_NONE[:3], key, done.count, done.digest)


def _portions(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """The items in portions of one statement each. A commit with its keys is never divided."""
    portion: list[Item] = []
    rows = size = 0
    for item in items:
        more, bytes_more = 1 + len(item[1].keys), len(item[1].record.payload)
        if portion and (rows + more > MAX_ROWS or size + bytes_more > _STATEMENT_BYTES):
            yield portion
            portion, rows, size = [], 0, 0
        portion.append(item)
        rows, size = rows + more, size + bytes_more
    if portion:
        yield portion
