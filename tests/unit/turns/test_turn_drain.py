"""A drain with running turns: they may finish first; then their policies end them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from diarist import ChatMemory, ClosedError, DrainReport, NotExecutedError, TurnInterruptedError, UserMessage
from tests.support.turns import HeldStore, ManualClock, Stream, opened, settle, stored


async def drained(memory: ChatMemory, clock: ManualClock, deadline: float) -> DrainReport:
    """A drain whose deadline passes."""
    task = asyncio.create_task(memory.drain(deadline))
    await settle()
    clock.advance(deadline * 0.8)
    await settle()
    clock.advance(deadline * 0.2)
    return await task


class Talk:
    def __init__(self, memory: ChatMemory, text: str, **options: Any) -> None:
        self.go = asyncio.Event()
        self.stream = Stream("a", self.go.wait, "b")
        self.task = asyncio.create_task(self._run(memory, text, options))

    async def _run(self, memory: ChatMemory, text: str, options: dict[str, Any]) -> None:
        async with memory.conversation("c").turn(UserMessage(text), **options) as turn:
            async for _ in turn.record(self.stream, format="text"):
                pass


async def read_back(store: HeldStore) -> list[str]:
    async with opened(store, seed=9) as memory:
        return await stored(memory.conversation("c"))


async def test_running_and_waiting_turns_may_finish() -> None:
    store = HeldStore()
    async with opened(store) as memory:
        talks = [Talk(memory, str(number)) for number in range(3)]
        await talks[0].stream.pending.wait()
        drain = asyncio.create_task(memory.drain(30))
        await settle()
        with pytest.raises(ClosedError):
            await memory.conversation("c").turn(UserMessage("late")).__aenter__()
        assert not drain.done()
        for talk in talks:
            talk.go.set()
        report = await drain
        assert report.clean
        await asyncio.gather(*(talk.task for talk in talks))
    assert await read_back(store) == [line for number in range(3) for line in (f"u:{number}", "a:ab")]


@pytest.mark.parametrize(
    ("keep", "expected"),
    [("keep_partial", ["u:0", "a:a (cancelled)"]), ("keep_user", ["u:0"]), ("discard", [])],
)
async def test_at_the_end_of_the_grace_turns_are_ended_by_their_policy(keep: str, expected: list[str]) -> None:
    store, clock = HeldStore(), ManualClock()
    async with opened(store, clock=clock) as memory:
        first, second = Talk(memory, "0", on_cancel=keep), Talk(memory, "1")
        await first.stream.pending.wait()
        await settle()
        report = await drained(memory, clock, 10)
        with pytest.raises(TurnInterruptedError, match="closing"):
            await first.task
        with pytest.raises(NotExecutedError, match="closing"):
            await second.task
        assert first.stream.closed == 1
        assert report.unknown == 0
    assert await read_back(store) == expected


async def test_a_turn_that_ends_in_the_grace_is_stored_whole() -> None:
    store, clock = HeldStore(), ManualClock()
    async with opened(store, clock=clock) as memory:
        talk = Talk(memory, "0")
        await talk.stream.pending.wait()
        drain = asyncio.create_task(memory.drain(10))
        await settle()
        clock.advance(7)
        talk.go.set()
        assert (await drain).clean
        await talk.task
    assert await read_back(store) == ["u:0", "a:ab"]


async def test_a_store_that_hangs_is_given_up_at_the_deadline_and_nothing_is_left_over() -> None:
    store, clock = HeldStore(), ManualClock()
    async with opened(store, clock=clock) as memory:
        talk = Talk(memory, "0", idempotency_key="k")
        await talk.stream.pending.wait()
        store.hold()
        report = await drained(memory, clock, 10)
        assert (report.unknown, report.clean) == (1, False)
        with pytest.raises(TurnInterruptedError):
            await talk.task
        await settle()
        clock.advance(100)
        await settle()
    assert await read_back(store) == []


async def test_a_body_that_goes_on_after_the_end_of_the_memory_hears_of_it() -> None:
    clock = ManualClock()
    async with opened(clock=clock) as memory:
        chat = memory.conversation("c")
        go = asyncio.Event()

        async def handler() -> None:
            async with chat.turn(UserMessage("q")) as turn:
                await go.wait()
                with pytest.raises(TurnInterruptedError):
                    await turn.add({"role": "assistant", "content": "late"})

        task = asyncio.create_task(handler())
        await settle()
        await drained(memory, clock, 10)
        go.set()
        with pytest.raises(TurnInterruptedError):
            await task
