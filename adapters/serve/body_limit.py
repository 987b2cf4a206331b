"""No request body above a bound, whether it tells its length or not."""

from __future__ import annotations

from contextlib import suppress

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class _TooLarge(Exception):
    pass


class BodyLimit:
    """ASGI middleware: 413 for a body of more than `limit` bytes, and nothing of it is kept."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        told = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not told.isdigit() or int(told) > self._limit:
            await self._refuse(scope, receive, send)
            return
        guarded = _Guarded(receive, send, self._limit)
        with suppress(_TooLarge):
            await self._app(scope, guarded.receive, guarded.send)
        if guarded.exceeded:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        detail = f"a request body has at most {self._limit} bytes"
        headers = {"connection": "close"}
        await JSONResponse({"error": "TooLarge", "detail": detail}, 413, headers)(scope, receive, send)


class _Guarded:
    """Counts what comes in. Once that is too much, what the app makes of it (it may think that the body is broken)
    goes nowhere. An app that answers before it has read all is let alone."""

    def __init__(self, receive: Receive, send: Send, limit: int) -> None:
        self._receive = receive
        self._send = send
        self._left = limit
        self._answers = False
        self.exceeded = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0 and not self._answers:
            self.exceeded = True
            raise _TooLarge
        return message

    async def send(self, message: Message) -> None:
        if not self.exceeded:
            self._answers = True
            await self._send(message)
