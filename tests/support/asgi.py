"""An ASGI server of one request, in this task's loop: it reads the body as it comes, and can hang up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, MutableMapping
from typing import Any

from starlette.types import ASGIApp


class Call:
    """One request to an app, under way."""

    def __init__(
        self, app: ASGIApp, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        plain, _, query = path.partition("?")
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.whole = False
        self._request = body
        self._gone = asyncio.Event()
        self._news = asyncio.Event()
        self._sent = False
        pairs = {"host": "test", "content-length": str(len(body)), **(headers or {})}
        self._scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": plain,
            "raw_path": plain.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(key.lower().encode(), value.encode()) for key, value in pairs.items()],
            "client": ("127.0.0.1", 1),
            "server": ("test", 80),
        }
        self.task = asyncio.create_task(self._run(app))

    async def _run(self, app: ASGIApp) -> None:
        try:
            await app(self._scope, self._receive, self._send)
        finally:
            self._news.set()

    async def _receive(self) -> MutableMapping[str, Any]:
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self._request, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            assert not self.status
            self.status = message["status"]
            self.headers = {key.decode(): value.decode() for key, value in message["headers"]}
        elif not self._gone.is_set():
            assert not self.whole
            self.body += message.get("body", b"")
            self.whole = not message.get("more_body", False)
        self._news.set()

    def hang_up(self) -> None:
        """The client is gone."""
        self._gone.set()

    async def until(self, text: str) -> None:
        """Wait until the body so far holds a text."""
        while text.encode() not in self.body:
            assert not self.task.done(), self.body
            self._news.clear()
            await self._news.wait()

    async def end(self) -> Call:
        """Wait for the response's end."""
        await self.task
        return self

    def json(self) -> Any:
        return json.loads(self.body)


def events(body: bytes) -> list[tuple[str, Any]]:
    """Server-sent events as names and data; pings are left out."""
    found: list[tuple[str, Any]] = []
    for block in body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            data = fields["data"]
            found.append((fields.get("event", "message"), data if data == "[DONE]" else json.loads(data)))
    return found


def text_of(body: bytes) -> str:
    """The answer's text as the events tell it."""
    return "".join(data["text"] for name, data in events(body) if name == "message" and "text" in data)
