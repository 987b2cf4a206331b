"""What the doctor looks at."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from diarist.adapters.cli.running import describe
from diarist.adapters.cli.stores import opened
from diarist.backends.conformance import check
from diarist.backends.conformance.harness import Connect, NewStore
from diarist.backends.memory import MemoryRepository
from diarist.backends.sqlite import SQLiteRepository, SQLiteSettings
from diarist.backends.sqlite.opening import has_reset_bug
from diarist.backends.sqlite.schema import APPLICATION_ID, CURRENT
from diarist.backends.sqlite.settings import parse_url
from diarist.runtime.errors import DiaristError

PACKAGES = ("aiosqlite", "anyio", "orjson", "typer", "rich", "pymongo", "motor", "cassandra-driver")
LITTLE_SPACE = 1 << 30
NO_SPACE = 64 << 20
"""Bytes of free disk at which to warn, and to fail."""


Status = Literal["ok", "note", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found. `note` is for information, `warn` no failure."""

    name: str
    status: Status
    text: str


def machine() -> Iterator[Finding]:
    """Versions of what runs."""
    yield Finding("diarist", "ok", f"{version('diarist')} on Python {platform.python_version()}, {platform.system()}")
    found = [f"{name} {known}" for name in PACKAGES if (known := _version(name))]
    yield Finding("packages", "ok", ", ".join(found))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


async def reachable(store: str) -> AsyncIterator[Finding]:
    """Open the store as the runtime does, and read from it."""
    try:
        async with opened(store) as memory:
            page = await memory.conversations(limit=1)
    except (DiaristError, OSError) as error:
        yield Finding("store", "fail", describe(error))
    else:
        yield Finding("store", "ok", "reachable, and it has conversations" if page else "reachable, and it is empty")


def cassandra_driver() -> Finding:
    """The driver, and the event loop that it found."""
    try:
        from diarist.backends.cassandra import reactor
    except ImportError as error:
        return Finding("cassandra-driver", "fail", str(error))
    name = reactor()
    if name == "libev":
        return Finding("cassandra-driver", "ok", "its sockets run on libev, a C extension")
    text = f"its sockets run on {name}: slower than libev, and asyncore is gone from Python 3.12 on"
    return Finding("cassandra-driver", "warn", text)


def sqlite_file(path: Path, store: str, *, integrity: bool) -> Iterator[Finding]:
    """The library, the file, and the place where it lies."""
    text = f"SQLite {sqlite3.sqlite_version}"
    if has_reset_bug(sqlite3.sqlite_version_info):
        text += (
            " has the WAL-reset bug: in rare cases several processes that write one file can damage it. "
            "Use SQLite 3.51.3 or later, or let one process write"
        )
        yield Finding("sqlite", "warn", text)
    else:
        yield Finding("sqlite", "ok", text)
    if path.is_file():
        yield from _database(path, integrity)
        yield _mode(path)
    yield _durability(parse_url(store, SQLiteSettings())[1])
    yield from _place(path.absolute().parent)


def _database(path: Path, integrity: bool) -> Iterator[Finding]:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (schema,) = connection.execute("PRAGMA user_version").fetchone()
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            if application != APPLICATION_ID:
                yield Finding("schema", "fail", "the file is no Diarist store")
            else:
                status: Status = "ok" if schema == CURRENT else "fail" if schema > CURRENT else "note"
                yield Finding("schema", status, f"version {schema}; this Diarist knows {CURRENT}")
            yield Finding("journal", "ok" if mode == "wal" else "fail", f"journal mode {mode}")
            if integrity:
                problems = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
                good = problems == ["ok"]
                yield Finding("integrity", "ok" if good else "fail", "whole" if good else "; ".join(problems))
    except (sqlite3.Error, OSError) as error:
        yield Finding("database", "fail", f"{path}: {error}")


def _durability(settings: SQLiteSettings) -> Finding:
    text = f"synchronous={settings.synchronous}"
    if settings.synchronous in ("full", "extra"):
        return Finding("durability", "ok", f"{text}: what is acknowledged survives a power cut")
    return Finding("durability", "warn", f"{text}: a power cut may take the last acknowledged commits")


def _mode(path: Path) -> Finding:
    mode = path.stat().st_mode
    text = f"{path}, {stat.filemode(mode)}, {path.stat().st_size:,} bytes"
    if not os.access(path, os.R_OK | os.W_OK):
        return Finding("file", "fail", f"{text}: this process may not read and write it")
    if mode & stat.S_IWOTH:
        return Finding("file", "warn", f"{text}: everybody on this machine may write to it")
    if mode & stat.S_IROTH and os.name == "posix":
        return Finding("file", "note", f"{text}: everybody on this machine may read it")
    return Finding("file", "ok", text)


def _place(folder: Path) -> Iterator[Finding]:
    if not folder.is_dir():
        yield Finding("folder", "fail", f"there is no directory {folder}")
        return
    if not os.access(folder, os.W_OK):
        yield Finding("folder", "fail", f"this process may not write to {folder}, where SQLite keeps -wal and -shm")
    free = shutil.disk_usage(folder).free
    status: Status = "fail" if free < NO_SPACE else "warn" if free < LITTLE_SPACE else "ok"
    yield Finding("disk", status, f"{free / (1 << 30):,.1f} GiB free at {folder}")


async def self_test(store: str) -> Finding:
    """The conformance suite on scratch data: of the same kind, at the same place, and gone afterwards."""
    new_store = _scratch(store)
    if new_store is None:
        return Finding("self-test", "note", f"there is none for {urlsplit(store).scheme} yet")
    try:
        report = await check(new_store)
    except (DiaristError, OSError) as error:
        return Finding("self-test", "fail", f"it could not run: {describe(error)}")
    return Finding("self-test", "ok" if report.ok else "fail", str(report))


def _scratch(store: str) -> NewStore | None:
    scheme = urlsplit(store).scheme
    if scheme == "memory":
        return _scratch_memory
    if scheme != "sqlite":
        return None
    path, given = parse_url(store, SQLiteSettings())
    # Each rule has a store of its own, and none is big: growing their logs ahead would be most of the work.
    folder, settings = Path(path).absolute().parent, replace(given, wal_reserve=0)

    @asynccontextmanager
    async def scratch_file() -> AsyncGenerator[Connect, None]:
        with tempfile.TemporaryDirectory(prefix=".diarist-doctor-", dir=folder) as scratch:
            yield lambda: SQLiteRepository(Path(scratch) / "scratch.db", settings=settings)

    return scratch_file


@asynccontextmanager
async def _scratch_memory() -> AsyncGenerator[Connect, None]:
    yield MemoryRepository
