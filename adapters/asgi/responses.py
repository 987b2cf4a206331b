"""A turn as a streamed response.

The turn begins, and the model is asked, inside the response and before its first byte: what fails there is an
ordinary error of the request, with a status of its own. The body ends when the turn is stored.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from typing import Any

from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from diarist.adapters.asgi.wires import EventWire, RawWire, TextWire, UIWire, Wire, answer_of
from diarist.runtime.errors import DiaristError
from diarist.runtime.feeds import Attachment
from diarist.runtime.options import Encoding
from diarist.runtime.turn import Turn

Model = Callable[[Turn], AsyncIterable[Any] | Awaitable[AsyncIterable[Any]]]
"""Asks the model with `turn.messages` (or `turn.to_openai()`); returns its stream, or what gives it when awaited."""

PING_SECONDS = 15.0
BEGUN = b""
"""The first thing a body yields: from now on errors are no statuses."""

logger = logging.getLogger("diarist.web")


class StreamedResponse(Response, ABC):
    """A response whose body decides, before its first byte, whether there is one."""

    def __init__(self, wire: Wire, status_code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(None, status_code, {**wire.headers, **(headers or {})}, wire.media_type)
        del self.headers["content-length"]
        self.wire = wire

    @abstractmethod
    def events(self) -> AsyncGenerator[bytes, None]:
        """`BEGUN`, then the body."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = self.events()
        told = self._told(body)
        pinged = _Pinged(send, self.wire.ping)
        try:
            await anext(body)
            inner = StreamingResponse(told, self.status_code)
            inner.raw_headers = self.raw_headers
            await inner(scope, receive, pinged)
        finally:
            await pinged.stop()
            await told.aclose()
            await body.aclose()

    async def _told(self, body: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """The body, with what fails in its middle as the wire tells it."""
        try:
            async for data in body:
                yield data
        except Exception as error:
            told = self.wire.error(error)
            if told is None:
                raise
            if not isinstance(error, DiaristError):
                logger.warning("a model's stream failed", exc_info=error)
            for data in told:
                yield data


class TurnResponse(StreamedResponse):
    """`return TurnResponse(chat.turn(question), model, EventWire())`. See `sse_response` and its like.

    A client that disconnects cancels the turn: its `on_cancel` decides what stays. With `detach` it goes on instead,
    and others, or the same client after a reload, follow it with an `AttachmentResponse`.
    """

    def __init__(
        self,
        turn: Turn,
        model: Model,
        wire: Wire,
        *,
        format: str = "auto",
        encoding: Encoding | None = None,
        detach: bool = False,
    ) -> None:
        super().__init__(wire)
        self._turn = turn
        self._model = model
        self._format = format
        self._encoding: Encoding | None = encoding
        self._detach = detach

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The turn, from its begin to its commit."""
        wire = self.wire
        async with self._turn as turn:
            chunks = None if turn.replayed else await self._chunks(turn)
            yield BEGUN
            for data in wire.start(turn):
                yield data
            if chunks is not None:
                async for chunk in chunks:
                    for data in wire.chunk(chunk):
                        yield data
            elif (answer := answer_of(turn)) is not None:
                for data in wire.whole(answer):
                    yield data
        for data in wire.end(turn):
            yield data

    async def _chunks(self, turn: Turn) -> AsyncIterable[Any]:
        found = self._model(turn)
        stream = await found if isinstance(found, Awaitable) else found
        take = turn.detach if self._detach else turn.record
        return take(stream, self._format, self._encoding)


class AttachmentResponse(StreamedResponse):
    """`return AttachmentResponse(chat.attach(), EventWire())`: a running detached turn from its beginning, then live.

    204 and no body if there is nothing to follow.
    """

    def __init__(self, attachment: Attachment[Any], wire: Wire) -> None:
        super().__init__(wire)
        self._attachment = attachment

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except _Nothing:
            await Response(None, 204)(scope, receive, send)
        finally:
            self._attachment.leave()

    async def events(self) -> AsyncGenerator[bytes, None]:
        """What is followed; `_Nothing` if there is nothing."""
        attachment, wire = self._attachment, self.wire
        turn = await attachment.begin()
        if turn is None:
            raise _Nothing
        yield BEGUN
        for data in wire.start(turn):
            yield data
        async for chunk in attachment:
            for data in wire.chunk(chunk):
                yield data
        for data in wire.end(turn):
            yield data


class _Nothing(Exception):
    """There is no turn to follow."""


class _Pinged:
    """Sends on, and a ping into each long silence between the first and the last byte."""

    def __init__(self, send: Send, ping: bytes) -> None:
        self._send = send
        self._ping = ping
        self._task: asyncio.Task[None] | None = None
        self._sent = False

    async def __call__(self, message: Message) -> None:
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if last:
            await self.stop()
        self._sent = True
        await self._send(message)
        if self._ping and not last and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # the client is gone: the response hears of that by itself

    async def _run(self) -> None:
        while True:
            self._sent = False
            await asyncio.sleep(PING_SECONDS)
            if not self._sent:
                await self._send({"type": "http.response.body", "body": self._ping, "more_body": True})


def sse_response(
    turn: Turn, model: Model, *, format: str = "auto", encoding: Encoding | None = None, detach: bool = False
) -> TurnResponse:
    """A turn as server-sent events; see `EventWire`."""
    return TurnResponse(turn, model, EventWire(format, encoding), format=format, encoding=encoding, detach=detach)


def ui_response(
    turn: Turn,
    model: Model,
    *,
    format: str = "auto",
    encoding: Encoding | None = None,
    detach: bool = False,
    message_id: str | None = None,
    finish_reasons: bool = True,
) -> TurnResponse:
    """A turn as the AI SDK's UI message stream; see `UIWire`."""
    wire = UIWire(format, encoding, message_id=message_id, finish_reasons=finish_reasons)
    return TurnResponse(turn, model, wire, format=format, encoding=encoding, detach=detach)


def text_response(
    turn: Turn, model: Model, *, format: str = "auto", encoding: Encoding | None = None, detach: bool = False
) -> TurnResponse:
    """A turn as plain text; see `TextWire`."""
    return TurnResponse(turn, model, TextWire(format, encoding), format=format, encoding=encoding, detach=detach)


def raw_response(
    turn: Turn,
    upstream: Model,
    *,
    encoding: Encoding = "sse",
    format: str = "auto",
    detach: bool = False,
    media_type: str = "text/event-stream",
) -> TurnResponse:
    """An upstream's HTTP body, untouched and at once, and recorded beside; see `RawWire`."""
    return TurnResponse(turn, upstream, RawWire(media_type), format=format, encoding=encoding, detach=detach)
