"""The chunks of detached turns: kept for replay, and followed by any number of clients, each at its own pace."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from weakref import WeakSet

from diarist.runtime.clock import TimerHandle
from diarist.runtime.errors import FellBehindError, MailboxFullError, OwnerError
from diarist.runtime.ids import Key

if TYPE_CHECKING:
    from diarist.runtime.engine import Engine
    from diarist.runtime.turn import Turn

C = TypeVar("C")

FEED_SECONDS = 60.0
"""How long after its turn's end the chunks are kept for clients that still read."""
OBJECT_BYTES = 1024
"""What a chunk counts that is neither text nor bytes: an SDK's object, or a dict."""


class Feed(Generic[C]):
    """The chunks of one detached turn. Clients hold places in it, it holds no queues: a slow one costs nothing."""

    def __init__(self, feeds: Feeds, turn: Turn, owner: str | None) -> None:
        self._feeds = feeds
        self.turn = turn
        self.owner = owner
        self.clients: WeakSet[Attachment[C]] = WeakSet()
        self.bytes = 0
        self.dropped = 0
        """Chunks from the beginning that are not kept any more."""
        self.ended = False
        self._error: BaseException | None = None
        self._chunks: list[C] = []
        self._waiting: set[asyncio.Future[None]] = set()
        self._timer: TimerHandle | None = None

    @property
    def count(self) -> int:
        """Chunks that came so far."""
        return self.dropped + len(self._chunks)

    def put(self, chunk: C) -> None:
        """The next chunk."""
        self._chunks.append(chunk)
        self._grow(_size(chunk))
        self._feeds.trim()
        wake(self._waiting)

    def at(self, place: int) -> C:
        """The chunk at a place; `FellBehindError` if it is not kept any more."""
        if place < self.dropped:
            raise FellBehindError("the client fell behind, and its next chunks are not kept: read the history")
        return self._chunks[place - self.dropped]

    def drop_oldest(self) -> bool:
        """Forget the oldest quarter, never the newest chunk; False if there is nothing else."""
        return len(self._chunks) > 1 and self._drop(max(len(self._chunks) // 4, 1))

    async def changed(self) -> None:
        """Wait for the next chunk, or the end."""
        await wait_in(self._waiting)

    def end(self, error: BaseException | None) -> None:
        """No chunk will come. `error`: what clients hear of when they have read all."""
        self.ended = True
        self._error = error
        wake(self._waiting)
        self._timer = self._feeds.engine.clock.call_later(FEED_SECONDS, self.clear)
        self.tidy()

    def raise_end(self) -> None:
        """How the feed ended: an error, or nothing."""
        if self._error is not None:
            raise self._error.with_traceback(None)

    def tidy(self) -> None:
        """Let go of the chunks once nobody can want them any more."""
        if self.ended and not self.clients:
            self.clear()

    def clear(self) -> None:
        """Forget all chunks."""
        self.stop_timer()
        self._drop(len(self._chunks))
        self._feeds.forget(self)

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _drop(self, count: int) -> bool:
        self._grow(-sum(map(_size, self._chunks[:count])))
        del self._chunks[:count]
        self.dropped += count
        return True

    def _grow(self, size: int) -> None:
        self.bytes += size
        self._feeds.bytes += size


class Feeds:
    """All feeds of one memory, within the bounds of `Limits`: `detached`, `attached` and `feed_bytes`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.bytes = 0
        self.clients: WeakSet[Attachment[Any]] = WeakSet()
        self.closed = False
        self._running: dict[Key, Feed[Any]] = {}
        self._kept: set[Feed[Any]] = set()
        self._arrivals: dict[Key, set[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        """Detached turns that run."""
        return len(self._running)

    def check_room(self) -> None:
        """`MailboxFullError` if no further turn can be detached now."""
        if len(self._running) >= self.engine.limits.detached:
            raise MailboxFullError("Limits.detached: so many turns run detached already", retry_after=1.0)

    def open(self, key: Key, turn: Turn, owner: str | None) -> Feed[Any]:
        """A feed for a turn that is being detached."""
        feed = self._running[key] = Feed[Any](self, turn, owner)
        self._kept.add(feed)
        self.notice(key)
        return feed

    def end(self, key: Key, feed: Feed[Any], error: BaseException | None) -> None:
        """The turn of a feed is over, and what it leaves is stored."""
        if self._running.get(key) is feed:
            del self._running[key]
        feed.end(error)
        self.engine.notice()

    def running(self, key: Key) -> Feed[Any] | None:
        """The feed of the conversation's running turn; None if there is none, or it is not detached (yet)."""
        return self._running.get(key)

    def turn(self, key: Key) -> Turn | None:
        """The conversation's running turn."""
        if (feed := self._running.get(key)) is not None:
            return feed.turn
        slot = self.engine.registry.find(key)
        return slot.turns.current if slot is not None and slot.turns is not None else None

    def notice(self, key: Key) -> None:
        """A turn of the conversation was detached, or is over."""
        if (waiting := self._arrivals.pop(key, None)) is not None:
            wake(waiting)

    async def arrival(self, key: Key) -> None:
        """Wait for the next `notice`."""
        waiting = self._arrivals.setdefault(key, set())
        try:
            await wait_in(waiting)
        finally:
            if not waiting and self._arrivals.get(key) is waiting:
                del self._arrivals[key]

    def trim(self) -> None:
        """Keep to `Limits.feed_bytes`: the largest feed loses its oldest chunks."""
        while self.bytes > self.engine.limits.feed_bytes:
            if not max(self._kept, key=lambda feed: feed.bytes).drop_oldest():
                return

    def forget(self, feed: Feed[Any]) -> None:
        self._kept.discard(feed)

    def close(self) -> None:
        """The memory is closed: nobody need wait for a turn, no timer stays. What came can still be read."""
        self.closed = True
        for waiting in list(self._arrivals.values()):
            wake(waiting)
        for feed in self._kept:
            feed.stop_timer()


class Attachment(Generic[C]):
    """`async for chunk in attachment`: a turn's chunks from its beginning, then live, until what it leaves is stored.

    It ends with the error with which the turn does: one of the stream, of the commit, or `TurnInterruptedError`.
    Leaving it stops nothing. `FellBehindError`: it was left behind so far that its next chunks are not kept.
    `checks` is awaited before the first chunk.
    """

    def __init__(
        self,
        feeds: Feeds,
        key: Key,
        feed: Feed[C] | None = None,
        *,
        wait: bool = False,
        owner: str | None = None,
        checks: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        if len(feeds.clients) >= feeds.engine.limits.attached:
            raise MailboxFullError("Limits.attached: so many clients follow turns already", retry_after=1.0)
        self._feeds = feeds
        self._key = key
        self._owner = owner
        self._wait = wait
        self._place = 0
        self._closed = False
        self._checks = checks
        self.turn: Turn | None = feeds.turn(key)
        """The turn that is followed; None if none runs."""
        self._feed: Feed[C] | None = None
        feeds.clients.add(self)
        if feed is None:
            self._find()
        else:
            self._follow(feed)

    def __aiter__(self) -> Self:
        return self

    async def begin(self) -> Turn | None:
        """Wait until there is a turn to follow; None: there is none, or it ended without being detached."""
        feed = await self._attached()
        return feed.turn if feed is not None else None

    async def __anext__(self) -> C:
        feed = await self._attached()
        while feed is not None and not self._closed:
            if self._place < feed.count:
                chunk = feed.at(self._place)
                self._place += 1
                return chunk
            if feed.ended:
                self.leave()
                feed.raise_end()
                break
            await feed.changed()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Leave; the turn goes on."""
        self.leave()

    def leave(self) -> None:
        """As `aclose`, without waiting for anything."""
        self._closed = True
        self._feeds.clients.discard(self)
        if self._feed is not None:
            self._feed.clients.discard(self)
            self._feed.tidy()

    def _follow(self, feed: Feed[C]) -> None:
        self._feed, self.turn = feed, feed.turn
        feed.clients.add(self)

    def _find(self) -> bool:
        feed = self._feeds.running(self._key)
        if self._feed is None and feed is not None and (self._wait or self.turn in (None, feed.turn)):
            self._follow(feed)
        return self._feed is not None

    async def _attached(self) -> Feed[C] | None:
        """The feed to read; None if there is no turn to follow, or if it ended without being detached."""
        if self._checks is not None:
            await self._checks()
            self._checks = None
        while not self._closed and not self._find():
            turn = self._feeds.turn(self._key)
            if self._feeds.closed or not (self._wait or (turn is not None and self.turn in (None, turn))):
                self.leave()
                break
            self.turn = turn
            await self._feeds.arrival(self._key)
        if self._feed is not None and None not in (self._owner, self._feed.owner) and self._owner != self._feed.owner:
            raise OwnerError("the conversation belongs to another owner")
        return self._feed


def wake(waiting: set[asyncio.Future[None]]) -> None:
    """Let all go on that wait in a set."""
    for future in waiting:
        if not future.done():
            future.set_result(None)
    waiting.clear()


async def wait_in(waiting: set[asyncio.Future[None]]) -> None:
    """Wait in a set until somebody wakes it."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting.add(future)
    try:
        await future
    finally:
        waiting.discard(future)


def _size(chunk: object) -> int:
    return sys.getsizeof(chunk) if isinstance(chunk, (str, bytes, bytearray)) else OBJECT_BYTES
