"""One connection that opens itself when it is needed, and again after it broke."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import aiosqlite

from diarist.backends.sqlite.errors import UNFIT, backend_error, breaks_connection, unfit
from diarist.runtime.errors import BackendError, ClosedError, DiaristError

Row = tuple[Any, ...]
Opener = Callable[[], Awaitable[aiosqlite.Connection]]


async def connect(path: str, busy_timeout: float) -> aiosqlite.Connection:
    """A connection in autocommit mode, whose thread does not keep the interpreter alive.

    A thread inherits being a daemon from the thread that makes it, and aiosqlite offers no other way: its own
    threads are joined at exit, before anything could close them.
    """
    made: list[aiosqlite.Connection] = []
    failed: list[Exception] = []

    def connector() -> sqlite3.Connection:
        # When this raises, aiosqlite lets its thread end unobserved, maybe after the event loop.
        try:
            return sqlite3.connect(path, isolation_level=None, timeout=busy_timeout, cached_statements=256)
        except Exception as error:
            failed.append(error)
            return sqlite3.connect(":memory:")

    maker = threading.Thread(target=lambda: made.append(aiosqlite.Connection(connector, 64)), daemon=True)
    maker.start()
    maker.join()
    connection = await made[0]
    if failed:
        await connection.close()
        raise failed[0]
    return connection


async def run(connection: aiosqlite.Connection, sql: str, parameters: Iterable[Any] = ()) -> list[Row]:
    """Execute one statement and fetch all its rows, in one hop to the connection's thread."""
    return [tuple(row) for row in await connection.execute_fetchall(sql, parameters)]


class Channel:
    """What the repository talks to instead of a connection. Errors come out as ours.

    A statement runs to its end in the connection's thread also if who waits for it is cancelled; nothing here
    opens a transaction over an await, so no cancellation leaves one behind.
    """

    def __init__(self, path: str, opener: Opener) -> None:
        self.path = path
        self._opener = opener
        self._opening: asyncio.Task[aiosqlite.Connection] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._closed = False

    async def connection(self) -> aiosqlite.Connection:
        """The connection, opened if need be; however many wait for it, it is opened once."""
        if self._closed:
            raise ClosedError(f"the store {self.path} is closed")
        opening = self._opening
        if opening is None or _failed(opening):
            opening = self._opening = asyncio.ensure_future(self._opener())
        try:
            return await asyncio.shield(opening)
        except (sqlite3.Error, OSError) as error:
            raise backend_error(error, self.path) from error

    async def fetch(self, sql: str, parameters: Iterable[Any] = ()) -> Sequence[Row]:
        """Run one statement and give its rows."""
        connection = await self.connection()
        return await self._run(connection, sql, parameters)

    async def write(self, sql: str, parameters: Iterable[Any] = ()) -> int:
        """Run one statement and tell how many rows it changed, those of its triggers included.

        Only one call at a time: the count is of the whole connection.
        """
        connection = await self.connection()
        before = connection.total_changes
        await self._run(connection, sql, parameters)
        return connection.total_changes - before

    async def _run(self, connection: aiosqlite.Connection, sql: str, parameters: Iterable[Any]) -> Sequence[Row]:
        try:
            return await run(connection, sql, parameters)
        except UNFIT as error:
            raise unfit(error) from error
        except (sqlite3.Error, MemoryError) as error:
            if breaks_connection(error):
                self.drop()
            raise backend_error(error, self.path) from error
        except ValueError as error:
            # aiosqlite's word for a connection that was closed meanwhile: the statement was not queued.
            raise BackendError(f"the store {self.path} is being reopened: {error}", outcome="not_executed") from error

    def drop(self) -> None:
        """Let the connection go; the next use opens another one."""
        opening, self._opening = self._opening, None
        if opening is not None:
            leaving = asyncio.ensure_future(_leave(opening))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        """Let go of everything and refuse further use."""
        self._closed = True
        self.drop()
        while self._leaving:
            await asyncio.wait(self._leaving)


def _failed(opening: asyncio.Task[aiosqlite.Connection]) -> bool:
    return opening.done() and (opening.cancelled() or opening.exception() is not None)


async def _leave(opening: asyncio.Task[aiosqlite.Connection]) -> None:
    """Close what was or is being opened. What fails here has failed before, where it was reported."""
    try:
        connection = await opening
        await connection.close()
    except (sqlite3.Error, OSError, ValueError, DiaristError):
        return
