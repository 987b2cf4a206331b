"""Committing: one lightweight transaction per record, all of a batch at once.

A transaction's outcome is `[applied]`, or not known. It is not known after a time-out at either end, or a broken
connection: a proposal that some replica accepted stays there, and the next transaction on the partition (and the next
serial read) first completes it. So the rule "whoever holds the version decides" needs no more than this: the record
is sent again, and that transaction either does it or meets whoever was there before, the first try included. Either
way it has gone through Paxos after the first try; and what a conflict tells was read within it, at the serial level.
Then the runtime reads the record at that version: `Reader.read` does so at the serial level too, where one version is
asked for, so that a transaction that is only half committed is completed first, never overlooked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from diarist.backends.cassandra.bridge import Rows, applied
from diarist.backends.cassandra.driver import UNSET
from diarist.backends.cassandra.link import Link
from diarist.backends.cassandra.sweeping import announcements
from diarist.runtime.errors import DiaristError, InvalidMessageError
from diarist.runtime.repository import (
    COMMITTED,
    Commit,
    CommitOutcome,
    Conflict,
    Failed,
    Point,
    Rejected,
    Settle,
    Unknown,
)

_KEY_COST: Final = 1024
"""A caller's key is a statement of its own: binding it takes as long as sending that many bytes."""


class Writer:
    """Commits through a link."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def commit(self, commits: Sequence[Commit], settle: Settle) -> None:
        """`Repository.commit`."""
        tasks: list[asyncio.Task[None]] = []
        for index, commit in enumerate(commits):
            tasks.append(asyncio.ensure_future(self._settle(commit, partial(settle, index))))
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            task.result()

    async def _settle(self, commit: Commit, settle: Callable[[CommitOutcome], None]) -> None:
        settle(await self._outcome(commit))

    async def _outcome(self, commit: Commit) -> CommitOutcome:
        size, most = len(commit.record.payload), self._link.settings.max_record_bytes
        if size > most:
            text = f"the record has {size} bytes; this store takes {most} in one record"
            return Rejected(InvalidMessageError(text))
        if commit.head.deleted:
            # Before the tombstone, so that none is ever forgotten. If this fails, nothing was executed.
            try:
                await self._announce(commit)
            except DiaristError as error:
                return Failed(error)
        try:
            rows = await self._link.conditional(partial(self._statement, commit), size + _KEY_COST * len(commit.keys))
        except InvalidMessageError as error:
            return Rejected(error)
        except DiaristError as error:
            return Unknown(error) if error.outcome == "unknown" else Failed(error)
        return COMMITTED if applied(rows[0]) else Conflict(_actual(rows))

    async def _announce(self, commit: Commit) -> None:
        bridge = await self._link.open()
        answers = [bridge.request(partial(self._link.bound, "announce", values)) for values in announcements(commit)]
        await asyncio.gather(*(self._link.answer(answer) for answer in answers))

    def _statement(self, commit: Commit) -> Any:
        """One statement; with callers' keys, one batch."""
        if not commit.keys:
            return self._link.bound("commit", _values(commit))
        keys = [
            ("commit_key", (done.version, done.first, done.count, done.digest, *commit.key, name))
            for name, done in commit.keys.items()
        ]
        return self._link.batch([("commit", _values(commit)), *keys])


def _values(commit: Commit) -> tuple[Any, ...]:
    head, record = commit.head, commit.record
    header, newline, body = record.payload.partition(b"\n")
    life, version = commit.expected or (None, None)
    return (
        head.life,
        head.version,
        record.first,
        head.owner,
        head.created,
        head.updated,
        head.expires,
        head.deleted,
        head.version if head.deleted else UNSET,
        head.state,
        record.last,
        record.at,
        header,
        body if newline else UNSET,
        len(body) if newline else UNSET,
        *commit.key,
        record.first,
        life,
        version,
    )


def _actual(rows: Rows) -> Point | None:
    """Where the conversation stands, out of the answer to a transaction that was not applied."""
    for row in rows:
        if row.get("life") is not None:
            return (row["life"], row["version"])
    return None
