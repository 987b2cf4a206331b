"""What an unfinished turn leaves: every commit mode with every policy, for every way to leave the body."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest

from diarist import AssistantMessage, ChatMemory, Message, NotFoundError, UserMessage, outcome_of
from diarist.runtime.conversation import Conversation
from diarist.runtime.options import CommitMode, Keep
from tests.support.turns import END, Stream, call, forever, lines, opened, settle, stored, whole_log

MODES: tuple[CommitMode, ...] = ("turn", "eager", "round")
KEEPS: tuple[Keep, ...] = ("keep_partial", "keep_user", "discard")


class BodyError(Exception):
    """Raised by a body under test."""


async def reply(chat: Conversation, stream: Any, **options: Any) -> AsyncIterator[str]:
    """What a web handler is: it streams while the turn is open."""
    async with chat.turn(UserMessage("q"), **options) as turn:
        async for chunk in turn.record(stream, format="text"):
            yield chunk


async def _consume(chat: Conversation, stream: Stream, options: dict[str, Any]) -> None:
    async for _ in reply(chat, stream, **options):
        pass


async def cancel_task(chat: Conversation, options: dict[str, Any]) -> Stream:
    stream = Stream("a", "b", forever)
    task = asyncio.create_task(_consume(chat, stream, options))
    await stream.pending.wait()
    task.cancel("stop")
    with pytest.raises(asyncio.CancelledError, match="stop"):
        await task
    return stream


async def cancel_scope(chat: Conversation, options: dict[str, Any]) -> Stream:
    stream = Stream("a", "b", forever)
    async with anyio.create_task_group() as group:
        group.start_soon(_consume, chat, stream, options)
        await stream.pending.wait()
        group.cancel_scope.cancel()
    return stream


async def cancelled_scope_at_yield(chat: Conversation, options: dict[str, Any]) -> Stream:
    stream = Stream("a", "b", forever)
    seen: list[str] = []
    with anyio.CancelScope() as scope:
        async for chunk in reply(chat, stream, **options):
            seen.append(chunk)
            if len(seen) == 2:
                scope.cancel()
    assert seen == ["a", "b"]
    return stream


class Deadline:
    """A time-out that fires when a stream gets to it."""

    def __init__(self) -> None:
        self.scope = asyncio.timeout(None)

    async def fire(self) -> None:
        self.scope.reschedule(asyncio.get_running_loop().time())
        await forever()


async def time_out(chat: Conversation, options: dict[str, Any]) -> Stream:
    deadline = Deadline()
    stream = Stream("a", "b", deadline.fire)

    async def handler() -> None:
        async with deadline.scope:
            await _consume(chat, stream, options)

    with pytest.raises(TimeoutError):
        await handler()
    return stream


async def close_generator(chat: Conversation, options: dict[str, Any]) -> Stream:
    stream = Stream("a", "b", forever)
    generator: Any = reply(chat, stream, **options)
    assert [await generator.__anext__(), await generator.__anext__()] == ["a", "b"]
    await generator.aclose()
    return stream


async def abandon(chat: Conversation, options: dict[str, Any]) -> Stream:
    stream = Stream("a", "b", forever)
    generator: Any = reply(chat, stream, **options)
    assert [await generator.__anext__(), await generator.__anext__()] == ["a", "b"]
    del generator
    await settle()
    return stream


async def break_out(chat: Conversation, options: dict[str, Any]) -> Stream:
    stream = Stream("a", "b", forever)
    async with chat.turn(UserMessage("q"), **options) as turn:
        async for chunk in turn.record(stream, format="text"):
            if chunk == "b":
                break
    assert turn.answer.status == "cancelled"
    return stream


async def return_out(chat: Conversation, options: dict[str, Any]) -> Stream:
    stream = Stream("a", "b", forever)

    async def handler() -> str | None:
        async with chat.turn(UserMessage("q"), **options) as turn:
            async for chunk in turn.record(stream, format="text"):
                if chunk == "b":
                    return "left"
        return None

    assert await handler() == "left"
    return stream


async def interrupt(chat: Conversation, options: dict[str, Any]) -> Stream:
    stream = Stream("a", "b", forever)
    task = asyncio.create_task(_consume(chat, stream, options))
    await stream.pending.wait()
    assert await chat.interrupt() is True
    with pytest.raises(Exception, match="interrupted"):
        await task
    assert task.cancelling() == 0
    return stream


async def stream_error(chat: Conversation, options: dict[str, Any]) -> Stream:
    stream = Stream("a", "b", BodyError("the model failed"))
    with pytest.raises(BodyError, match="the model failed"):
        await _consume(chat, stream, options)
    return stream


async def body_error(chat: Conversation, options: dict[str, Any]) -> Stream:
    stream = Stream("a", "b", forever)

    async def handler() -> None:
        async with chat.turn(UserMessage("q"), **options) as turn:
            async for chunk in turn.record(stream, format="text"):
                if chunk == "b":
                    raise BodyError("the body failed")

    with pytest.raises(BodyError, match="the body failed"):
        await handler()
    return stream


async def inner_time_out(chat: Conversation, options: dict[str, Any]) -> Stream:
    deadline = Deadline()
    stream = Stream("a", "b", deadline.fire)

    async def handler() -> None:
        async with chat.turn(UserMessage("q"), **options) as turn, deadline.scope:
            async for _ in turn.record(stream, format="text"):
                pass

    with pytest.raises(TimeoutError):
        await handler()
    return stream


Leave = Callable[[Conversation, dict[str, Any]], Awaitable[Stream]]
CANCELS: tuple[Leave, ...] = (
    cancel_task,
    cancel_scope,
    cancelled_scope_at_yield,
    time_out,
    close_generator,
    abandon,
    break_out,
    return_out,
    interrupt,
)
ERRORS: tuple[Leave, ...] = (stream_error, body_error)
KEPT: dict[Keep, list[str]] = {"keep_partial": ["u:q", "a:ab"], "keep_user": ["u:q"], "discard": []}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("leave", CANCELS, ids=lambda leave: leave.__name__)
async def test_on_cancel_decides_what_a_cancelled_turn_leaves(leave: Leave, keep: Keep, mode: CommitMode) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        stream = await leave(chat, {"commit": mode, "on_cancel": keep})
        expected = [line + " (cancelled)" if line.startswith("a") else line for line in KEPT[keep]]
        assert await stored(chat) == expected
        assert stream.closed == 1
        assert memory.stats().failures == 0
        assert memory.stats().turns == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("leave", ERRORS, ids=lambda leave: leave.__name__)
async def test_on_error_decides_what_a_failed_turn_leaves(leave: Leave, keep: Keep, mode: CommitMode) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        stream = await leave(chat, {"commit": mode, "on_error": keep})
        expected = [line + " (error)" if line.startswith("a") else line for line in KEPT[keep]]
        assert await stored(chat) == expected
        assert stream.closed == 1


async def test_a_time_out_inside_the_body_is_an_error_of_the_body() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await inner_time_out(chat, {"on_error": "keep_user"})
        assert await stored(chat) == ["u:q"]


@pytest.mark.parametrize(("mode", "keep"), list(itertools.product(MODES, KEEPS)))
async def test_a_normal_end_stores_question_and_answer_whatever_the_policies(mode: CommitMode, keep: Keep) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        stream = Stream("a", "b")
        options: Any = {"commit": mode, "on_cancel": keep, "on_error": keep}
        seen = [chunk async for chunk in reply(chat, stream, **options)]
        assert seen == ["a", "b"]
        assert await stored(chat) == ["u:q", "a:ab"]
        assert await whole_log(chat) == ["u:q", "a:ab"]
        assert stream.closed == 1


@pytest.mark.parametrize(("mode", "versions"), [("turn", 1), ("eager", 2), ("round", 2)])
async def test_the_commit_mode_decides_how_many_entries_a_turn_is(mode: CommitMode, versions: int) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q"), commit=mode) as turn:
            async for _ in turn.record(Stream("a"), format="text"):
                pass
        assert (await chat.get()).version == turn.receipt.version == versions


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keep", KEEPS)
async def test_cancelled_before_the_first_chunk_leaves_no_empty_answer(mode: CommitMode, keep: Keep) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        stream = Stream(forever)
        task = asyncio.create_task(_consume(chat, stream, {"commit": mode, "on_cancel": keep}))
        await stream.pending.wait()
        task.cancel()
        await asyncio.wait([task])
        assert await stored(chat) == ([] if keep == "discard" else ["u:q"])
        assert stream.closed == 1


@pytest.mark.parametrize("mode", MODES)
async def test_a_stream_that_ends_with_nothing_leaves_no_empty_answer(mode: CommitMode) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q"), commit=mode) as turn:
            async for _ in turn.record(Stream(), format="text"):
                pass
        assert await stored(chat) == ["u:q"]
        with pytest.raises(NotFoundError):
            _ = turn.answer


async def test_cancelled_after_the_last_chunk_before_the_commit_keeps_the_answer_as_complete() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        done = asyncio.Event()

        async def handler() -> None:
            async with chat.turn(UserMessage("q")) as turn:
                async for _ in turn.record(Stream("a"), format="text"):
                    pass
                done.set()
                await forever()

        task = asyncio.create_task(handler())
        await done.wait()
        task.cancel()
        await asyncio.wait([task])
        assert await stored(chat) == ["u:q", "a:a"]


async def test_closed_early_though_the_end_was_seen_is_complete() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q"), on_cancel="discard", idempotency_key="k") as turn:
            async for chunk in turn.record(Stream("a", END, forever), format="text"):
                if chunk == END:
                    break
        assert turn.answer.status == "complete"
        assert await stored(chat) == ["u:q", "a:a"]
        async with chat.turn(UserMessage("q"), idempotency_key="k") as again:
            assert again.replayed


async def test_a_break_before_the_first_chunk_of_a_later_round_is_no_normal_end() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q"), idempotency_key="k") as turn:
            async for _ in turn.record(Stream("a"), format="text"):
                pass
            turn.record(Stream("never read"), format="text")
        async with chat.turn(UserMessage("q"), idempotency_key="k") as again:
            assert not again.replayed
            assert again.resumed


async def _hand_in(memory: ChatMemory, mode: CommitMode, keep: Keep, how: str) -> list[str]:
    """A turn with a finished round, cut off in its second."""
    chat = memory.conversation("c")
    async with chat.turn(UserMessage("q"), commit=mode, on_cancel=keep) as turn:
        async for _ in turn.record(Stream("let me see", call("t1")), format="text"):
            pass
        await turn.add({"role": "tool", "tool_call_id": "t1", "content": "42"})
        async for chunk in turn.record(Stream("a", "b", forever), format="text"):
            if chunk == "b" and how == "break":
                break
    return await stored(chat)


@pytest.mark.parametrize(
    ("mode", "keep", "expected"),
    [
        ("turn", "keep_partial", ["u:q", "a:let me see+t1", "t:42", "a:ab (cancelled)"]),
        ("turn", "keep_user", ["u:q"]),
        ("turn", "discard", []),
        ("eager", "keep_user", ["u:q"]),
        ("eager", "discard", []),
        ("round", "keep_partial", ["u:q", "a:let me see+t1", "t:42", "a:ab (cancelled)"]),
        ("round", "keep_user", ["u:q", "a:let me see+t1", "t:42"]),
        ("round", "discard", []),
    ],
)
async def test_policies_with_a_finished_round_before_the_one_that_was_left(
    mode: CommitMode, keep: Keep, expected: list[str]
) -> None:
    async with opened() as memory:
        assert await _hand_in(memory, mode, keep, "break") == expected


async def test_the_answer_keeps_its_status_through_to_dict() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await cancel_task(chat, {})
        answer = (await chat.get())[-1]
        again = Message.from_dict(answer.to_dict())
        assert isinstance(again, AssistantMessage)
        assert again == answer
        assert again.status == "cancelled"


async def test_an_error_of_the_body_is_told_by_the_status_of_the_answer() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await body_error(chat, {})
        answer: Any = (await chat.get())[-1]
        assert answer.status == "error"
        assert "the body failed" in answer.error["message"]


@pytest.mark.parametrize(("keep", "expected"), [("keep_partial", "unknown"), ("discard", "not_executed")])
async def test_a_cancelled_turn_tells_its_outcome_and_key(keep: Keep, expected: str) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        stream = Stream("a", forever)
        task = asyncio.create_task(_consume(chat, stream, {"on_cancel": keep, "idempotency_key": "k"}))
        await stream.pending.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        outcome = outcome_of(caught.value)
        assert outcome is not None
        assert (outcome.outcome, outcome.idempotency_key) == (expected, "k")
        assert type(caught.value) is asyncio.CancelledError


async def test_chunks_are_the_same_objects_and_come_at_once() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        chunks = [object(), "a", call("t"), object()]
        given: list[object] = []

        async def model() -> AsyncIterator[object]:
            for chunk in chunks:
                given.append(chunk)
                yield chunk

        async with chat.turn(UserMessage("q")) as turn:
            place = 0
            async for chunk in turn.record(model(), format="text"):
                assert chunk is chunks[place]
                assert len(given) == place + 1
                place += 1
        assert place == 4
        assert lines(await chat.get()) == ["u:q", "a:a+t"]
