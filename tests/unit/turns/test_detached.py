"""A detached turn is the runtime's: whatever its body does, it goes on, and ends when its stream does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from diarist import (
    BackendError,
    ChatMemory,
    Conversation,
    Limits,
    MailboxFullError,
    TurnInterruptedError,
    TurnRejectedError,
    UserMessage,
    outcome_of,
)
from tests.support.turns import (
    FULL,
    HeldStore,
    ManualClock,
    Stream,
    Talk,
    call,
    forever,
    opened,
    pair,
    settle,
    stored,
    until,
    whole_log,
)


async def leave_at_once(chat: Conversation, stream: Any, **options: Any) -> None:
    """A body that starts its model and goes."""
    async with chat.turn(UserMessage("q"), **options) as turn:
        turn.detach(stream, "text")


async def ended(memory: ChatMemory) -> None:
    """Wait until no detached turn is left."""
    await until(lambda: not memory.stats().detached)


async def test_the_body_gets_the_chunks_and_its_loop_ends_when_they_are_stored() -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        first, second = "".join(["long ", "enough"]), "".join(["to be ", "itself"])
        async with chat.turn(UserMessage("q")) as turn:
            store.hold()
            got: list[str] = []

            async def read() -> None:
                async for chunk in turn.detach(Stream(first, second), "text"):
                    got.append(chunk)

            task = asyncio.create_task(read())
            await store.reached.wait()
            await settle()
            assert got[0] is first
            assert got[1] is second
            assert not task.done()
            store.free.set()
            await task
            assert await stored(chat) == ["u:q", f"a:{first}{second}"]
        assert (turn.answer.text, turn.receipt.version) == (first + second, 1)


async def leave_by_break(chat: Conversation, stream: Stream) -> None:
    async with chat.turn(UserMessage("q")) as turn:
        async for _ in turn.detach(stream, "text"):
            break


async def leave_by_closing(chat: Conversation, stream: Stream) -> None:
    async def body() -> AsyncIterator[str]:
        async with chat.turn(UserMessage("q")) as turn:
            async for chunk in turn.detach(stream, "text"):
                yield chunk

    generator = body()
    await anext(generator)
    await generator.aclose()  # type: ignore[attr-defined]


async def leave_by_error(chat: Conversation, stream: Stream) -> None:
    async def body() -> None:
        async with chat.turn(UserMessage("q")) as turn:
            async for _ in turn.detach(stream, "text"):
                raise ConnectionError("the client is gone")

    with pytest.raises(ConnectionError):
        await body()


async def leave_by_cancellation(chat: Conversation, stream: Stream) -> None:
    async def body() -> None:
        async with chat.turn(UserMessage("q"), idempotency_key="k") as turn:
            async for _ in turn.detach(stream, "text"):
                pass

    task = asyncio.create_task(body())
    await stream.pending.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    outcome = outcome_of(caught.value)
    assert outcome is not None
    assert (outcome.outcome, outcome.idempotency_key) == ("unknown", "k")


LEAVING = [leave_at_once, leave_by_break, leave_by_closing, leave_by_error, leave_by_cancellation]


@pytest.mark.parametrize("leave", LEAVING)
async def test_leaving_stops_nothing(leave: Callable[[Conversation, Stream], Awaitable[None]]) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        go = asyncio.Event()
        stream = Stream("a", go.wait, "b")
        await leave(chat, stream)
        assert await stored(chat) == []
        assert memory.stats().detached == memory.stats().turns == 1
        go.set()
        await ended(memory)
        assert await stored(chat) == ["u:q", "a:ab"]
        assert (stream.closed, memory.stats().failures) == (1, 0)


async def test_the_next_turn_waits_for_it_also_in_the_same_task() -> None:
    """The task that left a detached turn does not run it any more: it may begin another one."""
    async with opened() as memory:
        chat = memory.conversation("c")
        go = asyncio.Event()
        await leave_at_once(chat, Stream("a", go.wait, "b"))
        with pytest.raises(TurnRejectedError):
            await chat.turn(UserMessage("2"), overlap="reject").__aenter__()
        second = Talk(chat, "2")
        await settle()
        assert not second.inside.is_set()
        second.go.set()
        go.set()
        async with chat.turn(UserMessage("3")) as turn:
            assert [message.text for message in turn.messages] == ["q", "ab", "2", "answer to 2", "3"]
        await second.task


@pytest.mark.parametrize(
    ("keep", "expected"),
    [("keep_partial", ["u:q", "a:a (cancelled)"]), ("keep_user", ["u:q"]), ("discard", [])],
)
@pytest.mark.parametrize("how", ["stop", "another turn", "age", "drain"])
async def test_whoever_ends_it_its_policy_decides(how: str, keep: str, expected: list[str]) -> None:
    store, clock = HeldStore(), ManualClock()
    async with opened(store, clock=clock, limits=Limits(turn_seconds=60, timeout=1000)) as memory:
        chat = memory.conversation("c")
        stream = Stream("a", forever, "b")
        await leave_at_once(chat, stream, on_cancel=keep)
        follower = chat.attach()
        assert await anext(follower) == "a"
        rest: list[str] = []
        if how == "stop":
            assert await chat.interrupt()
        elif how == "another turn":
            talk = Talk(chat, "2", overlap="interrupt")
            await talk.finish()
            rest = pair("2")
        elif how == "age":
            clock.advance(61)
        else:
            drain = asyncio.create_task(memory.drain(10))
            await settle()
            clock.advance(7.9)
            await settle()
            assert memory.stats().detached == 1
            clock.advance(0.2)
            report = await drain
            assert report.clean
        with pytest.raises(TurnInterruptedError):
            await anext(follower)
        assert stream.closed == 1
        assert memory.stats().failures == 0
    async with opened(store, seed=5) as memory:
        assert await stored(memory.conversation("c")) == [*expected, *rest]


async def test_a_drain_lets_it_finish_though_nobody_looks() -> None:
    store = HeldStore()
    async with opened(store) as memory:
        go = asyncio.Event()
        await leave_at_once(memory.conversation("c"), Stream("a", go.wait, "b"))
        drain = asyncio.create_task(memory.drain(30))
        await settle()
        assert not drain.done()
        go.set()
        assert (await drain).clean
    async with opened(store, seed=5) as memory:
        assert await stored(memory.conversation("c")) == ["u:q", "a:ab"]


@pytest.mark.parametrize(
    ("keep", "expected"),
    [("keep_partial", ["u:q", "a:a (error)"]), ("keep_user", ["u:q"]), ("discard", [])],
)
@pytest.mark.parametrize("stays", [True, False])
async def test_a_stream_that_fails(
    stays: bool, keep: str, expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Who follows hears of it. When the body is gone, log and stats do."""
    async with opened() as memory:
        chat = memory.conversation("c")

        async def body() -> None:
            async with chat.turn(UserMessage("q"), on_error=keep) as turn:  # type: ignore[arg-type]
                chunks = turn.detach(Stream("a", OSError("gone")), "text")
                async for _ in chunks if stays else Stream():
                    pass

        if stays:
            with pytest.raises(OSError, match="gone"):
                await body()
        else:
            await body()
            await ended(memory)
        assert await stored(chat) == expected
        assert memory.stats().failures == (0 if stays else 1)
        assert ("the stream of a detached turn failed" in caplog.text) is not stays


async def test_a_commit_that_fails_is_heard_by_the_followers_and_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        go = asyncio.Event()
        await leave_at_once(chat, Stream("a", go.wait))
        followers = [chat.attach(), chat.attach()]
        assert [await anext(follower) for follower in followers] == ["a", "a"]
        store.outcomes.append(FULL)
        go.set()
        for follower in followers:
            with pytest.raises(BackendError, match="disk is full"):
                await anext(follower)
        assert "a detached turn could not be stored" in caplog.text
        assert memory.stats().failures == 1
        assert await stored(chat) == []


async def test_a_repeated_key_waits_and_is_replayed() -> None:
    """A double click asks the model once."""
    async with opened() as memory:
        chat = memory.conversation("c")
        go = asyncio.Event()
        await leave_at_once(chat, Stream("a", go.wait, "b"), idempotency_key="k")

        async def again() -> tuple[bool, str]:
            async with chat.turn(UserMessage("q"), idempotency_key="k") as turn:
                return turn.replayed, turn.answer.text

        task = asyncio.create_task(again())
        await settle()
        assert not task.done()
        go.set()
        assert await task == (True, "ab")
        assert await stored(chat) == ["u:q", "a:ab"]


async def test_an_interrupted_one_leaves_its_key_open() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await leave_at_once(chat, Stream("a", forever), idempotency_key="k")
        await settle()
        await chat.interrupt()
        async with chat.turn(UserMessage("q"), idempotency_key="k") as turn:
            assert turn.resumed
            async for _ in turn.detach(Stream("whole"), "text"):
                pass
        assert await stored(chat) == ["u:q", "a:whole"]


async def test_the_body_has_nothing_more_to_say() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q")) as turn:
            async for _ in turn.record(Stream(call("look")), "text"):
                pass
            await turn.add({"role": "tool", "tool_call_id": "look", "content": "found"})
            chunks = turn.detach(Stream("a", "b"), "text")
            for misuse in (lambda: turn.record(Stream()), lambda: turn.detach(Stream())):
                with pytest.raises(RuntimeError, match="detached"):
                    misuse()
            with pytest.raises(RuntimeError, match="detached"):
                await turn.add(UserMessage("more"))
            assert [chunk async for chunk in chunks] == ["a", "b"]
            with pytest.raises(RuntimeError, match="over"):
                await turn.add(UserMessage("late"))
        assert await stored(chat) == ["u:q", "a:+look", "t:found", "a:ab"]


async def test_a_swallowed_interrupt_is_raised_when_the_body_is_left() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")

        async def body() -> None:
            async with chat.turn(UserMessage("q")) as turn:
                chunks = turn.detach(Stream("a", forever), "text")
                await anext(chunks)
                await chat.interrupt()
                with pytest.raises(TurnInterruptedError):
                    await anext(chunks)

        with pytest.raises(TurnInterruptedError):
            await body()


def rounds_of(turn: Any, tool: Callable[[], Awaitable[object]]) -> AsyncIterator[Any]:
    """A tool loop as one stream, which records itself."""

    async def run() -> AsyncIterator[Any]:
        async for chunk in turn.record(Stream("thinking", call("look")), "text"):
            yield chunk
        assert [item.id for item in turn.answer.tool_calls] == ["look"]
        await tool()
        await turn.add({"role": "tool", "tool_call_id": "look", "content": "found"})
        async for chunk in turn.record(Stream("done"), "text"):
            yield chunk

    return run()


@pytest.mark.parametrize("commit", ["turn", "eager", "round"])
async def test_several_rounds_in_one_stream(commit: Any) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q"), commit=commit) as turn:
            turn.detach(rounds_of(turn, lambda: asyncio.sleep(0)), None)
        assert [chunk async for chunk in chat.attach()] == ["thinking", call("look"), "done"]
        assert await stored(chat) == ["u:q", "a:thinking+look", "t:found", "a:done"]


@pytest.mark.parametrize("commit", ["turn", "eager", "round"])
async def test_several_rounds_interrupted_in_the_tool(commit: Any) -> None:
    """No call without a result stays in view; the tool is cancelled once, and may clean up."""
    async with opened() as memory:
        chat = memory.conversation("c")
        seen: list[str] = []

        async def tool() -> None:
            try:
                await forever()
            finally:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                seen.append("cleaned up")

        async with chat.turn(UserMessage("q"), commit=commit) as turn:
            turn.detach(rounds_of(turn, tool), None)
        await settle()
        assert await chat.interrupt()
        await ended(memory)
        assert seen == ["cleaned up"]
        shown = await stored(chat)
        assert shown[0] == "u:q"
        assert not any("look" in line for line in shown)
        assert memory.stats().failures == 0


async def test_an_error_between_the_rounds() -> None:
    async def tool() -> None:
        raise ValueError("no such thing")

    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q")) as turn:
            chunks = turn.detach(rounds_of(turn, tool), None)
            with pytest.raises(ValueError, match="no such thing"):
                _ = [chunk async for chunk in chunks]
        assert await stored(chat) == ["u:q", "a:thinking"]


async def test_a_deleted_conversation_is_not_revived() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await chat.add(UserMessage("old"))
        go = asyncio.Event()
        await leave_at_once(chat, Stream("a", go.wait))
        await chat.delete()
        go.set()
        await ended(memory)
        assert await stored(chat) == []
        assert await chat.info() is None
        assert memory.stats().failures == 1


async def test_the_number_of_detached_turns_is_bounded() -> None:
    async with opened(limits=Limits(detached=2)) as memory:
        go = asyncio.Event()
        for name in ("a", "b"):
            await leave_at_once(memory.conversation(name), Stream("x", go.wait))
        with pytest.raises(MailboxFullError) as caught:
            await leave_at_once(memory.conversation("c"), Stream("x"))
        assert caught.value.retry_after > 0
        go.set()
        await ended(memory)
        await leave_at_once(memory.conversation("d"), Stream("x"))
        await ended(memory)
        assert await whole_log(memory.conversation("d")) == ["u:q", "a:x"]


async def test_raw_bytes_are_detached_too() -> None:
    body = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q")) as turn:
            turn.detach(Stream(body[:30], body[30:]), encoding="sse")
        assert b"".join([read async for read in chat.attach()]) == body
        assert await stored(chat) == ["u:q", "a:Hi"]
