"""A turn's commit that fails: the caller hears of it on a normal end; else log and stats do. Nothing hangs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from diarist import (
    AssistantMessage,
    BackendError,
    InvalidMessageError,
    Limits,
    MailboxFullError,
    OutcomeUnknownError,
    UserMessage,
    outcome_of,
)
from diarist.runtime import turn as turn_module
from diarist.runtime.conversation import Conversation
from tests.support.turns import FULL, LOST, TAKEN, HeldStore, ManualClock, Stream, forever, opened, settle, stored

MODES = pytest.mark.parametrize("mode", ["turn", "eager", "round"])


async def talk(chat: Conversation, *script: Any, **options: Any) -> None:
    async with chat.turn(UserMessage("q"), **options) as turn:
        async for _ in turn.record(Stream(*script), format="text"):
            pass


async def test_on_a_normal_end_the_caller_gets_the_error_and_may_try_again() -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        store.outcomes.append(FULL)
        with pytest.raises(BackendError, match="the disk is full") as caught:
            await talk(chat, "a", idempotency_key="k")
        assert (caught.value.outcome, caught.value.idempotency_key) == ("not_executed", "k")
        assert memory.stats().failures == 0
        assert memory.stats().turns == 0
        await talk(chat, "a", idempotency_key="k")
        assert await stored(chat) == ["u:q", "a:a"]


@MODES
async def test_a_question_that_cannot_be_stored_is_an_error_before_the_body(
    mode: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        store.outcomes.append(FULL)
        with pytest.raises(BackendError, match="the disk is full"):
            await talk(chat, "a", commit=mode)
        assert caplog.records == []
        assert await stored(chat) == []
        await talk(chat, "a", commit=mode)
        assert await stored(chat) == ["u:q", "a:a"]


@pytest.mark.parametrize("how", ["cancel", "error", "interrupt", "close"])
async def test_on_any_other_end_log_and_stats_get_it(how: str, caplog: pytest.LogCaptureFixture) -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        stream = Stream("a", forever) if how != "error" else Stream("a", ValueError("body"))
        store.outcomes.append(FULL)
        if how == "close":

            async def reply() -> AsyncGenerator[Any, None]:
                async with chat.turn(UserMessage("q")) as turn:
                    async for chunk in turn.record(stream, format="text"):
                        yield chunk

            generator = reply()
            await anext(generator)
            await generator.aclose()
        else:
            task = asyncio.create_task(_read(chat, stream))
            if how != "error":
                await stream.pending.wait()
                if how == "cancel":
                    task.cancel()
                else:
                    await chat.interrupt()
            await asyncio.wait([task])
            assert task.cancelled() or task.exception() is not None
        assert memory.stats().failures == 1
        assert await stored(chat) == []
    (record,) = caplog.records
    assert record.name == "diarist.runtime"
    assert (record.__dict__["namespace"], record.__dict__["conversation"]) == ("", "c")


async def _read(chat: Conversation, stream: Stream) -> None:
    async with chat.turn(UserMessage("q")) as turn:
        async for _ in turn.record(stream, format="text"):
            pass


@MODES
async def test_an_unknown_outcome_is_settled_and_nothing_is_stored_twice(mode: Any) -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        store.outcomes += [LOST, LOST]
        await talk(chat, "a", commit=mode)
        assert await stored(chat) == ["u:q", "a:a"]


@MODES
async def test_conflicts_are_tried_again(mode: Any) -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        store.outcomes += [TAKEN, TAKEN]
        await talk(chat, "a", commit=mode)
        assert await stored(chat) == ["u:q", "a:a"]


async def test_the_time_out_bounds_the_commit_and_the_runtime_goes_on_trying() -> None:
    store, clock = HeldStore(), ManualClock()
    async with opened(store, clock=clock) as memory:
        chat = memory.conversation("c")
        inside = asyncio.Event()

        async def handler() -> None:
            async with chat.turn(UserMessage("q"), timeout=5, idempotency_key="k") as turn:
                async for _ in turn.record(Stream("a"), format="text"):
                    pass
                store.hold()
                inside.set()

        task = asyncio.create_task(handler())
        await store.reached.wait() if inside.is_set() else await inside.wait()
        await store.reached.wait()
        clock.advance(5.2)
        with pytest.raises(OutcomeUnknownError) as caught:
            await task
        assert caught.value.idempotency_key == "k"
        store.free.set()
        assert await stored(chat) == ["u:q", "a:a"]


async def test_cancelled_while_its_record_is_written_the_commit_goes_on() -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        inside = asyncio.Event()

        async def handler() -> None:
            async with chat.turn(UserMessage("q"), idempotency_key="k"):
                store.hold()
                inside.set()

        task = asyncio.create_task(handler())
        await inside.wait()
        await store.reached.wait()
        task.cancel("now")
        with pytest.raises(asyncio.CancelledError, match="now") as caught:
            await task
        outcome = outcome_of(caught.value)
        assert outcome is not None
        assert (outcome.outcome, outcome.idempotency_key) == ("unknown", "k")
        store.free.set()
        assert await stored(chat) == ["u:q"]


async def test_cancelled_in_the_body_it_waits_for_the_commit_in_peace_even_if_cancelled_again() -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        stream = Stream("a", forever)
        task = asyncio.create_task(_read(chat, stream))
        await stream.pending.wait()
        store.hold()
        store.outcomes.append(FULL)
        task.cancel()
        await store.reached.wait()
        await settle()
        assert not task.done()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        store.free.set()
        await settle()
        assert memory.stats().failures == 1


async def test_a_commit_that_takes_too_long_is_finished_by_the_runtime_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn_module, "CLOSE_SECONDS", 0.01)
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        stream = Stream("a", forever)
        task = asyncio.create_task(_read(chat, stream))
        await stream.pending.wait()
        store.hold()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        store.free.set()
        assert await stored(chat) == ["u:q", "a:a (cancelled)"]


@MODES
async def test_an_answer_that_is_too_large_keeps_its_question(mode: Any) -> None:
    async with opened(limits=Limits(message_bytes=1000)) as memory:
        chat = memory.conversation("c")
        with pytest.raises(InvalidMessageError):
            await talk(chat, "x" * 2000, commit=mode)
        stream = Stream("x" * 2000, "more")
        with pytest.raises(InvalidMessageError):
            await _leave_early(chat, stream, mode)
        assert stream.closed == 1
        assert await stored(chat) == ["u:q", "u:q"]
        assert memory.stats().turns == 0


async def _leave_early(chat: Conversation, stream: Stream, mode: Any) -> None:
    async with chat.turn(UserMessage("q"), commit=mode) as turn:
        async for _ in turn.record(stream, format="text"):
            break


async def test_an_answer_that_is_too_large_does_not_stop_an_interruption() -> None:
    async with opened(limits=Limits(message_bytes=1000)) as memory:
        chat = memory.conversation("c")
        stream = Stream("x" * 2000, forever)
        task = asyncio.create_task(_read(chat, stream))
        await stream.pending.wait()
        assert await chat.interrupt() is True
        await asyncio.wait([task])
        assert task.exception() is not None
        assert await stored(chat) == ["u:q"]


async def test_a_question_that_is_no_message_is_refused_before_anything_waits() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        with pytest.raises(InvalidMessageError):
            await chat.turn({"role": "nobody", "content": "q"}).__aenter__()
        assert memory.stats().turns == 0
        assert memory.stats().live == 0


async def test_a_turn_is_stored_though_the_mailbox_is_full() -> None:
    """`overflow="raise"` refuses others; an answer that is there waits for its place."""
    store = HeldStore()
    async with opened(store, limits=Limits(mailbox=1, overflow="raise")) as memory:
        chat = memory.conversation("c")

        async def handler() -> None:
            async with chat.turn(UserMessage("q")) as turn:
                store.hold()
                adding = asyncio.ensure_future(chat.add(UserMessage("x")))
                await store.reached.wait()
                with pytest.raises(MailboxFullError):
                    await chat.add(UserMessage("y"))
                await turn.add(AssistantMessage("a"))
                asyncio.get_running_loop().call_soon(store.free.set)
            await adding

        await handler()
        assert await stored(chat) == ["u:x", "u:q", "a:a"]
