"""A memory that lives as long as its app."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from starlette.requests import HTTPConnection

from diarist.runtime.memory import DRAIN_SECONDS, ChatMemory

Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]


def lifespan(make: str | Callable[[], ChatMemory], *, drain_seconds: float = DRAIN_SECONDS) -> Lifespan:
    """`FastAPI(lifespan=lifespan("sqlite:///chat.db"))`: opens a memory with the app, and at its end
    drains and closes it.

    `make`: a store's URL, or a function that makes the memory (`ChatMemory` belongs to one event loop, so it is made
    anew each time the app starts). `drain_seconds`: how long running turns may go on; the last fifth of it is theirs
    to be ended by their policies. To compose it with your own lifespan, enter it there: `async with it(app): …`.
    """

    @asynccontextmanager
    async def run(app: Any) -> AsyncGenerator[None, None]:
        memory = ChatMemory.open(make) if isinstance(make, str) else make()
        async with memory:
            app.state.diarist = memory
            try:
                yield
            finally:
                await memory.drain(drain_seconds)

    return run


def memory_of(connection: HTTPConnection) -> ChatMemory:
    """The app's memory, for a request or a WebSocket; `RuntimeError` if the app has no `lifespan` of ours."""
    memory = getattr(connection.app.state, "diarist", None)
    if not isinstance(memory, ChatMemory):
        raise RuntimeError("the app has no memory: give it diarist.adapters.asgi.lifespan(…)")
    return memory
