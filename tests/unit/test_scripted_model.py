"""The model that needs no network."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diarist import AssistantMessage, ToolCall, UserMessage
from diarist.adapters import ChatRequest, Failure, ScriptedModel
from diarist.adapters.streaming import aggregator
from tests.support.chats import collect

ASKED = ChatRequest([UserMessage("old"), AssistantMessage("a"), UserMessage("Why?")])


class Pauses:
    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def test_the_same_words_and_delays_for_the_same_seed() -> None:
    one, other, third = Pauses(), Pauses(), Pauses()
    first = [chunk async for chunk in ScriptedModel(seed=4, pause=one).stream(ASKED)]
    second = [chunk async for chunk in ScriptedModel(seed=4, pause=other).stream(ASKED)]
    third_said = [chunk async for chunk in ScriptedModel(seed=5, pause=third).stream(ASKED)]
    assert (first, one.seconds) == (second, other.seconds)
    assert third_said != first
    assert len(one.seconds) == len(first) - 1 > 5  # the last chunk says only that it is the last
    assert all(0.01 <= pause <= 0.03 for pause in one.seconds)


async def test_a_stream_joined_is_the_call() -> None:
    model = ScriptedModel(delay=0)
    answer = (await model.call(ASKED)).text
    assert "".join([chunk.text async for chunk in model.stream(ASKED)]) == answer
    assert "Why?" in answer


async def test_a_reply_of_ones_own() -> None:
    model = ScriptedModel(lambda messages: f"{len(messages)} messages", delay=0)
    assert [chunk.text async for chunk in model.stream(ASKED)] == ["3", " messages", ""]


async def test_replies_one_after_the_other() -> None:
    """Failures break off where they say; a script that is used up is an error."""
    model = ScriptedModel(["one", Failure(ValueError("broken"), "tw")], delay=0)
    assert (await model.call(ASKED)).text == "one"
    seen: list[str] = []
    with pytest.raises(ValueError, match="broken"):
        await collect(model.stream(ASKED), seen)
    assert seen == ["tw"]
    with pytest.raises(IndexError, match="2 replies"):
        await model.call(ASKED)


async def test_tool_calls_come_in_pieces() -> None:
    """And a recorder puts them together again."""
    calls = [ToolCall("1", "f", '{"a": 1}'), ToolCall("2", "g", "")]
    model = ScriptedModel([AssistantMessage("Well", calls)], delay=0)
    aggregate = aggregator()
    async for chunk in model.stream(ASKED):
        aggregate.add(chunk)
    message = aggregate.message()
    assert (message.text, list(message.tool_calls), message.finish_reason) == ("Well", calls, "tool_calls")


@given(st.text(alphabet=st.characters(exclude_categories=[])))
async def test_any_text_comes_out_whole(text: str) -> None:
    assert "".join([chunk async for chunk in ScriptedModel(delay=0).say(text)]) == text
