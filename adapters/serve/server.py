"""The app in a server of its own, and its end: SIGTERM, grace, policy, exit code 0."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from diarist.runtime.memory import ChatMemory


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; `OSError` if the address can't be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=2048)


def url_of(listener: socket.socket) -> str:
    """Where a socket listens."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


LEFT_OVER = 1
"""Seconds after the drain in which clients can read the last events; then their connections are closed."""


class Server(uvicorn.Server):
    """At the first signal the memory drains, beside the connections that still read; running answers have four
    fifths of `seconds` to end by themselves, then their policies end them. A second Ctrl-C ends at once."""

    def __init__(self, app: FastAPI, memory: ChatMemory, seconds: float, ready: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=int(seconds) + LEFT_OVER,
        )
        super().__init__(config)
        self._memory = memory
        self._seconds = seconds
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        drain = asyncio.create_task(self._memory.drain(self._seconds))
        await super().shutdown(sockets)
        await drain

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """As uvicorn's, but a signal is not raised again at the end: having stopped as asked is success."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
