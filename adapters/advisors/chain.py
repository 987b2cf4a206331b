"""The chain of advisors around a model, and what an advisor is.

Lower orders are outer: their code runs first on the way in and last on the way out. Equal orders keep the order in
which they were given.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable
from functools import partial
from typing import Any, Protocol

from diarist.adapters.advisors.streams import ChatStream, Opened
from diarist.adapters.chat import ChatChunk, ChatRequest, ChatResponse
from diarist.adapters.models.protocol import ChatModel


class CallNext(Protocol):
    """`await next(request)`: the rest of the chain, as often as an advisor likes, also at once."""

    def __call__(self, request: ChatRequest, /) -> Awaitable[ChatResponse]: ...


class StreamNext(Protocol):
    """`async for chunk in next(request)`: the rest of the chain, as often as an advisor likes.

    The chain closes all of them when its stream ends or is closed; an advisor need not.
    """

    def __call__(self, request: ChatRequest, /) -> AsyncIterator[ChatChunk]: ...


class Advisor(Protocol):
    """Any object with these three. All requests share it: what belongs to one goes into locals or the context."""

    @property
    def order(self) -> int:
        """Its place: lower is outer. Read once, when the chain is made."""
        ...

    async def call(self, request: ChatRequest, next: CallNext, /) -> ChatResponse: ...

    def stream(self, request: ChatRequest, next: StreamNext, /) -> AsyncIterator[ChatChunk]: ...


class Chain:
    """Advisors in their order, and the model. Immutable; one chain serves any number of requests at once."""

    __slots__ = ("_advisors", "_model")

    def __init__(self, model: ChatModel, advisors: Iterable[Advisor] = ()) -> None:
        found = tuple(advisors)
        for item in (*found, model):
            _check(item)
        self._model = model
        self._advisors = tuple(sorted(found, key=lambda advisor: advisor.order))

    @property
    def model(self) -> ChatModel:
        return self._model

    @property
    def advisors(self) -> tuple[Advisor, ...]:
        """From the outermost to the innermost."""
        return self._advisors

    async def call(self, request: ChatRequest) -> ChatResponse:
        """The whole answer."""
        return await self._call(0, request)

    def stream(self, request: ChatRequest) -> ChatStream:
        """The answer in chunks. Nothing happens before the first is asked for."""
        return ChatStream(partial(self._open, 0), request)

    def _call(self, place: int, request: ChatRequest) -> Awaitable[ChatResponse]:
        if place == len(self._advisors):
            return self._model.call(request)
        return self._advisors[place].call(request, partial(self._call, place + 1))

    def _open(self, place: int, opened: Opened, request: ChatRequest) -> AsyncIterator[ChatChunk]:
        if place == len(self._advisors):
            return opened.iterate(self._model.stream(request))
        return opened.iterate(self._advisors[place].stream(request, partial(self._open, place + 1, opened)))


def _check(item: Any) -> None:
    """An advisor that lacks a way would be left out silently there: a guard that does not guard streams, say."""
    for name in ("call", "stream"):
        if not callable(getattr(item, name, None)):
            raise TypeError(f"{type(item).__name__} has no method {name!r}")
