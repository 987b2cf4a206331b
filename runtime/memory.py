"""The front of the runtime: a memory over one repository."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Coroutine
from typing import Any, Self, Unpack
from urllib.parse import urlsplit

from diarist.runtime.clock import Environment
from diarist.runtime.conversation import Answer, Conversation, ReadMode, info_of
from diarist.runtime.drain import drain
from diarist.runtime.engine import Engine
from diarist.runtime.guards import Life
from diarist.runtime.ids import Key, check_id, check_namespace
from diarist.runtime.intake import Given
from diarist.runtime.limits import Limits
from diarist.runtime.options import CallOptions
from diarist.runtime.plugins import REPOSITORIES, find
from diarist.runtime.purging import Purger
from diarist.runtime.repository import Repository
from diarist.runtime.results import ConversationPage, DrainReport, Stats, View
from diarist.runtime.retention import Retention
from diarist.runtime.state import decode_head
from diarist.runtime.windows import MessageWindow, Window

DRAIN_SECONDS = 30.0
DELETIONS = 32
"""Conversations that `delete_namespace` erases at once."""


class ChatMemory:
    """The memory of all conversations in one store.

    It is used on one event loop, inside `async with`. The plain constructor borrows a repository; `open` makes one
    for a URL and closes it at the end. `sole_writer=True` promises that nobody else writes these conversations: then
    reads need not ask the store whether somebody did. `retention` says what of the log is purged in the background;
    without, everything is kept.
    """

    def __init__(
        self,
        repository: Repository,
        *,
        window: Window | None = None,
        limits: Limits | None = None,
        sole_writer: bool = False,
        environment: Environment | None = None,
        retention: Retention | None = None,
    ) -> None:
        self._engine = Engine(
            repository, window or MessageWindow(20), limits or Limits(), sole_writer, environment or Environment()
        )
        self._purger = Purger(self._engine, retention or Retention())
        self._engine.chores.append(self._purger.tick)
        self._owns = False
        self._drain: asyncio.Task[DrainReport] | None = None

    @classmethod
    def open(
        cls,
        url: str,
        *,
        window: Window | None = None,
        limits: Limits | None = None,
        sole_writer: bool = False,
        environment: Environment | None = None,
        retention: Retention | None = None,
    ) -> Self:
        """A memory over the store at `url`: `memory://`, `sqlite:///relative.db`, `sqlite:////absolute.db`, ….

        Nothing is connected before `async with`. `MissingDependencyError`: unknown scheme, or its driver is missing.
        """
        scheme = urlsplit(url).scheme
        repository: Repository = find(REPOSITORIES, scheme).open(url)
        memory = cls(
            repository,
            window=window,
            limits=limits,
            sole_writer=sole_writer,
            environment=environment,
            retention=retention,
        )
        memory._owns = True
        return memory

    async def __aenter__(self) -> Self:
        self._engine.guard.bind()
        try:
            await self._engine.start_up()
        except BaseException:
            self._engine.guard.life = Life.CLOSED
            if self._owns:
                await self._engine.repository.close()
            raise
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.drain()

    def __del__(self) -> None:
        engine: Engine | None = getattr(self, "_engine", None)
        if engine is not None and engine.guard.life in (Life.OPEN, Life.DRAINING):
            text = f"{self!r} was never closed: use `async with`"
            engine.abandon()
            warnings.warn(text, ResourceWarning, source=self, stacklevel=1)

    def __repr__(self) -> str:
        return f"<ChatMemory on {type(self._engine.repository).__name__}, {self._engine.guard.life.name.lower()}>"

    def conversation(self, id: str, *, namespace: str = "", owner: str | None = None) -> Conversation:
        """A handle on a conversation, which need not exist. `owner` becomes its owner when it is created, and must
        be its owner later (`OwnerError`)."""
        if owner is not None:
            check_id(owner, "owner")
        return Conversation(self._engine, Key(check_namespace(namespace), check_id(id)), owner)

    def add(self, id: str, *messages: Given, namespace: str = "", **options: Unpack[CallOptions]) -> Answer:
        """`Conversation.add` by id."""
        return self.conversation(id, namespace=namespace).add(*messages, **options)

    def get(self, id: str, *, namespace: str = "", read: ReadMode = "ordered") -> Coroutine[Any, Any, View]:
        """`Conversation.get` by id."""
        return self.conversation(id, namespace=namespace).get(read=read)

    def clear(self, id: str, *, namespace: str = "", **options: Unpack[CallOptions]) -> Answer:
        """`Conversation.clear` by id."""
        return self.conversation(id, namespace=namespace).clear(**options)

    async def conversations(
        self, *, namespace: str | None = None, after: str | None = None, limit: int = 100
    ) -> ConversationPage:
        """A page of all conversations, or of one namespace; `after` is the `next` of the page before.

        Stable: a conversation is listed once, however much is written meanwhile.
        """
        self._engine.guard.check()
        if limit < 1:
            raise ValueError("limit must be at least 1")
        if namespace is not None:
            check_namespace(namespace)
        page = await self._engine.repository.conversations(namespace=namespace, after=after, limit=limit)
        return ConversationPage((info_of(item.key, decode_head(item.head)) for item in page.items), page.next)

    async def delete_namespace(self, namespace: str) -> int:
        """Erase all conversations of a tenant, a few at a time; returns how many there were.

        Conversations that others make meanwhile may stay. When one can't be erased, those that are under way are
        finished and the error is raised; the call can be repeated.
        """
        count, cursor = 0, None
        while True:
            page = await self.conversations(namespace=namespace, after=cursor, limit=DELETIONS)
            deletions = [self.conversation(item.id, namespace=namespace).delete() for item in page]
            for outcome in await asyncio.gather(*deletions, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
                count += 1
            cursor = page.next
            if cursor is None:
                return count

    async def purge(
        self, id: str | None = None, *, namespace: str | None = None, retention: Retention | None = None
    ) -> int:
        """Take text that is out of view and past its retention out of the store; returns how many records it was in.

        Of one conversation, or without an id of all (of a namespace). `retention`: other than the memory's own.
        Numbers and idempotency keys stay. `rewind` to a version that needs what is gone is a `NotFoundError`. Can be
        repeated after a failure, and cancelled: what was declared gone is erased by the next purge.
        """
        self._engine.guard.check()
        chosen = self._purger.retention if retention is None else retention
        if id is not None:
            return await self._purger.purge(Key(check_namespace(namespace or ""), check_id(id)), chosen)
        return await self._purger.purge_all(namespace and check_namespace(namespace), chosen)

    def stats(self) -> Stats:
        """The runtime's counters now. Synchronous, and cheap enough for a scrape."""
        return self._engine.stats()

    async def drain(self, deadline: float = DRAIN_SECONDS) -> DrainReport:
        """Refuse new work, finish what is queued, commit, fail the rest, close: within `deadline` seconds.

        Can be repeated: a later call gets the report of the first. Calls from then on raise `ClosedError`.
        """
        self._engine.guard.check_place()
        if self._drain is None:
            self._engine.guard.refuse()
            self._drain = asyncio.get_running_loop().create_task(drain(self._engine, deadline, self._owns))
        return await asyncio.shield(self._drain)
