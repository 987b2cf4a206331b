"""Vectors in the SQLite file of a Diarist store, searched by sqlite-vec."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import struct
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import aiosqlite

from diarist.adapters.vectors.extension import connected
from diarist.adapters.vectors.store import Hit, Item, Scope
from diarist.backends.sqlite.connection import run
from diarist.backends.sqlite.errors import backend_error
from diarist.backends.sqlite.settings import SQLiteSettings, parse_url
from diarist.runtime.errors import ClosedError, SchemaError

T = TypeVar("T")

_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS recall_settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # scope: a JSON array of namespace, kind and id
    "CREATE TABLE IF NOT EXISTS recall (number INTEGER PRIMARY KEY, scope TEXT NOT NULL, id TEXT NOT NULL,"
    " role TEXT NOT NULL, text TEXT NOT NULL, at REAL NOT NULL, UNIQUE (scope, id))",
    # the partition key: a search reads no other scope's vectors
    "CREATE VIRTUAL TABLE IF NOT EXISTS recall_index USING vec0"
    " (scope TEXT PARTITION KEY, embedding FLOAT[{dimensions}] DISTANCE_METRIC=cosine)",
)
_ADD: Final = "INSERT OR IGNORE INTO recall (scope, id, role, text, at) VALUES (?, ?, ?, ?, ?) RETURNING number"
_INDEX: Final = "INSERT INTO recall_index (rowid, scope, embedding) VALUES (?, ?, ?)"
_SEARCH: Final = (
    "WITH near AS (SELECT rowid, distance FROM recall_index WHERE embedding MATCH ? AND k = ? AND scope = ?)"
    " SELECT r.id, r.role, r.text, r.at, near.distance FROM near JOIN recall AS r ON r.number = near.rowid"
    " WHERE r.scope = ? ORDER BY near.distance"
)
MOST_HITS: Final = 4096
"""sqlite-vec's bound of `k`."""


class SQLiteVectorStore:
    """`async with SQLiteVectorStore.open("sqlite:///chat.db", dimensions=384, embedding="minilm") as store: …`

    The file may be that of a `ChatMemory`, which goes on beside it: this opens a connection of its own, and its
    writes wait for the memory's like another process's. `embedding` names what makes the vectors: those of two
    embeddings can't be compared, so that another name or another number of dimensions is a `SchemaError`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        dimensions: int,
        embedding: str = "",
        settings: SQLiteSettings | None = None,
    ) -> None:
        if not 1 <= dimensions <= 8192:
            raise ValueError("dimensions: 1 to 8192")
        self.path = os.path.abspath(path)
        self.dimensions = dimensions
        self._embedding = embedding
        self._settings = settings or SQLiteSettings()
        self._connection: aiosqlite.Connection | None = None
        self._lock = asyncio.Lock()
        self._running: set[asyncio.Future[Any]] = set()

    @classmethod
    def open(cls, url: str, *, dimensions: int, embedding: str = "") -> Self:
        """A store for the URL of a SQLite store."""
        path, settings = parse_url(url, SQLiteSettings())
        return cls(path, dimensions=dimensions, embedding=embedding, settings=settings)

    async def __aenter__(self) -> Self:
        try:
            self._connection = await connected(self.path, self._settings)
        except sqlite3.Error as error:
            raise backend_error(error, self.path) from error
        try:
            await self._transaction(self._prepare)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection, after what is running."""
        if self._running:
            await asyncio.wait(self._running)
        async with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()

    async def add(self, scope: Scope, items: Sequence[Item]) -> None:
        """`VectorStore.add`. A vector of another length is a `ValueError`."""
        name = _name(scope)
        rows = [(item, self._packed(item.vector)) for item in items]

        async def write() -> None:
            for item, vector in rows:
                for (number,) in await self._run(_ADD, name, item.id, item.role, item.text, item.at):
                    await self._run(_INDEX, number, name, vector)

        await self._write(write)

    async def search(self, scope: Scope, vector: Sequence[float], limit: int) -> Sequence[Hit]:
        """`VectorStore.search`."""
        if not 1 <= limit <= MOST_HITS:
            raise ValueError(f"limit: 1 to {MOST_HITS}")
        name = _name(scope)
        async with self._lock:
            rows = await self._run(_SEARCH, self._packed(vector), limit, name, name)
        return [Hit(*row) for row in rows]

    async def delete(self, scope: Scope) -> int:
        """`VectorStore.delete`. The text is overwritten in the file."""
        name = _name(scope)

        async def write() -> int:
            numbers = await self._run("DELETE FROM recall WHERE scope = ? RETURNING number", name)
            for (number,) in numbers:
                await self._run("DELETE FROM recall_index WHERE rowid = ?", number)
            return len(numbers)

        return await self._write(write)

    async def _write(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run `function` as one transaction, to its end also if who waits for it is cancelled."""
        task = asyncio.ensure_future(self._transaction(function))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _transaction(self, function: Callable[[], Awaitable[T]]) -> T:
        async with self._lock:
            await self._run("BEGIN IMMEDIATE")
            try:
                result = await function()
                await self._run("COMMIT")
            except BaseException:
                if self._connection is not None and self._connection.in_transaction:
                    await self._run("ROLLBACK")
                raise
            return result

    def _packed(self, vector: Sequence[float]) -> bytes:
        if len(vector) != self.dimensions:
            raise ValueError(f"a vector of {len(vector)} dimensions; the store has {self.dimensions}")
        return struct.pack(f"<{self.dimensions}f", *vector)

    async def _run(self, sql: str, *values: Any) -> Sequence[Any]:
        if self._connection is None:
            raise ClosedError("the vector store is not open: use `async with`")
        try:
            return await run(self._connection, sql, values)
        except sqlite3.Error as error:
            raise backend_error(error, self.path) from error

    async def _prepare(self) -> None:
        for statement in _SCHEMA:
            await self._run(statement.format(dimensions=self.dimensions))
        settings = json.dumps({"dimensions": self.dimensions, "embedding": self._embedding})
        await self._run("INSERT OR IGNORE INTO recall_settings VALUES ('embedding', ?)", settings)
        [(known,)] = await self._run("SELECT value FROM recall_settings WHERE name = 'embedding'")
        if known != settings:
            raise SchemaError(f"{self.path} has vectors of {known}, and not of {settings}: use another file")


def _name(scope: Scope) -> str:
    """A scope as one text. JSON, so that no two scopes look alike."""
    return json.dumps(list(scope))
