"""Whole turns of one conversation run one after the other: queue, reject, interrupt; and the stop button."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from diarist import TurnInterruptedError, TurnRejectedError, UserMessage, outcome_of
from diarist.runtime.conversation import Conversation
from tests.support.turns import HeldStore, Stream, Talk, forever, opened, pair, settle, stored


async def test_queue_runs_turns_in_the_order_in_which_they_came() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        order: list[str] = []
        talks = [Talk(chat, str(number), order) for number in range(10)]
        for talk in reversed(talks):
            talk.go.set()
        await asyncio.gather(*(talk.task for talk in talks))
        assert order == [str(number) for number in range(10)]
        assert await stored(chat) == [line for number in range(10) for line in pair(str(number))]


async def test_turns_of_other_conversations_and_namespaces_run_at_the_same_time() -> None:
    async with opened() as memory:
        chats = [memory.conversation("c"), memory.conversation("d"), memory.conversation("c", namespace="n")]
        talks = [Talk(chat, "q") for chat in chats]
        await asyncio.gather(*(talk.inside.wait() for talk in talks))
        assert memory.stats().turns == 3
        await asyncio.gather(*(talk.finish() for talk in talks))
        assert memory.stats().turns == 0


async def test_reject_raises_at_once_while_a_turn_runs_and_runs_when_none_does() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        first = Talk(chat, "1")
        await first.inside.wait()
        second = Talk(chat, "2", overlap="reject", idempotency_key="k")
        with pytest.raises(TurnRejectedError) as caught:
            await second.task
        assert (caught.value.outcome, caught.value.idempotency_key) == ("not_executed", "k")
        await first.finish()
        await Talk(chat, "3", overlap="reject").finish()
        assert await stored(chat) == [*pair("1"), *pair("3")]


async def test_interrupt_ends_the_running_turn_and_goes_before_those_that_wait() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        first = Talk(chat, "1")
        await first.stream.pending.wait()
        waiting = Talk(chat, "2")
        await settle()
        third = Talk(chat, "3", overlap="interrupt")
        with pytest.raises(TurnInterruptedError):
            await first.task
        assert first.task.cancelling() == 0
        assert first.stream.closed == 1
        await third.finish()
        await waiting.finish()
        assert await stored(chat) == ["u:1", "a:answer to  (cancelled)", *pair("3"), *pair("2")]


async def test_the_new_turn_sees_what_is_left_of_the_one_it_interrupted() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        first = Talk(chat, "1")
        await first.stream.pending.wait()
        async with chat.turn(UserMessage("2"), overlap="interrupt") as turn:
            assert [message.text for message in turn.messages] == ["1", "answer to ", "2"]
        with pytest.raises(TurnInterruptedError):
            await first.task


async def test_a_chain_of_interrupts_keeps_every_question() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        talks: list[Talk] = []
        for number in range(5):
            talks.append(Talk(chat, str(number), overlap="interrupt"))
            await settle()
        await talks[-1].finish()
        results = await asyncio.gather(*(talk.task for talk in talks), return_exceptions=True)
        assert [type(item) for item in results] == [TurnInterruptedError] * 4 + [type(None)]
        kept = [line for number in range(4) for line in (f"u:{number}", "a:answer to  (cancelled)")]
        assert await stored(chat) == [*kept, *pair("4")]


async def test_interrupts_that_come_in_one_tick_end_with_one_turn_running() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        talks = [Talk(chat, str(number), overlap="interrupt") for number in range(6)]
        await settle(60)
        running = [talk for talk in talks if not talk.task.done()]
        assert len(running) == 1
        await running[0].finish()
        await asyncio.gather(*(talk.task for talk in talks), return_exceptions=True)
        assert memory.stats().turns == 0


async def test_the_stop_button_says_whether_there_was_anything_to_stop() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        assert await chat.interrupt() is False
        talk = Talk(chat, "1")
        await talk.stream.pending.wait()
        assert list(await asyncio.gather(chat.interrupt(), chat.interrupt())) == [True, False]
        assert await stored(chat) == ["u:1", "a:answer to  (cancelled)"]
        with pytest.raises(TurnInterruptedError):
            await talk.task
        assert await chat.interrupt() is False


async def test_the_stop_button_returns_when_what_is_kept_is_durable() -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        talk = Talk(chat, "1")
        await talk.stream.pending.wait()
        store.hold()
        stop = asyncio.create_task(chat.interrupt())
        await store.reached.wait()
        await settle()
        assert not stop.done()
        store.free.set()
        assert await stop is True
        await asyncio.wait([talk.task])
        assert isinstance(talk.task.exception(), TurnInterruptedError)


async def test_the_next_turn_starts_though_the_interrupted_one_does_not_come_back() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        release = asyncio.Event()

        async def handler() -> None:
            async with chat.turn(UserMessage("1")):
                await release.wait()

        task = asyncio.create_task(handler())
        await settle()
        await Talk(chat, "2", overlap="interrupt").finish()
        assert not task.done()
        release.set()
        with pytest.raises(TurnInterruptedError):
            await task
        assert await stored(chat) == ["u:1", *pair("2")]


async def test_a_swallowed_interruption_is_raised_again_on_leaving_the_body() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        swallowed: list[TurnInterruptedError] = []

        async def handler() -> None:
            async with chat.turn(UserMessage("1"), idempotency_key="k") as turn:
                for attempt in (Stream("a", forever), Stream("b", forever)):
                    try:
                        async for _ in turn.record(attempt, format="text"):
                            pass
                    except TurnInterruptedError as error:
                        swallowed.append(error)
                for call in (turn.add({"role": "assistant", "content": "x"}),):
                    with pytest.raises(TurnInterruptedError):
                        await call

        task = asyncio.create_task(handler())
        await settle()
        await chat.interrupt()
        with pytest.raises(TurnInterruptedError) as caught:
            await task
        assert len(swallowed) == 1 or swallowed[0] is not swallowed[1]
        assert caught.value.idempotency_key == "k"
        assert outcome_of(caught.value) is not None
        assert await stored(chat) == ["u:1", "a:a (cancelled)"]


async def test_another_error_of_an_interrupted_body_goes_on_its_way() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        go = asyncio.Event()

        async def handler() -> None:
            async with chat.turn(UserMessage("1"), on_error="discard"):
                await go.wait()
                raise KeyError("mine")

        task = asyncio.create_task(handler())
        await settle()
        assert await chat.interrupt()
        go.set()
        with pytest.raises(KeyError):
            await task
        assert await stored(chat) == ["u:1"]


@pytest.mark.parametrize("commit", ["turn", "eager", "round"])
async def test_interrupted_while_it_waits_for_its_start_a_turn_leaves_nothing(commit: Any) -> None:
    class SlowLoad(HeldStore):
        async def load(self, key: Any) -> Any:
            self.reached.set()
            await self.free.wait()
            return await super().load(key)

    store = SlowLoad()
    store.hold()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        talk = Talk(chat, "1", commit=commit)
        await store.reached.wait()
        assert await chat.interrupt() is True
        store.free.set()
        with pytest.raises(TurnInterruptedError):
            await talk.task
        assert not talk.inside.is_set()
        assert await stored(chat) == []


@pytest.mark.parametrize(("keep", "expected"), [("keep_partial", ["u:1"]), ("keep_user", ["u:1"]), ("discard", [])])
@pytest.mark.parametrize("how", ["interrupt", "cancel"])
async def test_ended_while_its_question_is_being_stored(keep: Any, expected: list[str], how: str) -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        store.hold()
        talk = Talk(chat, "1", commit="eager", on_cancel=keep)
        await store.reached.wait()
        if how == "interrupt":
            stop = asyncio.create_task(chat.interrupt())
            await settle()
            store.free.set()
            assert await stop is True
        else:
            talk.task.cancel()
            await settle()
            store.free.set()
        await asyncio.wait([talk.task])
        assert not talk.inside.is_set()
        assert talk.task.cancelled() if how == "cancel" else isinstance(talk.task.exception(), TurnInterruptedError)
        assert await stored(chat) == expected


@pytest.mark.parametrize("how", ["interrupt", "cancel"])
async def test_discard_also_takes_back_a_round_that_is_being_stored(how: str) -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        talk = Talk(chat, "1", commit="round", on_cancel="discard", idempotency_key="k")
        await talk.inside.wait()
        store.hold()
        talk.go.set()
        await store.reached.wait()
        if how == "interrupt":
            stop = asyncio.create_task(chat.interrupt())
            await settle()
            store.free.set()
            await stop
            with pytest.raises(TurnInterruptedError):
                await talk.task
        else:
            talk.task.cancel()
            await settle()
            store.free.set()
        await asyncio.wait([talk.task])
        assert await stored(chat) == []
        async with chat.turn(UserMessage("other"), idempotency_key="k") as turn:
            assert not turn.resumed
            assert not turn.replayed


async def test_interrupted_during_its_last_commit_a_turn_has_ended_already() -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        talk = Talk(chat, "1")
        await talk.inside.wait()
        store.hold()
        talk.go.set()
        await store.reached.wait()
        assert await chat.interrupt() is False
        store.free.set()
        await talk.task
        assert await stored(chat) == pair("1")


async def test_the_next_turn_starts_while_the_last_one_is_being_stored_and_sees_it() -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        talk = Talk(chat, "1")
        await talk.inside.wait()
        store.hold()
        talk.go.set()
        await store.reached.wait()
        following = asyncio.create_task(_texts_of_a_turn(chat, "2"))
        await settle()
        assert not following.done()
        store.free.set()
        assert await following == ["1", "answer to 1", "2"]
        await talk.task


async def _texts_of_a_turn(chat: Conversation, text: str) -> list[str]:
    async with chat.turn(UserMessage(text)) as turn:
        return [message.text for message in turn.messages]


async def test_a_waiting_turn_that_is_cancelled_lets_the_others_pass() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        talks = [Talk(chat, str(number)) for number in range(4)]
        await talks[0].inside.wait()
        talks[1].task.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough") as caught:
            await talks[1].task
        outcome = outcome_of(caught.value)
        assert outcome is not None
        assert outcome.outcome == "not_executed"
        for talk in (talks[0], talks[2], talks[3]):
            await talk.finish()
        assert await stored(chat) == [*pair("0"), *pair("2"), *pair("3")]


@pytest.mark.parametrize("ticks", range(16))
async def test_a_turn_cancelled_in_the_tick_in_which_its_turn_comes_passes_it_on(ticks: int) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        first, second, third = (Talk(chat, str(number)) for number in range(3))
        await first.stream.pending.wait()
        first.go.set()
        for _ in range(ticks):
            await asyncio.sleep(0)
        second.task.cancel()
        await asyncio.wait([first.task, second.task])
        assert second.task.cancelled()
        await third.finish()
        seen = await stored(chat)
        assert seen[:2] == pair("0")
        assert seen[-2:] == pair("2")
        assert seen[2:-2] in ([], ["u:1"], ["u:1", "a:answer to  (cancelled)"])
        assert memory.stats().turns == 0
