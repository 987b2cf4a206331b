"""`diarist serve` in a process of its own, and a client of it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.asgi import events
from tests.support.cli import Done, finish, start, wait_for


class Serving:
    """A server that is ready."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def stop(self, number: int = signal.SIGTERM, seconds: float = 50.0) -> Done:
        """Send a signal, and wait for the end."""
        self.process.send_signal(number)
        return finish(self.process, seconds)


@contextmanager
def serving(store: Path, *options: object) -> Generator[Serving, None, None]:
    """A server on a free port, over a SQLite file. It is stopped at the end, if it still runs."""
    process = start("serve", "--store", f"sqlite:///{store}", "--port", "0", *options)
    try:
        line = wait_for(process, "\n")
        yield Serving(process, line.split()[-1])
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


async def command(*arguments: object) -> Done:
    """A command in a process of its own, waited for without holding the loop."""
    return await asyncio.to_thread(lambda: finish(start(*arguments)))


class Reading:
    """A body under way; `body` is what came so far."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.body = ""
        self._chunks = response.aiter_text()

    async def until(self, text: str) -> None:
        """Read until the body holds a text."""
        while text not in self.body:
            self.body += await anext(self._chunks)

    async def rest(self) -> str:
        """The whole body."""
        async for chunk in self._chunks:
            self.body += chunk
        return self.body


class Client:
    """Asks, and reads answers as they come."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def ask(self, id: str, text: str, query: str = "", **headers: str) -> list[tuple[str, Any]]:
        """The events of a whole answer."""
        found = await self.http.post(f"/api/conversations/{id}/messages{query}", json={"text": text}, headers=headers)
        assert found.status_code == 200, found.text
        return events(found.content)

    @asynccontextmanager
    async def asking(self, id: str, text: str, **headers: str) -> AsyncGenerator[Reading, None]:
        """An answer that runs; leaving it hangs up."""
        path = f"/api/conversations/{id}/messages"
        async with self.http.stream("POST", path, json={"text": text}, headers=headers) as response:
            assert response.status_code == 200
            yield Reading(response)

    @asynccontextmanager
    async def following(self, id: str) -> AsyncGenerator[Reading, None]:
        """The answer that runs in a conversation."""
        async with self.http.stream("GET", f"/api/conversations/{id}/stream") as response:
            assert response.status_code == 200
            yield Reading(response)

    async def history(self, id: str) -> list[dict[str, Any]]:
        """The messages of a conversation's newest page."""
        found = await self.http.get(f"/api/conversations/{id}/messages?limit=200")
        assert found.status_code == 200, found.text
        items: list[dict[str, Any]] = found.json()["items"]
        return [item["message"] for item in items]


@asynccontextmanager
async def client_of(url: str, **headers: str) -> AsyncGenerator[Client, None]:
    """A client without bounds of its own."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=50, limits=limits, trust_env=False) as http:
        yield Client(http)
