"""A turn used the wrong way: a clear error at once, and nothing is harmed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from diarist import AssistantMessage, ClosedError, InvalidIdError, MissingDependencyError, NotFoundError, UserMessage
from tests.support.turns import Stream, opened, stored


async def test_a_turn_that_was_not_entered() -> None:
    async with opened() as memory:
        turn = memory.conversation("c").turn(UserMessage("q"))
        for use in (lambda: turn.messages, turn.to_openai, turn.to_anthropic):
            with pytest.raises(RuntimeError, match="enter the turn first"):
                use()
        with pytest.raises(RuntimeError, match="enter the turn first"):
            turn.record(Stream("a"), format="text")
        with pytest.raises(RuntimeError, match="enter the turn first"):
            await turn.add(AssistantMessage("a"))
        async with turn:
            await turn.add(AssistantMessage("a"))
        assert await stored(memory.conversation("c")) == ["u:q", "a:a"]


async def test_a_turn_is_entered_once() -> None:
    async with opened() as memory:
        turn = memory.conversation("c").turn(UserMessage("q"))
        async with turn:
            with pytest.raises(RuntimeError, match="entered once"):
                await turn.__aenter__()
        with pytest.raises(RuntimeError, match="entered once"):
            await turn.__aenter__()
        assert await stored(memory.conversation("c")) == ["u:q"]


async def test_a_turn_that_is_over() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q")) as turn:
            recorder = turn.record(Stream("a", "b"), format="text")
            assert await anext(recorder) == "a"
        with pytest.raises(RuntimeError, match="the turn is over"):
            await anext(recorder)
        with pytest.raises(RuntimeError, match="the turn is over"):
            turn.record(Stream("a"), format="text")
        with pytest.raises(RuntimeError, match="the turn is over"):
            await turn.add(AssistantMessage("a"))
        assert turn.answer.text == "a"
        assert [message.text for message in turn.messages] == ["q", "a"]


async def test_answer_and_receipt_before_there_are_any() -> None:
    async with opened() as memory:
        async with memory.conversation("c").turn(UserMessage("q")) as turn:
            with pytest.raises(NotFoundError):
                _ = turn.answer
            with pytest.raises(NotFoundError):
                _ = turn.receipt
        assert turn.receipt.version == 1


async def test_an_unknown_format_is_told_and_the_stream_is_not_touched() -> None:
    async with opened() as memory, memory.conversation("c").turn(UserMessage("q")) as turn:
        with pytest.raises(MissingDependencyError, match="no such format"):
            turn.record(Stream("a"), format="no such format")


@pytest.mark.parametrize(
    "options",
    [
        {"overlap": "never"},
        {"commit": "later"},
        {"on_cancel": "keep"},
        {"on_error": ""},
        {"on_conflict": "ignore"},
        {"serialize": "planet"},
    ],
)
async def test_a_setting_that_is_no_choice_is_named(options: Any) -> None:
    async with opened() as memory:
        with pytest.raises(ValueError, match=next(iter(options))):
            memory.conversation("c").turn(UserMessage("q"), **options)


async def test_an_unknown_option_and_a_bad_key() -> None:
    async with opened() as memory:
        options: Any = {"overlop": "queue"}
        with pytest.raises(TypeError, match="overlop"):
            memory.conversation("c").turn(UserMessage("q"), **options)
        with pytest.raises(InvalidIdError):
            memory.conversation("c").turn(UserMessage("q"), idempotency_key=" ")


async def test_a_closed_memory_takes_no_turn() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
    with pytest.raises(ClosedError):
        await chat.turn(UserMessage("q")).__aenter__()


async def test_the_callers_own_objects_are_copied() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        question: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "q"}]}
        async with chat.turn(question) as turn:
            question["content"][0]["text"] = "changed"
            question["role"] = "system"
            await turn.add(AssistantMessage("a"))
        assert await stored(chat) == ["u:q", "a:a"]


async def test_a_turn_that_is_dropped_unused_is_nothing() -> None:
    async with opened() as memory:
        memory.conversation("c").turn(UserMessage("q"))
        recorder_of_nobody = memory.conversation("d").turn(UserMessage("q"))
        del recorder_of_nobody
        await asyncio.sleep(0)
        assert memory.stats().turns == 0
