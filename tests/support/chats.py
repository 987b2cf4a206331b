"""Models whose streams a test controls, advisors that note what happens, and a client over a memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Self

from diarist import ChatMemory, Message
from diarist.adapters import CallNext, ChatChunk, ChatRequest, ChatResponse, StreamNext


def chunk(text: str, finish_reason: str | None = None) -> ChatChunk:
    """A chunk in OpenAI's form."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}
    return ChatChunk(text, {"object": "chat.completion.chunk", "choices": [choice]})


class Upstream:
    """A stream of chunks that notes whether it was closed. A `BaseException` among the chunks is raised; `None` waits
    until the test sets `go`, or for ever."""

    def __init__(self, parts: Sequence[ChatChunk | BaseException | None]) -> None:
        self._parts = list(parts)
        self.started = False
        self.waiting = asyncio.Event()
        self.go = asyncio.Event()
        self.closed = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChatChunk:
        self.started = True
        if not self._parts:
            raise StopAsyncIteration
        part = self._parts.pop(0)
        if part is None:
            self.waiting.set()
            await self.go.wait()
            return await self.__anext__()
        if isinstance(part, BaseException):
            raise part
        return part

    async def aclose(self) -> None:
        self.closed += 1


class Streams:
    """A model that answers with the upstreams that it is given, one after the other, and keeps the requests."""

    def __init__(self, *upstreams: Upstream) -> None:
        self._upstreams = list(upstreams)
        self.requests: list[ChatRequest] = []

    async def call(self, request: ChatRequest) -> ChatResponse:
        raise NotImplementedError

    def stream(self, request: ChatRequest) -> AsyncIterator[ChatChunk]:
        self.requests.append(request)
        return self._upstreams.pop(0)


class Note:
    """An advisor that writes its name down on the way in and on the way out."""

    def __init__(self, name: str, order: int, notes: list[str]) -> None:
        self.name = name
        self.order = order
        self.notes = notes

    async def call(self, request: ChatRequest, next: CallNext) -> ChatResponse:
        self.notes.append(f"+{self.name}")
        response = await next(request)
        self.notes.append(f"-{self.name}")
        return response

    async def stream(self, request: ChatRequest, next: StreamNext) -> AsyncIterator[ChatChunk]:
        self.notes.append(f"+{self.name}")
        async for item in next(request):
            yield item
        self.notes.append(f"-{self.name}")


async def said(memory: ChatMemory, id: str = "c", namespace: str = "") -> list[tuple[str, str]]:
    """Role and text of what the conversation shows."""
    return [(message.role, message.text) for message in await memory.get(id, namespace=namespace)]


async def logged(memory: ChatMemory, id: str = "c") -> list[Message]:
    """All that was ever stored."""
    return [item.message for item in await memory.conversation(id).history(limit=1000)]


async def until(condition: Callable[[], Any]) -> None:
    """Wait for a state that comes in a few rounds of the loop."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - any state, not only one that can be set
            await asyncio.sleep(0)


async def collect(stream: AsyncIterator[ChatChunk], into: list[str]) -> None:
    """Put the texts of a stream into a list, also of one that breaks off."""
    async for item in stream:
        into.append(item.text)
