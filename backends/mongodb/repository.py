"""The MongoDB store, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, Self, TypeVar, cast

import pymongo
from pymongo.errors import PyMongoError

from diarist.backends.mongodb.burying import Undertaker
from diarist.backends.mongodb.driver import Client, Store
from diarist.backends.mongodb.erasing import Eraser
from diarist.backends.mongodb.finding import Finder
from diarist.backends.mongodb.points import Points
from diarist.backends.mongodb.reading import Reader
from diarist.backends.mongodb.schema import prepare
from diarist.backends.mongodb.settings import Address, MongoDBSettings, parse_url
from diarist.backends.mongodb.walking import WalkingFinder, is_needed
from diarist.backends.mongodb.writing import Writer
from diarist.runtime.errors import BackendError, ClosedError
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

_BATCHES: Final = 2
"""Inserts in flight: the server works on one while the next is encoded."""


class _Parts(NamedTuple):
    store: Store
    reader: Reader
    writer: Writer
    eraser: Eraser
    undertaker: Undertaker


class MongoDBRepository:
    """Conversations in one database of a MongoDB server, or of one that speaks its protocol.

    `client` is the caller's own `pymongo.AsyncMongoClient` or `motor.motor_asyncio.AsyncIOMotorClient`, which stays
    open; `MongoDBRepository.open` makes one. Any number of processes may use one database at the same time.
    Concerns and read preference are ours, whatever the client's: majority, journaled, primary.
    """

    def __init__(self, client: Client, database: str = "diarist", *, settings: MongoDBSettings | None = None) -> None:
        self._settings = settings or MongoDBSettings()
        self._client: Client | None = client
        self._address = Address("", database, database, {})
        self._begin()

    def _begin(self) -> None:
        self._parts: _Parts | None = None
        self._preparing: asyncio.Task[_Parts] | None = None
        self._running: set[asyncio.Task[Any]] = set()
        self._owns = False
        self._closed = False

    @classmethod
    def open(cls, url: str, *, settings: MongoDBSettings | None = None) -> Self:
        """A store for `mongodb://host:port/database` or `mongodb+srv://…`, which owns its client.

        Options in the URL are PyMongo's; `timeoutMS` is for each call. A URL that is none of this is a
        `BackendError`; no error and no log ever shows credentials.
        """
        address = parse_url(url)
        made = cls.__new__(cls)
        chosen = settings or MongoDBSettings()
        made._settings = chosen if address.timeout is None else replace(chosen, timeout=address.timeout)
        made._client = None
        made._address = address
        made._begin()
        made._owns = True
        return made

    def __repr__(self) -> str:
        return f"<MongoDBRepository {self._address.where}>"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            name="mongodb",
            max_record_bytes=self._settings.max_record_bytes,
            max_batch=512,
            batches=_BATCHES,
            durable=True,
        )

    async def prepare(self) -> None:
        """Connect, make what is missing, and check it. However many wait for it, it is done once; after a failure
        the next call tries again."""
        await self._ready()

    async def _ready(self) -> _Parts:
        if self._closed:
            raise ClosedError(f"the store {self._address.where} is closed")
        if self._parts is not None:
            return self._parts
        if self._preparing is None or self._preparing.done():
            self._preparing = asyncio.ensure_future(self._prepare())
        return await asyncio.shield(self._preparing)

    async def _prepare(self) -> _Parts:
        if self._client is None:
            self._client = _connect(self._address)
        store = Store(self._client, self._address.database, self._address.where, self._settings)
        server = await prepare(store)
        points = Points()
        finder = (WalkingFinder if is_needed(server) else Finder)(store, points)
        eraser = Eraser(store, finder)
        undertaker = Undertaker(store, finder, eraser)
        writer = Writer(store, finder, points, undertaker, self._settings.max_record_bytes)
        self._parts = _Parts(store, Reader(store, finder), writer, eraser, undertaker)
        return self._parts

    async def close(self) -> None:
        """Finish what runs (each call of the driver has its time limit), then close the client if it is ours."""
        self._closed = True
        waiting = {*self._running, *((self._preparing,) if self._preparing is not None else ())}
        while waiting:
            await asyncio.wait(waiting)
            waiting = set(self._running)
        if self._parts is not None:
            self._parts.store.closed = True
        if self._owns and self._client is not None:
            client, self._client = self._client, None
            await client.close()

    async def __aenter__(self) -> Self:
        try:
            await self.prepare()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def load(self, key: Key) -> Snapshot | None:
        parts = await self._ready()
        return await self._alone(parts.reader.load(key))

    async def commit(self, commits: Sequence[Commit], settle: Settle) -> None:
        """See `Repository.commit`. Cancelling it stops the calls of `settle`, not the writing."""
        parts = await self._ready()
        listening = True

        def pass_on(index: int, outcome: CommitOutcome) -> None:
            if listening:
                settle(index, outcome)

        try:
            await self._alone(parts.writer.commit(commits, pass_on))
        finally:
            listening = False

    async def versions(self, keys: Collection[Key]) -> Mapping[Key, Point]:
        parts = await self._ready()
        return await self._alone(parts.reader.points(keys))

    async def operations(self, key: Key, ids: Collection[str]) -> Mapping[str, Done]:
        parts = await self._ready()
        return await self._alone(parts.reader.operations(key, ids))

    async def read(
        self, key: Key, low: int, high: int, *, limit: int, backwards: bool = False
    ) -> Sequence[StoredRecord]:
        parts = await self._ready()
        return await self._alone(parts.reader.read(key, low, high, limit, backwards))

    async def conversations(
        self, *, namespace: str | None = None, after: str | None = None, limit: int = 100
    ) -> ListPage:
        parts = await self._ready()
        return await self._alone(parts.reader.conversations(namespace, after, limit))

    async def erase(self, key: Key, low: int, high: int) -> int:
        parts = await self._ready()
        return await self._alone(parts.eraser.erase(key, low, high))

    async def sweep(self, now: float, *, limit: int = 100) -> int:
        parts = await self._ready()
        return await self._alone(parts.undertaker.sweep(now, limit))

    async def _alone(self, work: Coroutine[Any, Any, T]) -> T:
        """In a task of its own: PyMongo closes the connection of a call that is cancelled, and a pool of closed
        connections is what a storm of impatient callers would leave."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # seen, also where the caller is gone


def _connect(address: Address) -> Client:
    try:
        return cast(Client, pymongo.AsyncMongoClient(address.url, **address.options))
    except (PyMongoError, ValueError, TypeError) as error:
        # The driver's text may quote the URL, credentials included.
        text = f"{address.where}: the driver refuses the URL ({type(error).__name__}); check its options"
        raise BackendError(text, outcome="not_executed") from None
