"""No request body above a bound, whether it tells its length or not."""

from __future__ import annotations

from starlette.requests import ClientDisconnect
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
        counted = _Counted(receive, self._limit)
        started = _Started(send)
        try:
            await self._app(scope, counted, started)
        except (_TooLarge, ClientDisconnect):
            if not counted.exceeded or started.started:
                raise
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        detail = f"a request body has at most {self._limit} bytes"
        headers = {"connection": "close"}
        await JSONResponse({"error": "TooLarge", "detail": detail}, 413, headers)(scope, receive, send)


class _Counted:
    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._left = limit
        self.exceeded = False

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.exceeded = True
            raise _TooLarge
        return message


class _Started:
    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        self.started = True
        await self._send(message)
