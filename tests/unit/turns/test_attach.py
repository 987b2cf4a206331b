"""Following a detached turn: replay from its beginning, then live; nobody holds anybody up."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from diarist import (
    ChatMemory,
    ClosedError,
    Conversation,
    FellBehindError,
    Limits,
    MailboxFullError,
    OwnerError,
    TurnInterruptedError,
    UserMessage,
)
from diarist.runtime.feeds import FEED_SECONDS, OBJECT_BYTES
from tests.support.turns import HeldStore, ManualClock, Stream, Talk, forever, opened, settle, stored, until


class Tap:
    """A stream that gives what is poured in."""

    def __init__(self) -> None:
        self._chunks: asyncio.Queue[Any] = asyncio.Queue()

    def pour(self, *chunks: Any) -> None:
        for chunk in chunks:
            self._chunks.put_nowait(chunk)

    def __aiter__(self) -> Tap:
        return self

    async def __anext__(self) -> Any:
        chunk = await self._chunks.get()
        if chunk is None:
            raise StopAsyncIteration
        return chunk


async def begin(chat: Conversation, stream: Any, **options: Any) -> None:
    async with chat.turn(UserMessage("q"), **options) as turn:
        turn.detach(stream, "text")


async def all_of(chunks: Any) -> list[Any]:
    return [chunk async for chunk in chunks]


async def finish(memory: ChatMemory, tap: Tap) -> None:
    tap.pour(None)
    await until(lambda: not memory.stats().detached)


async def test_early_and_late_clients_get_the_same_objects() -> None:
    async with opened() as memory:
        chat, tap = memory.conversation("c"), Tap()
        await begin(chat, tap)
        early = asyncio.create_task(all_of(chat.attach()))
        chunks = ["".join(["ch", "unk", str(number)]) for number in range(4)]
        tap.pour(*chunks[:2])
        await settle()
        late = asyncio.create_task(all_of(memory.conversation("c").attach()))
        tap.pour(*chunks[2:])
        await settle()
        assert not late.done()
        tap.pour(None)
        for got in await asyncio.gather(early, late):
            assert all(one is other for one, other in zip(got, chunks, strict=True))


async def test_the_answer_is_there_when_it_ends() -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat, tap = memory.conversation("c"), Tap()
        await begin(chat, tap)
        store.hold()
        task = asyncio.create_task(all_of(chat.attach()))
        tap.pour("a", None)
        await store.reached.wait()
        await settle()
        assert not task.done()
        store.free.set()
        assert await task == ["a"]
        assert await stored(chat) == ["u:q", "a:a"]


async def test_nothing_to_follow() -> None:
    """No conversation, no turn, a turn that is over: it ends at once, and makes nothing."""
    async with opened() as memory:
        chat = memory.conversation("c")
        assert await all_of(chat.attach()) == []
        assert memory.stats().live == 0
        tap = Tap()
        await begin(chat, tap)
        follower = chat.attach()
        tap.pour("a")
        await finish(memory, tap)
        assert await all_of(chat.attach()) == []
        assert await all_of(follower) == ["a"]
        assert follower.turn is not None
        assert follower.turn.answer.text == "a"
        with pytest.raises(StopAsyncIteration):
            await anext(follower)


async def test_a_turn_that_is_not_detached_yet_is_waited_for() -> None:
    """A reload while the model is being connected."""
    async with opened() as memory:
        chat, connected = memory.conversation("c"), asyncio.Event()

        async def handler() -> None:
            async with chat.turn(UserMessage("q"), idempotency_key="k") as turn:
                await connected.wait()
                turn.detach(Stream("a"), "text")

        task = asyncio.create_task(handler())
        await settle()
        follower = chat.attach()
        assert follower.turn is not None
        assert follower.turn.settings.idempotency_key == "k"
        reading = asyncio.create_task(all_of(follower))
        await settle()
        connected.set()
        assert await reading == ["a"]
        await task


async def test_a_turn_that_is_never_detached_gives_nothing() -> None:
    """Nor does the next one: that is another turn."""
    async with opened() as memory:
        chat = memory.conversation("c")
        talk = Talk(chat, "1")
        await talk.inside.wait()
        reading = asyncio.create_task(all_of(chat.attach()))
        tap = Tap()
        following = asyncio.create_task(begin(chat, tap))
        await settle()
        assert not reading.done()
        await talk.finish()
        await following
        tap.pour("b")
        assert await reading == []
        await finish(memory, tap)


async def test_waiting_for_the_next_turn() -> None:
    """`wait=True`: also past turns that are not detached. Each attachment follows one turn."""
    async with opened() as memory:
        chat = memory.conversation("c")
        follower = chat.attach(wait=True)
        reading = asyncio.create_task(all_of(follower))
        await settle()
        talk = Talk(chat, "1")
        await talk.finish()
        assert not reading.done()
        for text in ("a", "b"):
            tap = Tap()
            await begin(chat, tap)
            tap.pour(text)
            await finish(memory, tap)
        assert await reading == ["a"]


async def test_waiting_ends_with_the_memory() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        reading = asyncio.create_task(all_of(chat.attach(wait=True)))
        await settle()
        await memory.drain()
        assert await reading == []
        with pytest.raises(ClosedError):
            chat.attach()


async def test_waiting_can_be_cancelled_and_go_on() -> None:
    """As for a keep-alive every few seconds: the place is kept, until the client is forgotten."""
    async with opened() as memory:
        chat, tap = memory.conversation("c"), Tap()
        follower = chat.attach(wait=True)
        for text in ("a", "b"):
            waiting = asyncio.ensure_future(anext(follower))
            await settle()
            waiting.cancel()
            await asyncio.wait([waiting])
            if text == "a":
                await begin(chat, tap)
            tap.pour(text)
            assert await anext(follower) == text
        await finish(memory, tap)
        del follower, waiting
        gc.collect(0)
        assert memory.stats().attached == 0


async def test_clients_come_and_go() -> None:
    """One is closed, one cancelled, one forgotten: the turn and the others go on."""
    async with opened() as memory:
        chat, tap = memory.conversation("c"), Tap()
        await begin(chat, tap)
        closed, forgotten, staying = chat.attach(), chat.attach(), chat.attach()
        cancelled = asyncio.create_task(all_of(chat.attach()))
        tap.pour("a")
        assert [await anext(client) for client in (closed, forgotten, staying)] == ["a"] * 3
        assert memory.stats().attached == 4
        await closed.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(closed)
        cancelled.cancel()
        await settle()
        del forgotten, cancelled
        gc.collect(0)
        assert memory.stats().attached == 1
        tap.pour("b")
        assert await anext(staying) == "b"
        await finish(memory, tap)
        assert await stored(chat) == ["u:q", "a:ab"]


async def test_a_slow_client_holds_nobody_up() -> None:
    """It reads the first chunk when all is stored, and gets the rest."""
    async with opened() as memory:
        chat, tap = memory.conversation("c"), Tap()
        await begin(chat, tap)
        slow, fast = chat.attach(), asyncio.create_task(all_of(chat.attach()))
        tap.pour("a", "b", "c")
        await finish(memory, tap)
        assert await fast == ["a", "b", "c"]
        assert await stored(chat) == ["u:q", "a:abc"]
        assert await all_of(slow) == ["a", "b", "c"]


async def test_a_stream_that_has_all_at_once_is_seen_as_it_comes() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await begin(chat, Stream(*map(str, range(100))))
        follower = chat.attach()
        assert await anext(follower) == "0"
        assert memory.stats().detached == 1
        assert len(await all_of(follower)) == 99


async def test_every_client_hears_of_the_end() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await begin(chat, Stream("a", forever))
        clients = [asyncio.create_task(all_of(chat.attach())) for _ in range(3)]
        await settle()
        await chat.interrupt()
        for result in await asyncio.gather(*clients, return_exceptions=True):
            assert isinstance(result, TurnInterruptedError)


async def test_another_owner_sees_nothing() -> None:
    """Neither of a stored conversation nor of one whose first turn runs."""
    async with opened() as memory:
        tap = Tap()
        mine = memory.conversation("c", owner="ann")
        await begin(mine, tap)
        theirs = memory.conversation("c", owner="bob")
        with pytest.raises(OwnerError):
            await anext(theirs.attach())
        tap.pour("a")
        await finish(memory, tap)
        tap = Tap()
        await begin(memory.conversation("c"), tap)
        tap.pour("b")
        with pytest.raises(OwnerError):
            await anext(theirs.attach())
        assert await anext(mine.attach()) == "b"
        await finish(memory, tap)


async def test_the_number_of_clients_is_bounded() -> None:
    async with opened(limits=Limits(attached=3)) as memory:
        chat, tap = memory.conversation("c"), Tap()
        await begin(chat, tap)
        clients = [chat.attach() for _ in range(3)]
        with pytest.raises(MailboxFullError):
            chat.attach()
        await clients.pop().aclose()
        clients.append(chat.attach())
        await finish(memory, tap)


@pytest.mark.parametrize("chunk", ["text", b"bytes", ("an", "object")])
async def test_what_is_kept_is_bounded(chunk: Any) -> None:
    """The longest feed loses its beginning: who needs it is told; who is live, and the answer, lose nothing."""
    async with opened(limits=Limits(feed_bytes=10 * OBJECT_BYTES)) as memory:
        chat, other = memory.conversation("c"), memory.conversation("d")
        tap, small = Tap(), Tap()
        await begin(other, small)
        small.pour("s")
        await settle()
        await begin(chat, tap)
        live, slow = chat.attach(), chat.attach()
        for _ in range(500):
            tap.pour(chunk)
            assert await anext(live) is chunk
        assert memory.stats().detached == 2
        for follower in (slow, chat.attach()):
            with pytest.raises(FellBehindError):
                await anext(follower)
        tap.pour("end")
        assert await anext(live) == "end"
        tap.pour(None)
        await until(lambda: memory.stats().detached == 1)
        assert await anext(other.attach()) == "s"
        await finish(memory, small)
        assert (await chat.get())[-1].text == (chunk * 500 if isinstance(chunk, str) else "") + "end"


async def test_the_age_of_what_is_kept_is_bounded() -> None:
    """A client that doesn't read on loses its place; one that has read all ends as it would have."""
    clock = ManualClock()
    async with opened(clock=clock) as memory:
        chat, tap = memory.conversation("c"), Tap()
        await begin(chat, tap)
        slow, done = chat.attach(), chat.attach()
        tap.pour("a", "b")
        assert [await anext(done), await anext(done)] == ["a", "b"]
        assert await anext(slow) == "a"
        await finish(memory, tap)
        clock.advance(FEED_SECONDS - 1)
        late = chat.attach()
        clock.advance(2)
        with pytest.raises(FellBehindError):
            await anext(slow)
        assert await all_of(done) == await all_of(late) == []


async def test_nothing_is_kept_when_nobody_reads() -> None:
    async with opened() as memory:
        chat, tap = memory.conversation("c"), Tap()
        await begin(chat, tap)
        reader = chat.attach()
        feeds = reader._feeds  # pyright: ignore[reportPrivateUsage]
        tap.pour("a" * 1000)
        await anext(reader)
        assert feeds.bytes > 1000
        tap.pour(None)
        assert await all_of(reader) == []
        assert feeds.bytes == 0
