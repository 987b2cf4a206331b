"""The Cassandra store, put together."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import Any, Self, TypeVar

from diarist.backends.cassandra.link import Link
from diarist.backends.cassandra.reading import Reader
from diarist.backends.cassandra.settings import CassandraSettings, Target, check_keyspace, parse_url, refused
from diarist.backends.cassandra.sweeping import Sweeper
from diarist.backends.cassandra.writing import Writer
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


class CassandraRepository:
    """Conversations in one keyspace. Any number of processes may use it at the same time.

    The plain constructor borrows a driver's `Session`, from a thread's view anybody's; `open` makes one of its own.
    Connecting, and preparing the statements, happens in a thread. Keyspace and tables that are missing are made by
    `prepare`, unless `create` is false; what is there is checked. While the cluster is away, calls fail at once or
    after `request_timeout`; when it is back they work again, without any help.
    """

    def __init__(
        self, session: Any, *, keyspace: str | None = None, settings: CassandraSettings | None = None
    ) -> None:
        """`keyspace`: None takes the session's own."""
        name = keyspace or getattr(session, "keyspace", None)
        if name is None:
            raise refused("the session has no keyspace: give one")
        self._start(Link(session, check_keyspace(name), settings or CassandraSettings()))

    def _start(self, link: Link) -> None:
        self._link = link
        self._writer = Writer(link)
        self._reader = Reader(link)
        self._sweeper = Sweeper(link)
        self._running: set[asyncio.Task[Any]] = set()

    @classmethod
    def open(cls, url: str) -> Self:
        """A store for `cassandra://[user:password@]host[,host…][:port]/keyspace?option=value`; the options are the
        fields of `CassandraSettings`, `tls` and `tls_ca`. Another URL is a `BackendError`, without its password."""
        target, settings = parse_url(url, CassandraSettings())
        return cls._of(target, settings)

    @classmethod
    def _of(cls, target: Target, settings: CassandraSettings) -> Self:
        repository = cls.__new__(cls)
        repository._start(Link(target, target.keyspace, settings))
        return repository

    @property
    def capabilities(self) -> Capabilities:
        """Commits need not wait for each other here, so neither do their batches."""
        return Capabilities(
            name="cassandra",
            max_record_bytes=self._link.settings.max_record_bytes,
            max_batch=256,
            batches=1024,
            durable=True,
        )

    @property
    def keyspace(self) -> str:
        return self._link.keyspace

    @property
    def session(self) -> Any:
        """The driver's session; None before `prepare`."""
        return self._link.session

    async def prepare(self) -> None:
        await self._link.open()

    async def close(self) -> None:
        """Finish what runs, then close an own session."""
        while self._running:
            await asyncio.wait(self._running)
        await self._link.close()

    async def __aenter__(self) -> Self:
        await self.prepare()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    def __del__(self) -> None:
        link: Link | None = getattr(self, "_link", None)
        if link is not None and link.is_open:
            warnings.warn(f"{link.where} was not closed; use `async with`", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"<CassandraRepository on keyspace {self._link.keyspace}>"

    async def load(self, key: Key) -> Snapshot | None:
        return await self._reader.load(key)

    async def commit(self, commits: Sequence[Commit], settle: Settle) -> None:
        """See `Repository.commit`. Cancelling it stops the calls of `settle`, not the writing."""
        listening = True

        def pass_on(index: int, outcome: CommitOutcome) -> None:
            if listening:
                settle(index, outcome)

        try:
            await self._alone(self._writer.commit(commits, pass_on))
        finally:
            listening = False

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
        return await self._alone(self._sweeper.erase(key, low, high))

    async def sweep(self, now: float, *, limit: int = 100) -> int:
        return await self._alone(self._sweeper.sweep(now, limit))

    async def _alone(self, work: Coroutine[Any, Any, T]) -> T:
        """Writing runs in a task of its own, which a caller that is cancelled leaves alone."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)
