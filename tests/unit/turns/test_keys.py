"""The idempotency key of a turn: done only when the body ended normally, open after anything else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from diarist import AssistantMessage, ChatMemory, IdempotencyError, NotFoundError, UserMessage
from diarist.backends.memory import MemoryRepository
from diarist.runtime.conversation import Conversation
from diarist.runtime.turn import Turn
from tests.support.turns import HeldStore, Stream, call, forever, lines, opened, settle, stored, whole_log

MODES = pytest.mark.parametrize("mode", ["turn", "eager", "round"])


async def talk(chat: Conversation, *script: Any, text: str = "q", **options: Any) -> Turn:
    """A turn with the key `k` that asks a model unless it was replayed."""
    async with chat.turn(UserMessage(text), idempotency_key="k", **options) as turn:
        if not turn.replayed:
            async for _ in turn.record(Stream(*script), format="text"):
                pass
    return turn


async def leave(chat: Conversation, how: str, *script: Any, **options: Any) -> None:
    """A turn with the key `k` that does not end normally."""
    stream = Stream(*script, forever)

    async def handler() -> None:
        async with chat.turn(UserMessage("q"), idempotency_key="k", **options) as turn:
            async for _ in turn.record(stream, format="text"):
                if how == "break":
                    break

    task = asyncio.create_task(handler())
    if how != "break":
        await stream.pending.wait()
        if how == "cancel":
            task.cancel()
        else:
            await chat.interrupt()
    await asyncio.wait([task])
    assert task.cancelled() or how != "cancel"
    if not task.cancelled():
        assert (task.exception() is None) == (how == "break")


@MODES
@pytest.mark.parametrize("cold", [False, True])
async def test_a_repeat_is_replayed_and_the_model_is_not_asked(mode: Any, cold: bool) -> None:
    store = MemoryRepository()
    async with opened(store) as memory:
        first = await talk(memory.conversation("c"), "a", commit=mode)
        assert not first.replayed
        async with opened(store, seed=2) as other:
            chat = (other if cold else memory).conversation("c")
            again = await talk(chat, "never asked", commit=mode)
            assert again.replayed
            assert again.answer == first.answer
            assert again.receipt.replayed
            assert again.receipt.version == first.receipt.version
            assert await stored(chat) == ["u:q", "a:a"]


@MODES
async def test_a_body_that_asks_the_model_though_replayed_stores_nothing_twice(mode: Any) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await talk(chat, "a", commit=mode)
        async with chat.turn(UserMessage("q"), idempotency_key="k", commit=mode) as turn:
            async for _ in turn.record(Stream("b"), format="text"):
                pass
            await turn.add({"role": "assistant", "content": "c"})
        assert turn.answer.text == "a"
        await leave(chat, "break", "d", commit=mode)
        assert await whole_log(chat) == ["u:q", "a:a"]


async def test_an_interruption_of_a_replay_stores_nothing() -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        await talk(chat, "a")

        read = store.read

        async def slow_read(*args: Any, **options: Any) -> Any:
            store.reached.set()
            await store.free.wait()
            return await read(*args, **options)

        store.read = slow_read  # type: ignore[method-assign]
        store.hold()
        task = asyncio.create_task(talk(chat, "never asked"))
        await store.reached.wait()
        stop = asyncio.create_task(chat.interrupt())
        await settle()
        store.free.set()
        assert await stop is True
        await asyncio.wait([task])
        assert task.exception() is not None
        assert await whole_log(chat) == ["u:q", "a:a"]


async def test_a_replay_in_a_shared_record_gives_the_answer_of_its_own_turn() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")

        async def silent() -> None:
            async with chat.turn(UserMessage("q"), idempotency_key="k"):
                pass

        await asyncio.gather(chat.add(AssistantMessage("of another")), silent())
        async with chat.turn(UserMessage("q"), idempotency_key="k") as again:
            assert again.replayed
            with pytest.raises(NotFoundError):
                _ = again.answer


async def test_the_answer_of_a_replay_is_the_last_of_its_rounds() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        for _ in range(2):
            async with chat.turn(UserMessage("q"), idempotency_key="k", commit="round") as turn:
                if not turn.replayed:
                    async for _chunk in turn.record(Stream("see", call("t")), format="text"):
                        pass
                    await turn.add({"role": "tool", "tool_call_id": "t", "content": "1"})
                    async for _chunk in turn.record(Stream("done"), format="text"):
                        pass
            assert turn.answer.text == "done"
            await chat.add(UserMessage("later"), AssistantMessage("of another"))


@MODES
@pytest.mark.parametrize("how", ["cancel", "interrupt", "break"])
async def test_after_a_turn_that_was_left_its_key_is_open_and_the_partial_answer_is_replaced(
    how: str, mode: Any
) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await leave(chat, how, "par", "tial", commit=mode)
        assert (await stored(chat))[0] == "u:q"
        async with chat.turn(UserMessage("q"), idempotency_key="k", commit=mode) as turn:
            assert turn.resumed
            assert not turn.replayed
            assert lines(turn.messages) == ["u:q"]
            async for _ in turn.record(Stream("whole"), format="text"):
                pass
        assert await stored(chat) == ["u:q", "a:whole"]
        assert (await talk(chat, "never", commit=mode)).replayed
        assert await stored(chat) == ["u:q", "a:whole"]


@MODES
async def test_a_key_may_be_resumed_many_times(mode: Any) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        for number in range(4):
            await leave(chat, "cancel", f"try {number}", commit=mode)
            await leave(chat, "cancel", commit=mode)
            assert await stored(chat) == ["u:q", f"a:try {number} (cancelled)"]
        await talk(chat, "whole", commit=mode)
        assert await stored(chat) == ["u:q", "a:whole"]


@MODES
@pytest.mark.parametrize("first", ["turn", "eager", "round"])
async def test_the_commit_mode_may_change_between_the_tries(first: Any, mode: Any) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await leave(chat, "cancel", "partial", commit=first)
        await talk(chat, "whole", commit=mode)
        assert await stored(chat) == ["u:q", "a:whole"]


@MODES
async def test_after_an_error_of_the_body_its_key_is_open(mode: Any) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        with pytest.raises(ValueError, match="model"):
            await talk(chat, "par", ValueError("model"), commit=mode)
        await talk(chat, "whole", commit=mode)
        assert await stored(chat) == ["u:q", "a:whole"]


@MODES
async def test_after_a_crash_a_key_is_resumed_from_what_was_stored(mode: Any) -> None:
    """The process is gone: what it stored is all that there is."""
    store = HeldStore()
    async with opened(store) as memory, opened(store, seed=2) as restarted:
        crashed = memory.conversation("c").turn(UserMessage("q"), idempotency_key="k", commit=mode)
        turn = await crashed.__aenter__()
        async for _ in turn.record(Stream("see", call("t")), format="text"):
            pass
        await turn.add({"role": "tool", "tool_call_id": "t", "content": "1"})
        chat = restarted.conversation("c")
        async with chat.turn(UserMessage("q"), idempotency_key="k", commit=mode) as again:
            assert again.resumed == (mode != "turn")
            rounds = ["a:see+t", "t:1"] if mode == "round" else []
            assert lines(again.messages) == ["u:q", *rounds]
            async for _ in again.record(Stream("whole"), format="text"):
                pass
        assert await stored(chat) == ["u:q", *rounds, "a:whole"]
        store.hold()  # the crashed process is not heard of again
        turn.interruption.fire(RuntimeError("crashed"))
        turn._leave()  # pyright: ignore[reportPrivateUsage]
        store.free.set()


@MODES
async def test_a_key_with_other_content_is_refused_while_open_and_when_done(mode: Any) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await leave(chat, "cancel", "partial", commit=mode)
        with pytest.raises(IdempotencyError):
            await talk(chat, "x", text="other", commit=mode)
        await talk(chat, "whole", commit=mode)
        with pytest.raises(IdempotencyError):
            await talk(chat, "x", text="other", commit=mode)
        with pytest.raises(IdempotencyError):
            await chat.add(UserMessage("q"), idempotency_key="k")
        assert memory.stats().turns == 0
        assert await stored(chat) == ["u:q", "a:whole"]


@MODES
async def test_a_discarded_turn_leaves_no_trace_of_its_key(mode: Any) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await leave(chat, "cancel", "partial", commit=mode, on_cancel="discard")
        assert await stored(chat) == []
        turn = await talk(chat, "a", text="other", commit=mode)
        assert not turn.resumed
        assert await stored(chat) == ["u:other", "a:a"]


@MODES
async def test_a_resumed_turn_that_is_discarded_takes_the_earlier_try_with_it(mode: Any) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await chat.add(UserMessage("before"))
        await leave(chat, "cancel", "partial", commit=mode)
        await chat.add(UserMessage("between"))
        await leave(chat, "cancel", "second", commit=mode, on_cancel="discard")
        assert await stored(chat) == ["u:before", "u:between"]


async def test_a_discard_never_takes_what_others_added_even_if_conflicts_raise() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        stream = Stream("a", forever)

        async def handler() -> None:
            options: Any = {"commit": "eager", "on_cancel": "discard", "on_conflict": "raise"}
            async with chat.turn(UserMessage("q"), **options) as turn:
                async for _ in turn.record(stream, format="text"):
                    pass

        task = asyncio.create_task(handler())
        await stream.pending.wait()
        await chat.add(UserMessage("beside"))
        task.cancel()
        await asyncio.wait([task])
        assert await stored(chat) == ["u:beside"]
        assert memory.stats().failures == 0


@MODES
async def test_a_double_click_runs_once(mode: Any) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        turns = await asyncio.gather(*(talk(chat, f"a{number}", commit=mode) for number in range(5)))
        assert [turn.replayed for turn in turns] == [False, True, True, True, True]
        assert {turn.answer.text for turn in turns} == {"a0"}
        assert await stored(chat) == ["u:q", "a:a0"]


async def test_a_double_click_in_two_processes_stores_one_of_the_two() -> None:
    store = MemoryRepository()
    async with opened(store) as one, opened(store, seed=2) as two:
        turns = await asyncio.gather(
            *(talk(memory.conversation("c"), name) for memory, name in ((one, "1"), (two, "2")))
        )
        first = next(turn for turn in turns if not turn.receipt.replayed)
        second = next(turn for turn in turns if turn.receipt.replayed)
        assert await stored(one.conversation("c")) == ["u:q", f"a:{first.answer.text}"]
        assert second.replayed
        assert second.answer == first.answer


async def test_a_key_whose_messages_were_cleared_starts_anew() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await leave(chat, "cancel", "partial")
        await chat.clear()
        turn = await talk(chat, "whole")
        assert not turn.resumed
        assert await stored(chat) == ["u:q", "a:whole"]


async def test_keys_are_of_one_conversation() -> None:
    async with opened() as memory:
        await talk(memory.conversation("c"), "a")
        assert not (await talk(memory.conversation("d"), "b")).replayed


async def _replays(memory: ChatMemory) -> bool:
    return (await talk(memory.conversation("c"), "again")).replayed


async def test_a_repeat_is_replayed_whatever_version_it_expects() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await talk(chat, "a", expected_version=0)
        assert (await talk(chat, "b", expected_version=0)).replayed


async def test_a_key_survives_clear_and_eviction() -> None:
    store = MemoryRepository()
    async with opened(store) as memory:
        await talk(memory.conversation("c"), "a")
        await memory.conversation("c").clear()
        assert await _replays(memory)
        async with opened(store) as other:
            assert await _replays(other)
