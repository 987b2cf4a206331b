"""What bounds a turn: time-outs of its wait, its maximum age; and what may run beside it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from diarist import Limits, NotExecutedError, ReentrancyError, TurnInterruptedError, UserMessage
from diarist.runtime.options import CommitMode, Overlap
from tests.support.turns import HeldStore, ManualClock, Stream, Talk, opened, pair, settle, stored


async def test_the_time_out_bounds_the_wait_for_the_lock() -> None:
    clock = ManualClock()
    async with opened(clock=clock) as memory:
        chat = memory.conversation("c")
        first = Talk(chat, "1")
        await first.inside.wait()
        second = Talk(chat, "2", timeout=5, idempotency_key="k")
        third = Talk(chat, "3")
        await settle()
        clock.advance(5.1)
        with pytest.raises(NotExecutedError, match="another turn was running") as caught:
            await second.task
        assert caught.value.idempotency_key == "k"
        clock.advance(20)
        await settle()
        assert not third.task.done()
        await first.finish()
        await third.finish()
        assert await stored(chat) == [*pair("1"), *pair("3")]


async def test_the_time_out_bounds_the_wait_and_the_load_together() -> None:
    class SlowLoad(HeldStore):
        async def versions(self, keys: Any) -> Any:
            if not self.free.is_set():
                self.reached.set()
                await self.free.wait()
            return await super().versions(keys)

    clock = ManualClock()
    store = SlowLoad()
    async with opened(store, clock=clock) as memory:
        chat = memory.conversation("c")
        first = Talk(chat, "1")
        await first.inside.wait()
        second = Talk(chat, "2", timeout=5)
        await settle()
        clock.advance(4)
        await first.finish()
        store.hold()
        await store.reached.wait()
        clock.advance(1.3)
        with pytest.raises(NotExecutedError):
            await second.task
        store.free.set()
        await Talk(chat, "3").finish()


async def test_the_time_out_never_bounds_the_body() -> None:
    clock = ManualClock()
    async with opened(clock=clock, limits=Limits(timeout=1)) as memory:
        chat = memory.conversation("c")
        talk = Talk(chat, "1", timeout=1)
        await talk.inside.wait()
        clock.advance(100)
        await settle()
        await talk.finish()
        assert await stored(chat) == pair("1")


async def test_a_turn_that_never_ends_gives_up_the_lock_at_its_maximum_age() -> None:
    clock = ManualClock()
    async with opened(clock=clock, limits=Limits(turn_seconds=60, timeout=1000)) as memory:
        chat = memory.conversation("c")
        first = Talk(chat, "1")
        await first.stream.pending.wait()
        second = Talk(chat, "2")
        clock.advance(59)
        await settle()
        assert not second.inside.is_set()
        clock.advance(2)
        await second.finish()
        with pytest.raises(TurnInterruptedError, match="older than 60"):
            await first.task
        assert await stored(chat) == ["u:1", "a:answer to  (cancelled)", *pair("2")]


async def test_a_turn_whose_task_died_without_leaving_it_gives_up_the_lock_at_its_maximum_age() -> None:
    clock = ManualClock()
    async with opened(clock=clock, limits=Limits(turn_seconds=60, timeout=1000)) as memory:
        chat = memory.conversation("c")

        async def handler() -> None:
            await chat.turn(UserMessage("1")).__aenter__()

        await asyncio.create_task(handler())
        second = Talk(chat, "2")
        await settle()
        assert not second.inside.is_set()
        clock.advance(61)
        await second.finish()
        assert await stored(chat) == ["u:1", *pair("2")]


async def test_a_turn_inside_a_turn_is_an_error_at_once_and_harms_nothing() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("1")) as turn:
            choices: tuple[Overlap, ...] = ("queue", "reject", "interrupt")
            for overlap in choices:
                with pytest.raises(ReentrancyError) as caught:
                    await chat.turn(UserMessage("2"), overlap=overlap).__aenter__()
                assert caught.value.outcome == "not_executed"
            async with memory.conversation("other").turn(UserMessage("beside")):
                pass
            await turn.add({"role": "assistant", "content": "a"})
        assert await stored(chat) == ["u:1", "a:a"]


async def test_get_add_and_update_are_fine_beside_a_turn() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("1")) as turn:
            assert await stored(chat) == []
            await chat.add(UserMessage("beside"))
            await chat.update(lambda view: [*view, UserMessage("updated")])
            assert await stored(chat) == ["u:beside", "u:updated"]
            await turn.add({"role": "assistant", "content": "a"})
        assert turn.overtaken
        assert await stored(chat) == ["u:beside", "u:updated", "u:1", "a:a"]


async def test_a_turn_not_overtaken_says_so() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        modes: tuple[CommitMode, ...] = ("turn", "eager", "round")
        for commit in modes:
            async with chat.turn(UserMessage("1"), commit=commit) as turn:
                async for _ in turn.record(Stream("a"), format="text"):
                    pass
            assert not turn.overtaken
