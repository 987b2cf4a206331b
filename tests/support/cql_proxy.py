"""A TCP proxy before a server that forwards requests and loses answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

Fate = Literal["cut", "swallow"]
"""What becomes of the answer to a marked request: the connection is cut, or nothing ever comes."""


class Proxy:
    """It looks for a marker in what clients send: the server does what it is asked, and the client never hears."""

    def __init__(self, host: str, port: int, marker: bytes) -> None:
        self._host = host
        self._server_port = port
        self._marker = marker
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.fate: Fate | None = None
        """None: everything passes."""
        self.lost = 0
        self.port = 0
        self._loss = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def start(cls, host: str, port: int, marker: bytes) -> AsyncGenerator[Proxy]:
        proxy = cls(host, port, marker)
        server = await asyncio.start_server(proxy._accept, "127.0.0.1", 0)
        proxy.port = server.sockets[0].getsockname()[1]
        try:
            yield proxy
        finally:
            server.close()
            for writer in list(proxy._writers):
                writer.close()
            while proxy._tasks:
                await asyncio.wait(proxy._tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream = await asyncio.open_connection(self._host, self._server_port)
        except OSError:
            writer.close()
            return
        line = _Line(self, (reader, writer), upstream)
        self._writers |= {writer, upstream[1]}
        for pump in (line.requests(), line.answers()):
            task = asyncio.ensure_future(pump)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def has_lost(self) -> None:
        """Returns when an answer was lost."""
        await self._loss.wait()

    def lose(self) -> None:
        self.lost += 1
        self._loss.set()

    def wants(self, data: bytes) -> bool:
        return self.fate is not None and self._marker in data


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Line:
    """One connection. A marker may lie across two pieces of a request."""

    def __init__(self, proxy: Proxy, client: Ends, server: Ends) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._marked = False
        self._tail = b""

    async def requests(self) -> None:
        try:
            while data := await self._client[0].read(1 << 16):
                self._marked = self._marked or self._proxy.wants(self._tail + data)
                self._tail = data[-64:]
                self._server[1].write(data)
                await self._server[1].drain()
        except OSError:
            pass
        finally:
            self._server[1].close()

    async def answers(self) -> None:
        try:
            while data := await self._server[0].read(1 << 16):
                if self._marked:
                    self._proxy.lose()
                    if self._proxy.fate == "swallow":
                        continue
                    break
                self._client[1].write(data)
                await self._client[1].drain()
        except OSError:
            pass
        finally:
            self._client[1].close()
