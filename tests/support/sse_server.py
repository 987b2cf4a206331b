"""A model's HTTP server on loopback: real sockets, real server-sent events, answers as a test wants them."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

STALL = object()
"""In a script: nothing more comes, until the client leaves."""
CUT = object()
"""In a script: the connection breaks."""


@dataclass
class Answer:
    """One response: JSON, or server-sent events (dicts, plain strings as data, `STALL`, `CUT`)."""

    body: Any = None
    events: Sequence[Any] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])


class ModelServer:
    """`answers` are given one after the other; `requests` has what was asked."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.answers: list[Answer] = []
        self.requests: list[Any] = []
        self.left = 0
        """Streams whose client went away before their end."""
        self.stalled = asyncio.Event()

    async def answer(self, request: Request) -> Response:
        self.requests.append(await request.json())
        answer = self.answers.pop(0)
        if answer.body is not None:
            return JSONResponse(answer.body, answer.status, answer.headers)
        return StreamingResponse(self._events(answer.events), media_type="text/event-stream")

    async def _events(self, events: Sequence[Any]) -> AsyncIterator[bytes]:
        try:
            for event in events:
                if event is STALL:
                    self.stalled.set()
                    await asyncio.Event().wait()
                if event is CUT:
                    raise ConnectionResetError
                yield _encoded(event)
        except asyncio.CancelledError:
            self.left += 1
            raise


def _encoded(event: Any) -> bytes:
    if isinstance(event, str):
        return f"data: {event}\n\n".encode()
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


@asynccontextmanager
async def model_server() -> AsyncGenerator[ModelServer, None]:
    """A server on a port that the system chose."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = ModelServer(listening.getsockname()[1])
        paths = ("/v1/chat/completions", "/v1/messages")
        app = Starlette(routes=[Route(path, server.answer, methods=["POST"]) for path in paths])
        config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
        running = uvicorn.Server(config)
        task = asyncio.ensure_future(running.serve(sockets=[listening]))
        try:
            yield server
        finally:
            running.should_exit = True
            await task
