"""Opening the two connections of a store: whose file is it, which pragmas, which schema."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sqlite3
import time
from typing import Final

import aiosqlite

from diarist.backends.sqlite.connection import connect, run
from diarist.backends.sqlite.errors import code_of
from diarist.backends.sqlite.schema import migrate, version_of
from diarist.backends.sqlite.settings import SQLiteSettings
from diarist.backends.sqlite.statements import SESSION
from diarist.runtime.errors import BackendError

_log = logging.getLogger("diarist.backends.sqlite")
_warned: set[str] = set()

OLDEST: Final = (3, 35, 0)


def has_reset_bug(version: tuple[int, ...]) -> bool:
    """Whether this SQLite can lose commits when several connections write and checkpoint at the same moment.

    The "WAL-reset bug": https://sqlite.org/wal.html, mended in 3.51.3, 3.50.7 and 3.44.6.
    """
    if version >= (3, 51, 3):
        return False
    return not ((3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45))


def check_library() -> None:
    """Refuse a SQLite that lacks what the statements use; warn, once, of one with a known fault."""
    if sqlite3.sqlite_version_info < OLDEST:
        raise BackendError(
            f"SQLite {sqlite3.sqlite_version} is too old; Diarist needs {'.'.join(map(str, OLDEST))}",
            outcome="not_executed",
        )
    if has_reset_bug(sqlite3.sqlite_version_info) and sqlite3.sqlite_version not in _warned:
        _warned.add(sqlite3.sqlite_version)
        _log.warning(
            "SQLite %s has the WAL-reset bug: in rare cases several processes that write one file can damage it. "
            "Use SQLite 3.51.3 or later, or let one process write",
            sqlite3.sqlite_version,
            extra={"sqlite_version": sqlite3.sqlite_version},
        )


async def open_writing(path: str, settings: SQLiteSettings) -> aiosqlite.Connection:
    """The connection for all writing; makes or migrates the schema."""
    check_library()
    connection = await connect(path, settings.busy_timeout)
    try:
        await version_of(connection, path)  # before anything is changed: it may be somebody else's file
        await _use_wal(connection, settings)
        for pragma in (
            f"synchronous = {settings.synchronous}",
            f"wal_autocheckpoint = {settings.wal_autocheckpoint}",
            "secure_delete = ON",
            "temp_store = MEMORY",
        ):
            await run(connection, f"PRAGMA {pragma}")
        await migrate(connection, path)
        await run(connection, f"PRAGMA cache_size = -{settings.cache >> 10}")
        await connection.executescript(SESSION)
    except BaseException:
        await connection.close()
        raise
    return connection


async def open_reading(path: str, settings: SQLiteSettings) -> aiosqlite.Connection:
    """The connection for all reading; SQLite itself sees to it that it writes nothing."""
    connection = await connect(path, settings.busy_timeout)
    try:
        await run(connection, "PRAGMA query_only = ON")
        await run(connection, f"PRAGMA cache_size = -{settings.cache >> 10}")
        await version_of(connection, path)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _use_wal(connection: aiosqlite.Connection, settings: SQLiteSettings) -> None:
    """Switch to WAL. SQLite doesn't wait here while another process does the same, so we do."""
    until = time.monotonic() + settings.busy_timeout
    while True:
        try:
            [(mode,)] = await run(connection, "PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if code_of(error) & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            await asyncio.sleep(0.01)
            continue
        if mode != "wal":
            raise BackendError(f"the file system does not support WAL (journal mode {mode})", outcome="not_executed")
        return


async def reserve(connection: aiosqlite.Connection, path: str, settings: SQLiteSettings) -> None:
    """Grow the write-ahead log ahead of time, by a transaction too big for the cache that is rolled back.

    Measured on ext4: a sync after overwriting 12 kB takes 190 us, after appending 12 kB 480 us; a commit alone is
    then 1.5 times as fast. It is a matter of speed only: not done where little room is left, and where it fails
    (`sqlite3.Error`), nothing is lost.
    """
    if _size(f"{path}-wal") >= settings.wal_reserve or _free(path) < 8 * settings.wal_reserve:
        return
    try:
        await run(connection, "PRAGMA cache_size = 16")
        await run(connection, "BEGIN IMMEDIATE")
        await run(connection, "CREATE TABLE reserve (filler)")
        await run(connection, "INSERT INTO reserve VALUES (zeroblob(?))", (settings.wal_reserve,))
    finally:
        if connection.in_transaction:
            await run(connection, "ROLLBACK")
        await run(connection, f"PRAGMA cache_size = -{settings.cache >> 10}")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _free(path: str) -> int:
    return shutil.disk_usage(os.path.dirname(path)).free
