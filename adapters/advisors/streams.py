"""A chain's stream: an object that closes all that was opened for it, however it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable
from typing import Any, Protocol, Self, cast

import anyio

from diarist.adapters.advisors.rounds import Rounds
from diarist.adapters.chat import ChatChunk, ChatRequest, ChatResponse

CLOSE_SECONDS = 5.0
"""How long the streams of a chain may take to close, all together, before they are left to the garbage collector."""

logger = logging.getLogger("diarist.adapters")


class Opened:
    """The streams that advisors and model opened for one request, the outer ones first.

    An advisor that is a generator leaves the stream that it reads open when it is closed itself: `async for` closes
    nothing. Without this, a turn inside it would end only when the garbage collector finds it.
    """

    def __init__(self) -> None:
        self._streams: list[tuple[Any, Any]] = []

    def iterate(self, stream: AsyncIterable[ChatChunk]) -> AsyncIterator[ChatChunk]:
        iterator = aiter(stream)
        self._streams.append((iterator, stream))
        return iterator

    async def aclose(self, *, quiet: bool) -> None:
        """Close all, the outer ones first. `quiet`: an error is on its way already, failures go to the log."""
        failure: Exception | None = None
        cancelled: asyncio.CancelledError | None = None
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            for pair in self._streams:
                try:
                    await _close(*pair)
                except asyncio.CancelledError as error:
                    cancelled = error
                except Exception as error:
                    failure = failure or error
                    if quiet:
                        logger.error("a stream could not be closed", exc_info=error)
            if cancelled is not None:
                raise cancelled
        if failure is not None and not quiet:
            raise failure


async def _close(iterator: Any, stream: Any) -> None:
    """Close a stream, whatever it calls that, and the iterator that it handed out if that is another object."""
    for owner in (iterator,) if iterator is stream else (iterator, stream):
        close = getattr(owner, "aclose", None) or getattr(owner, "close", None)
        if close is not None:
            result: object = close()
            if isinstance(result, Awaitable):
                await cast("Awaitable[object]", result)


class Open(Protocol):
    """Opens the outermost stream of a chain."""

    def __call__(self, opened: Opened, request: ChatRequest, /) -> AsyncIterator[ChatChunk]: ...


class ChatStream:
    """`async for chunk in stream`. Leave early with `aclose`, or use it in an `async with`.

    When it has ended, normally or not, the advisors inside are through: what a memory keeps is stored. A stream
    that is forgotten in the middle is closed by the event loop a moment later.
    """

    def __init__(self, open: Open, request: ChatRequest) -> None:
        self._rounds = Rounds()
        self._context: dict[str, Any] = dict(request.context)
        # The generator must not know this object: a cycle would have to wait for the garbage collector.
        self._generator = _driven(open, request, self._rounds, self._context)

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[ChatChunk]:
        return self._generator.__anext__()

    async def aclose(self) -> None:
        """Stop. Returns when all that was opened for it is closed, and what is kept of it stored."""
        await self._generator.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    @property
    def response(self) -> ChatResponse:
        """All that came so far, as one response. After the end it is what a `call` would have returned."""
        *steps, answer = self._rounds.messages()
        return ChatResponse(answer, self._context, tuple(steps))


async def _driven(
    open: Open, request: ChatRequest, rounds: Rounds, context: dict[str, Any]
) -> AsyncGenerator[ChatChunk, None]:
    opened = Opened()
    try:
        async for chunk in open(opened, request):
            rounds.add(chunk)
            context.update(chunk.context)
            if not chunk.is_blank:
                yield chunk
        rounds.end()
    except BaseException as error:
        rounds.end(error)
        await opened.aclose(quiet=True)
        raise
    await opened.aclose(quiet=False)
