"""How streams end inside the memory advisor: what the caller sees, what is stored, and that all is closed."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal, cast

import anyio
import anyio.lowlevel
import pytest

from diarist import AssistantMessage, ChatMemory, DiaristError, TurnInterruptedError
from diarist.adapters import Advisor, ChatChunk, ChatClient, ChatMemoryAdvisor, ChatStream
from tests.support.chats import Note, Streams, Upstream, chunk, collect, logged, said, until

pytestmark = pytest.mark.usefixtures("tasks")

U = ("user", "U")
Policy = Literal["keep_partial", "keep_user", "discard"]
POLICIES: tuple[Policy, ...] = ("keep_partial", "keep_user", "discard")
COMMITS: tuple[Literal["turn", "eager", "round"], ...] = ("turn", "eager", "round")


def asked(memory: ChatMemory, upstream: Upstream, **options: Any) -> ChatStream:
    """A stream through a memory, with an advisor of the simple kind on either side."""
    advisors: list[Advisor] = [Note("out", -1, []), ChatMemoryAdvisor(memory, **options), Note("in", 1, [])]
    return ChatClient(Streams(upstream), advisors).stream("U", conversation_id="c")


async def texts(stream: AsyncIterator[ChatChunk]) -> list[str]:
    return [item.text async for item in stream]


async def answer(memory: ChatMemory) -> AssistantMessage:
    last = (await memory.get("c"))[-1]
    assert isinstance(last, AssistantMessage)
    return last


USAGE = ChatChunk(raw={"object": "chat.completion.chunk", "choices": [], "usage": {"total_tokens": 3}})
ENDS: dict[str, tuple[list[ChatChunk], str | None, str | None]] = {
    "a finish reason": ([chunk("a"), chunk("b", "stop")], "ab", "complete"),
    "none": ([chunk("a"), chunk("b")], "ab", "truncated"),
    "two": ([chunk("a", "stop"), chunk("b", "stop")], "ab", "complete"),
    "usage only": ([USAGE], None, None),
    "text only": ([ChatChunk("a"), ChatChunk("b")], "ab", "complete"),
    "nothing at all": ([], None, None),
    "blank chunks": ([chunk(""), chunk("", "stop")], None, None),
}


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("end", ENDS)
async def test_the_end_of_the_stream_decides(memory: ChatMemory, commit: str, end: str) -> None:
    """Not a finish reason. The question is stored in any case, an empty answer never."""
    chunks, text, status = ENDS[end]
    upstream = Upstream(list(chunks))
    assert await texts(asked(memory, upstream, commit=commit)) == [item.text for item in chunks]
    assert await said(memory) == ([U] if text is None else [U, ("assistant", text)])
    if text is not None:
        assert (await answer(memory)).status == status
    assert len(await logged(memory)) == (1 if text is None else 2)
    assert upstream.closed


KEPT: dict[Policy, list[tuple[str, str]]] = {
    "keep_partial": [U, ("assistant", "a")],
    "keep_user": [U],
    "discard": [],
}


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("policy", POLICIES)
async def test_the_stream_raises_in_the_middle(memory: ChatMemory, policy: Policy, commit: str) -> None:
    """The caller gets the chunks and the very error."""
    error = ValueError("broken")
    upstream = Upstream([chunk("a"), error])
    seen: list[str] = []
    with pytest.raises(ValueError, match="broken") as caught:
        await collect(asked(memory, upstream, on_error=policy, commit=commit), seen)
    assert caught.value is error
    assert seen == ["a"]
    assert await said(memory) == KEPT[policy]
    if policy == "keep_partial":
        assert (await answer(memory)).status == "error"
    assert upstream.closed


async def test_the_stream_raises_before_its_first_chunk(memory: ChatMemory) -> None:
    """The question is kept, without an empty answer."""
    with pytest.raises(ValueError, match="broken"):
        await texts(asked(memory, Upstream([ValueError("broken")])))
    assert await said(memory) == [U]


async def _break(stream: ChatStream) -> None:
    async for _ in stream:
        break


async def _return(stream: ChatStream) -> None:
    async def first() -> str:
        async for item in stream:
            return item.text
        raise AssertionError

    await first()


async def _aclose(stream: ChatStream) -> None:
    await anext(stream)
    await stream.aclose()


async def _with(stream: ChatStream) -> None:
    async with stream:
        await anext(stream)


async def _raise(stream: ChatStream) -> None:
    async def fail() -> None:
        async for _ in stream:
            raise KeyError

    with pytest.raises(KeyError):
        await fail()


async def _forget(stream: ChatStream) -> None:
    await anext(stream)


async def _cycle(stream: ChatStream) -> None:
    await anext(stream)
    holder: list[Any] = [stream]
    holder.append(holder)


async def _outer_generator(stream: ChatStream) -> None:
    async def outer() -> AsyncIterator[str]:
        async for item in stream:
            yield item.text

    generator = cast("Any", outer())
    await anext(generator)
    await generator.aclose()


LEAVING: dict[str, Callable[[ChatStream], Awaitable[None]]] = {
    "break": _break,
    "return": _return,
    "aclose": _aclose,
    "async with": _with,
    "raise": _raise,
    "forgotten": _forget,
    "in a cycle": _cycle,
    "outer generator closed": _outer_generator,
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("how", LEAVING)
async def test_the_consumer_leaves(memory: ChatMemory, policy: Policy, how: str) -> None:
    """After the first chunk, in any way: the policy is carried out once, and the upstream is closed."""
    upstream = Upstream([chunk("a"), chunk("b"), chunk("c", "stop")])
    streams = [asked(memory, upstream, on_cancel=policy)]
    await LEAVING[how](streams.pop())
    gc.collect()
    await until(lambda: upstream.closed)
    async with memory.conversation("c").turn():
        pass  # the turn before this one is over
    assert await said(memory) == KEPT[policy]
    if policy == "keep_partial":
        assert (await answer(memory)).status == "cancelled"
    assert len(await logged(memory)) == len(KEPT[policy])
    assert memory.stats().failures == 0


async def test_left_after_the_last_chunk_is_complete(memory: ChatMemory) -> None:
    """The terminal chunk was seen: it is a whole answer, though the stream was not read to its end."""
    async with asked(memory, Upstream([chunk("a"), chunk("b", "stop"), chunk("")])) as stream:
        await anext(stream)
        await anext(stream)
    assert await said(memory) == [U, ("assistant", "ab")]
    assert (await answer(memory)).status == "complete"


POINTS: dict[str, tuple[list[Any], str | None]] = {
    "before the first chunk": ([None], None),
    "between chunks": ([chunk("a"), None, chunk("b")], "a"),
    "after the last": ([chunk("a", "stop"), None], "a"),
}


@pytest.mark.parametrize("native", [True, False], ids=["native", "anyio"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("point", POINTS)
async def test_the_task_is_cancelled(memory: ChatMemory, point: str, policy: Policy, native: bool) -> None:
    """While it waits for the model: the caller gets the cancellation, and the policy is carried out."""
    parts, text = POINTS[point]
    upstream = Upstream(list(parts))
    scope = anyio.CancelScope()

    async def consume() -> None:
        with scope:
            await texts(asked(memory, upstream, on_cancel=policy))

    task = asyncio.ensure_future(consume())
    await upstream.waiting.wait()
    if native:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        scope.cancel()
        await task
        assert scope.cancelled_caught
    assert upstream.closed
    partial = [("assistant", text)] if text and policy == "keep_partial" else []
    assert await said(memory) == ([] if policy == "discard" else [U, *partial])


async def test_a_yield_under_a_scope_that_is_cancelled_already(memory: ChatMemory) -> None:
    """The consumer's scope is cancelled while it has a chunk in its hands: the commit is made, once."""
    upstream = Upstream([chunk("a"), None])
    with anyio.CancelScope() as scope:
        async with asked(memory, upstream) as stream:
            await anext(stream)
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert upstream.closed
    assert await said(memory) == KEPT["keep_partial"]
    assert len(await logged(memory)) == 2


async def test_cancelled_at_every_step(memory: ChatMemory) -> None:
    """Wherever the cancellation hits, the question is there once, nothing is stored twice, and no turn hangs."""
    for step in range(40):
        id = f"c{step}"
        upstream = Upstream([chunk("a"), chunk("b", "stop")])
        client = ChatClient(Streams(upstream), [ChatMemoryAdvisor(memory)])
        task = asyncio.ensure_future(texts(client.stream("U", conversation_id=id)))
        for _ in range(step):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        async with memory.conversation(id).turn():
            pass
        kept = await said(memory, id)
        assert kept in ([], [U], [U, ("assistant", "a")], [U, ("assistant", "ab")]), (step, kept)
        assert not (upstream.started and kept == []), step
        assert len(await logged(memory, id)) == len(kept)
        assert upstream.closed or not upstream.started
        if not task.cancelled():
            assert kept == [U, ("assistant", "ab")]
            return
    raise AssertionError("it never got to its end")


@pytest.mark.parametrize("policy", POLICIES)
async def test_interrupted_while_it_waits(memory: ChatMemory, policy: Policy) -> None:
    """The stop button of another task."""
    upstream = Upstream([chunk("a"), None])
    task = asyncio.ensure_future(texts(asked(memory, upstream, on_cancel=policy)))
    await upstream.waiting.wait()
    assert await memory.conversation("c").interrupt()
    with pytest.raises(TurnInterruptedError):
        await task
    assert upstream.closed
    assert await said(memory) == KEPT[policy]


async def test_the_next_question_interrupts(memory: ChatMemory) -> None:
    """With `overlap="interrupt"` it does not wait, and sees what was kept of the answer before."""
    first = Upstream([chunk("a"), None])
    advisors = [ChatMemoryAdvisor(memory, overlap="interrupt")]
    model = Streams(first, Upstream([chunk("b", "stop")]))
    client = ChatClient(model, advisors)
    task = asyncio.ensure_future(texts(client.stream("U", conversation_id="c")))
    await first.waiting.wait()
    assert await texts(client.stream("V", conversation_id="c")) == ["b"]
    with pytest.raises(TurnInterruptedError):
        await task
    assert [message.text for message in model.requests[1].messages] == ["U", "a", "V"]


async def test_a_forgotten_stream_is_freed(memory: ChatMemory) -> None:
    """Nothing in the runtime keeps it alive."""
    upstream = Upstream([chunk("a"), chunk("b")])
    stream = asked(memory, upstream)
    await anext(stream)
    reference = weakref.ref(stream)
    del stream
    await until(lambda: upstream.closed)
    gc.collect()
    assert reference() is None


async def test_a_commit_that_fails_is_the_streams_error(memory: ChatMemory) -> None:
    """The caller has all chunks, and then learns that nothing was stored."""
    upstream = Upstream([chunk("a"), None, chunk("b", "stop")])
    seen: list[str] = []

    task = asyncio.ensure_future(collect(asked(memory, upstream, on_conflict="raise"), seen))
    await upstream.waiting.wait()
    await memory.add("c", {"role": "user", "content": "beside"})
    upstream.go.set()
    with pytest.raises(DiaristError):
        await task
    assert seen == ["a", "b"]
    assert await said(memory) == [("user", "beside")]
