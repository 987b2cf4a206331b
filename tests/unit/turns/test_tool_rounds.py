"""Turns with tool calls: rounds, their durability, and what an interrupted one leaves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from diarist import AssistantMessage, ConflictError, MessageWindow, SystemMessage, ToolMessage, UserMessage
from diarist.backends.memory import MemoryRepository
from diarist.runtime.conversation import Conversation
from diarist.runtime.turn import Turn
from tests.support.turns import FULL, HeldStore, Stream, call, forever, lines, opened, stored, whole_log

MODES = pytest.mark.parametrize("mode", ["turn", "eager", "round"])


async def say(turn: Turn, *script: Any) -> None:
    async for _ in turn.record(Stream(*script), format="text"):
        pass


@MODES
async def test_a_turn_with_tool_rounds_stores_them_in_order(mode: Any) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q"), commit=mode) as turn:
            await say(turn, "see", call("1"), call("2"))
            assert lines(turn.messages) == ["u:q", "a:see+1+2"]
            await turn.add(ToolMessage("r1", "1"), {"role": "tool", "tool_call_id": "2", "content": "r2"})
            assert lines(turn.messages) == ["u:q", "a:see+1+2", "t:r1", "t:r2"]
            assert [item["role"] for item in turn.to_openai()] == ["user", "assistant", "tool", "tool"]
            assert [item["role"] for item in turn.to_anthropic()["messages"]] == ["user", "assistant", "user"]
            await say(turn, "done")
        assert await whole_log(chat) == ["u:q", "a:see+1+2", "t:r1", "t:r2", "a:done"]


async def test_a_round_is_durable_when_its_loop_ends_and_when_add_returns() -> None:
    store = MemoryRepository()
    async with opened(store) as memory, opened(store, seed=2) as other:
        chat, elsewhere = memory.conversation("c"), other.conversation("c")
        async with chat.turn(UserMessage("q"), commit="round") as turn:
            assert await stored(elsewhere) == ["u:q"]
            await say(turn, "see", call("1"))
            assert await stored(elsewhere) == ["u:q", "a:see+1"]
            await turn.add(ToolMessage("r", "1"))
            assert await stored(elsewhere) == ["u:q", "a:see+1", "t:r"]
            await say(turn, "done")
            assert await stored(elsewhere) == ["u:q", "a:see+1", "t:r", "a:done"]
            before = (await elsewhere.get()).version
        assert (await elsewhere.get()).version == before


async def test_with_the_other_modes_nothing_of_a_round_is_seen_before_the_end() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q"), commit="eager") as turn:
            await say(turn, "see", call("1"))
            await turn.add(ToolMessage("r", "1"))
            assert await stored(chat) == ["u:q"]


async def _stop_in_tool(chat: Conversation, mode: Any, calls: int, results: int, keep: Any, text: str) -> None:
    """A turn that is cancelled while a tool runs."""
    running = asyncio.Event()

    async def handler() -> None:
        async with chat.turn(UserMessage("q"), commit=mode, on_cancel=keep, idempotency_key="k") as turn:
            await say(turn, text, *(call(str(number)) for number in range(calls)))
            for number in range(results):
                await turn.add(ToolMessage(f"r{number}", str(number)))
            running.set()
            await forever()

    task = asyncio.create_task(handler())
    await running.wait()
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize(
    ("mode", "calls", "results", "text", "expected"),
    [
        ("turn", 1, 0, "see", ["u:q", "a:see"]),
        ("turn", 1, 0, "", ["u:q"]),
        ("turn", 2, 1, "", ["u:q", "a:+0", "t:r0"]),
        ("turn", 2, 2, "", ["u:q", "a:+0+1", "t:r0", "t:r1"]),
        ("eager", 1, 0, "see", ["u:q", "a:see"]),
        ("round", 1, 0, "see", ["u:q"]),
        ("round", 2, 1, "see", ["u:q"]),
        ("round", 2, 2, "", ["u:q", "a:+0+1", "t:r0", "t:r1"]),
    ],
)
async def test_an_interrupted_turn_leaves_no_call_without_its_result(
    mode: Any, calls: int, results: int, text: str, expected: list[str]
) -> None:
    async with opened(window=MessageWindow.spring_ai(50)) as memory:
        chat = memory.conversation("c")
        await _stop_in_tool(chat, mode, calls, results, "keep_partial", text)
        assert await stored(chat) == expected
        async with chat.turn(UserMessage("q"), idempotency_key="k", commit=mode) as turn:
            assert turn.resumed
            assert lines(turn.messages)[: len(expected)] == expected
            await say(turn, "done")
        assert (await stored(chat))[-1] == "a:done"


async def test_calls_without_a_result_are_kept_beside_the_text_of_their_message() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await _stop_in_tool(chat, "turn", 2, 1, "keep_partial", "see")
        answer = (await chat.get())[1]
        assert [item["id"] for item in answer.extras["interrupted_tool_calls"]] == ["1"]


async def test_calls_without_ids_are_told_apart_by_their_order() -> None:
    """Ollama's calls have no ids: one result answers one call, not all."""
    async with opened(window=MessageWindow.spring_ai(50)) as memory:
        chat = memory.conversation("c")
        bare = {"type": "function", "function": {"name": "f", "arguments": "{}"}}

        async def body() -> None:
            async with chat.turn(UserMessage("q")) as turn:
                await turn.add({"role": "assistant", "content": "", "tool_calls": [bare, bare]})
                await turn.add(ToolMessage("r", None, "f"))
                raise ValueError("tool")

        with pytest.raises(ValueError, match="tool"):
            await body()
        answer = (await chat.get())[1]
        assert isinstance(answer, AssistantMessage)
        assert len(answer.tool_calls) == 1


async def test_a_round_that_was_not_stored_is_stored_with_the_next() -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q"), commit="round") as turn:
            store.outcomes.append(FULL)
            with pytest.raises(Exception, match="the disk is full"):
                await say(turn, "see", call("1"))
            assert await stored(chat) == ["u:q"]
            await turn.add(ToolMessage("r", "1"))
            assert await stored(chat) == ["u:q", "a:see+1", "t:r"]
            await say(turn, "done")
        assert await whole_log(chat) == ["u:q", "a:see+1", "t:r", "a:done"]
        assert memory.stats().failures == 0


async def test_a_round_that_was_not_stored_is_kept_by_the_policy_when_the_body_fails_of_it() -> None:
    store = HeldStore()
    async with opened(store) as memory:
        chat = memory.conversation("c")
        store.outcomes.append(FULL)
        with pytest.raises(Exception, match="the disk is full"):
            async with chat.turn(UserMessage("q"), commit="round") as _turn:
                pass
        assert await stored(chat) == []

        async def body() -> None:
            async with chat.turn(UserMessage("q"), commit="round") as turn:
                store.outcomes.append(FULL)
                await say(turn, "answer")

        with pytest.raises(Exception, match="the disk is full"):
            await body()
        assert await stored(chat) == ["u:q", "a:answer"]


async def test_rounds_in_the_middle_of_which_others_write_are_appended_and_overtaken() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q"), commit="round") as turn:
            await say(turn, "one")
            assert not turn.overtaken
            await chat.add(UserMessage("beside"))
            await say(turn, "two")
            assert turn.overtaken
        assert await stored(chat) == ["u:q", "a:one", "u:beside", "a:two"]


async def test_a_round_after_a_clear_is_a_conflict_and_not_an_answer_without_its_question() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")

        async def body() -> None:
            async with chat.turn(UserMessage("q"), commit="round") as turn:
                await say(turn, "one")
                await chat.clear()
                await say(turn, "two")

        with pytest.raises(ConflictError, match="cleared"):
            await body()
        assert await stored(chat) == []


async def test_an_answer_that_was_not_streamed_is_the_answer() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q")) as turn:
            await turn.add(AssistantMessage("whole"))
            assert turn.answer.text == "whole"
        assert turn.receipt.count == 2
        assert await stored(chat) == ["u:q", "a:whole"]


async def test_add_without_messages_changes_nothing() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q"), commit="round") as turn:
            await turn.add()
        assert await stored(chat) == ["u:q"]


async def test_what_the_model_sees_is_windowed_and_starts_with_the_system_messages() -> None:
    async with opened(window=MessageWindow(4)) as memory:
        chat = memory.conversation("c")
        await chat.add(
            SystemMessage("s"), *(m for n in range(4) for m in (UserMessage(f"q{n}"), AssistantMessage(f"a{n}")))
        )
        async with chat.turn(UserMessage("q")) as turn:
            assert lines(turn.messages) == ["s:s", "u:q3", "a:a3", "u:q"]
            await say(turn, "a")
            assert lines(turn.messages) == ["s:s", "u:q", "a:a"]
        assert await stored(chat) == ["s:s", "u:q", "a:a"]


async def test_an_equal_system_message_is_seen_once_and_the_window_still_holds() -> None:
    async with opened(window=MessageWindow(3)) as memory:
        chat = memory.conversation("c")
        await chat.add(SystemMessage("s"), UserMessage("q0"), AssistantMessage("a0"))
        async with chat.turn(UserMessage("q"), SystemMessage("s")) as turn:
            assert lines(turn.messages) == ["s:s", "u:q"]
        assert await stored(chat) == ["s:s", "u:q"]


async def test_a_new_system_message_replaces_the_old_one() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await chat.add(SystemMessage("old"), UserMessage("q0"), AssistantMessage("a0"))
        async with chat.turn(UserMessage("q"), SystemMessage("new")) as turn:
            assert lines(turn.messages) == ["s:new", "u:q0", "a:a0", "u:q"]


async def test_spring_ai_shows_the_model_its_question_though_the_window_wipes_it_and_all_that_is_unmatched() -> None:
    async with opened(window=MessageWindow.spring_ai(2)) as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q")) as turn:
            await turn.add({"role": "assistant", "content": "", "tool_calls": [call("1"), call("2")]})
            await turn.add(ToolMessage("r", "1"), UserMessage("more"))
            assert lines(turn.messages) == ["u:more"]
    async with opened(window=MessageWindow.spring_ai(9)) as memory:
        chat = memory.conversation("c")
        await chat.add(ToolMessage("orphan", "0"))
        async with chat.turn(UserMessage("q"), SystemMessage("s")) as turn:
            assert lines(turn.messages) == ["s:s", "t:orphan", "u:q"]
            assert [item["role"] for item in turn.to_openai()] == ["system", "tool", "user"]


async def test_the_default_never_shows_a_model_what_is_unmatched() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await chat.add(ToolMessage("orphan", "0"), {"role": "assistant", "content": "x", "tool_calls": [call("1")]})
        async with chat.turn(UserMessage("q")) as turn:
            assert lines(turn.messages) == ["a:x", "u:q"]
            assert [item["role"] for item in turn.to_openai()] == ["assistant", "user"]
