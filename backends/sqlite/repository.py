"""The SQLite store, put together."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import Any, Self, TypeVar

from diarist.backends.sqlite.connection import Channel
from diarist.backends.sqlite.erasing import Eraser
from diarist.backends.sqlite.opening import open_reading, open_writing
from diarist.backends.sqlite.reading import Reader
from diarist.backends.sqlite.settings import SQLiteSettings, parse_url
from diarist.backends.sqlite.writing import Writer
from diarist.runtime.ids import Key
from diarist.runtime.repository import (
    Capabilities,
    Commit,
    CommitOutcome,
    Done,
    ListPage,
    Point,
    Settle,
    Snapshot,
    StoredRecord,
)

T = TypeVar("T")


class SQLiteRepository:
    """Conversations in one SQLite file. Other processes may use the same file at the same time.

    It has two connections: all writing goes through one, all reading through the other, so that no read waits for
    a commit. The file is made if there is none; its directory must exist. After an error (disk full, locked,
    read-only, …) the repository is usable again as soon as the cause is gone.
    """

    def __init__(self, path: str | os.PathLike[str], *, settings: SQLiteSettings | None = None) -> None:
        self._path = os.path.abspath(path)
        self._settings = settings or SQLiteSettings()
        self._writing = Channel(self._path, self._open_writing)
        self._reading = Channel(self._path, self._open_reading)
        self._writer = Writer(self._writing, self._settings)
        self._eraser = Eraser(self._writing, self._writer, self._settings)
        self._reader = Reader(self._reading)
        self._running: set[asyncio.Task[Any]] = set()
        self._opened = False

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            name="sqlite",
            max_record_bytes=self._settings.max_record_bytes,
            max_batch=512,
            batches=1,
            durable=True,
        )

    @property
    def path(self) -> str:
        """The file, absolute."""
        return self._path

    @classmethod
    def open(cls, url: str) -> Self:
        """A store for `sqlite:///relative.db` or `sqlite:////absolute.db`, with the fields of `SQLiteSettings` as
        options: `?synchronous=normal&busy_timeout=2`. A URL that is none of this is a `BackendError`."""
        path, settings = parse_url(url, SQLiteSettings())
        return cls(path, settings=settings)

    async def prepare(self) -> None:
        await self._writing.connection()
        await self._reading.connection()

    async def close(self) -> None:
        """Finish what runs, then close both connections."""
        while self._running:
            await asyncio.wait(self._running)
        await self._reading.close()
        await self._writing.close()
        self._opened = False

    async def __aenter__(self) -> Self:
        await self.prepare()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    def __del__(self) -> None:
        if getattr(self, "_opened", False):
            warnings.warn(f"the store {self._path} was not closed; use `async with`", ResourceWarning, stacklevel=2)

    async def load(self, key: Key) -> Snapshot | None:
        return await self._reader.load(key)

    async def commit(self, commits: Sequence[Commit], settle: Settle) -> None:
        """See `Repository.commit`. Cancelling it stops the calls of `settle`, not the writing."""
        listening = True

        def pass_on(index: int, outcome: CommitOutcome) -> None:
            if listening:
                settle(index, outcome)

        try:
            await self._alone(self._commit(commits, pass_on))
        finally:
            listening = False

    async def _commit(self, commits: Sequence[Commit], settle: Settle) -> None:
        async with self._writer.lock:
            await self._writer.commit(commits, settle)

    async def versions(self, keys: Collection[Key]) -> Mapping[Key, Point]:
        return await self._reader.versions(keys)

    async def operations(self, key: Key, ids: Collection[str]) -> Mapping[str, Done]:
        return await self._reader.operations(key, ids)

    async def read(
        self, key: Key, low: int, high: int, *, limit: int, backwards: bool = False
    ) -> Sequence[StoredRecord]:
        return await self._reader.read(key, low, high, limit, backwards)

    async def conversations(
        self, *, namespace: str | None = None, after: str | None = None, limit: int = 100
    ) -> ListPage:
        return await self._reader.conversations(namespace, after, limit)

    async def erase(self, key: Key, low: int, high: int) -> int:
        return await self._alone(self._eraser.erase(key, low, high))

    async def sweep(self, now: float, *, limit: int = 100) -> int:
        return await self._alone(self._eraser.sweep(now, limit))

    async def _alone(self, work: Coroutine[Any, Any, T]) -> T:
        """Writing runs in a task of its own: a caller that is cancelled must not release the lock half-way."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _open_writing(self) -> Any:
        self._opened = True
        return await open_writing(self._path, self._settings)

    async def _open_reading(self) -> Any:
        await self._writing.connection()
        return await open_reading(self._path, self._settings)
