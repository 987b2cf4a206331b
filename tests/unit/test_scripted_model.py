"""The model that needs no network."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from diarist import AssistantMessage, Message, UserMessage
from diarist.adapters.models import ScriptedModel

ASKED: list[Message] = [UserMessage("old"), AssistantMessage("a"), UserMessage("Why?")]


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
    assert len(one.seconds) == len(first) > 5
    assert all(0.01 <= pause <= 0.03 for pause in one.seconds)


async def test_a_stream_joined_is_the_call() -> None:
    model = ScriptedModel(delay=0)
    assert "".join([chunk async for chunk in model.stream(ASKED)]) == await model.call(ASKED)
    assert "Why?" in await model.call(ASKED)


async def test_a_reply_of_ones_own() -> None:
    model = ScriptedModel(lambda messages: f"{len(messages)} messages", delay=0)
    assert [chunk async for chunk in model.stream(ASKED)] == ["3", " messages"]


@given(st.text(alphabet=st.characters(exclude_categories=[])))
async def test_any_text_comes_out_whole(text: str) -> None:
    assert "".join([chunk async for chunk in ScriptedModel(delay=0).say(text)]) == text
