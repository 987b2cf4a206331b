"""The chain: order, immutability, re-entry, and what is closed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from dataclasses import FrozenInstanceError, replace
from typing import Any, cast

import pytest

from diarist import UserMessage
from diarist.adapters import (
    CallNext,
    Chain,
    ChatChunk,
    ChatClient,
    ChatRequest,
    ChatResponse,
    ScriptedModel,
    StreamNext,
)
from tests.support.chats import Note, Streams, Upstream, chunk, until

ASKED = ChatRequest([UserMessage("Hi")])


def chain_of(notes: list[str], *orders: tuple[str, int]) -> Chain:
    return Chain(ScriptedModel(["Yes"], delay=0), [Note(name, order, notes) for name, order in orders])


@pytest.mark.parametrize("way", ["call", "stream"])
async def test_lower_orders_are_outer_and_equal_ones_keep_their_order(way: str) -> None:
    """Also negative ones; on the way out it is the other way round."""
    notes: list[str] = []
    chain = chain_of(notes, ("b", 1), ("c", 1), ("a", -5), ("d", 1))
    if way == "call":
        await chain.call(ASKED)
    else:
        assert "".join([item.text async for item in chain.stream(ASKED)]) == "Yes"
    assert notes == ["+a", "+b", "+c", "+d", "-d", "-c", "-b", "-a"]


async def test_a_chain_does_not_change() -> None:
    """Neither with the list it was made of, nor with an advisor's order, nor by being used."""
    notes: list[str] = []
    advisors = [Note("a", 1, notes), Note("b", 2, notes)]
    chain = Chain(ScriptedModel(delay=0), advisors)
    advisors[0].order = 9
    advisors.clear()
    await asyncio.gather(chain.call(ASKED), chain.call(ASKED))
    assert sorted(notes) == sorted(["+a", "+b", "-b", "-a"] * 2)
    assert notes[:2] == ["+a", "+b"]
    with pytest.raises(AttributeError):
        chain.advisors = ()  # type: ignore[misc]


async def test_an_advisor_may_enter_the_rest_of_the_chain_again() -> None:
    """One after the other and at once, each time from the same place."""
    notes: list[str] = []

    class Thrice:
        order = 1

        async def call(self, request: ChatRequest, next: CallNext) -> ChatResponse:
            await next(request)
            first, _ = await asyncio.gather(next(request), next(request))
            return first

        async def stream(self, request: ChatRequest, next: StreamNext) -> AsyncIterator[ChatChunk]:
            for _ in range(3):
                async for item in next(request):
                    yield item

    chain = Chain(ScriptedModel(delay=0), [Note("in", 2, notes), Thrice(), Note("out", 0, notes)])
    await chain.call(ASKED)
    assert (notes.count("+in"), notes.count("+out")) == (3, 1)
    async for _ in chain.stream(ASKED):
        pass
    assert (notes.count("-in"), notes.count("-out")) == (6, 2)


async def test_the_context_is_explicit() -> None:
    """What an advisor adds reaches those inside, and comes back with the response; nobody else's request has it."""

    class Adds:
        order = 1

        async def call(self, request: ChatRequest, next: CallNext) -> ChatResponse:
            return await next(replace(request, context={**request.context, "added": 1}))

        async def stream(self, request: ChatRequest, next: StreamNext) -> AsyncIterator[ChatChunk]:
            async for item in next(request):
                yield item
            yield ChatChunk(context={"added": 2})

    client = ChatClient(ScriptedModel(["a", "b"], delay=0), [Adds()])
    given = {"mine": 0}
    response = await client.call("Hi", context=given)
    assert dict(response.context) == {"mine": 0, "added": 1}
    stream = client.stream("Hi", context=given)
    assert [item.text async for item in stream] == ["b", ""]
    assert dict(stream.response.context) == {"mine": 0, "added": 2}
    assert given == {"mine": 0}


def test_requests_are_frozen() -> None:
    """Fields, messages, context and options; dicts in the chat format become messages."""
    context = {"a": 1}
    request = ChatRequest(cast("Any", [{"role": "user", "content": "Hi"}]), context)
    context["a"] = 2
    assert request.context["a"] == 1
    assert request.messages == (UserMessage("Hi"),)
    with pytest.raises(TypeError):
        request.options["x"] = 1  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        request.messages = ()  # type: ignore[misc]


@pytest.mark.parametrize("missing", ["call", "stream"])
def test_an_advisor_has_both_ways(missing: str) -> None:
    """A guard without `stream` would not guard streams: it is refused when the chain is made."""
    advisor = Note("a", 0, [])
    setattr(advisor, missing, None)
    with pytest.raises(TypeError, match=missing):
        Chain(ScriptedModel(), [advisor])


class Inner:
    """An advisor that notes when it ends, as a memory does."""

    order = 5

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def call(self, request: ChatRequest, next: CallNext) -> ChatResponse:
        return await next(request)

    async def stream(self, request: ChatRequest, next: StreamNext) -> AsyncIterator[ChatChunk]:
        try:
            async for item in next(request):
                yield item
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise
        self.ended.append("end")


async def test_closing_a_stream_closes_all_inside_before_it_returns() -> None:
    """Although the outer advisor is a generator that closes nothing."""
    upstream, inner = Upstream([chunk("a"), chunk("b")]), Inner()
    stream = ChatClient(Streams(upstream), [Note("out", 0, []), inner]).stream("Hi")
    assert (await anext(stream)).text == "a"
    await stream.aclose()
    assert inner.ended == ["GeneratorExit"]
    assert upstream.closed == 1
    await stream.aclose()
    assert [item async for item in stream] == []


async def test_leaving_the_loop_closes_all_a_moment_later(tasks: None) -> None:
    """`break` drops the stream; the event loop closes it, as it does with a generator."""
    upstream, inner = Upstream([chunk("a"), chunk("b")]), Inner()
    async for _ in ChatClient(Streams(upstream), [Note("out", 0, []), inner]).stream("Hi"):
        break
    await until(lambda: upstream.closed)
    assert inner.ended == ["GeneratorExit"]


async def test_a_stream_in_a_cycle_is_closed_when_it_is_collected(tasks: None) -> None:
    """The garbage collector finds it late, and it is closed all the same."""
    upstream = Upstream([chunk("a"), chunk("b")])
    stream = ChatClient(Streams(upstream)).stream("Hi")
    await anext(stream)
    holder: list[Any] = [stream]
    holder.append(holder)
    del stream, holder
    gc.collect()
    await until(lambda: upstream.closed)


async def test_a_stream_that_was_never_begun_opens_nothing() -> None:
    """Neither iterating nor closing it is owed."""
    model = Streams(Upstream([]))
    stream = ChatClient(model).stream("Hi")
    await stream.aclose()
    ChatClient(model).stream("Hi")
    assert model.requests == []


async def test_a_failure_to_close_does_not_hide_the_error(caplog: pytest.LogCaptureFixture) -> None:
    """The stream's own error comes through; the other one is in the log, and the rest is closed."""

    class Unclosable(Upstream):
        async def aclose(self) -> None:
            await super().aclose()
            raise OSError("unclosable")

    upstream = Unclosable([chunk("a"), ValueError("broken")])
    with pytest.raises(ValueError, match="broken"):
        async for _ in ChatClient(Streams(upstream), [Inner()]).stream("Hi"):
            pass
    assert upstream.closed
    assert "could not be closed" in caplog.text


async def test_text_that_an_advisor_changes_is_what_came() -> None:
    """Edited chunks count with their new text, and the rest of the vendor's chunks stays."""

    class Shouts:
        order = 0

        async def call(self, request: ChatRequest, next: CallNext) -> ChatResponse:
            return await next(request)

        async def stream(self, request: ChatRequest, next: StreamNext) -> AsyncIterator[ChatChunk]:
            async for item in next(request):
                yield replace(item, text=item.text.upper())

    stream = ChatClient(ScriptedModel(["quiet words"], delay=0), [Shouts()]).stream("Hi")
    assert "".join([item.text async for item in stream]) == "QUIET WORDS"
    message = stream.response.message
    assert (message.text, message.finish_reason, message.model) == ("QUIET WORDS", "stop", "scripted")
