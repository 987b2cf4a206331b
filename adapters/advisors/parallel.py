"""Running a few coroutines side by side, and yielding what they give as soon as it is known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import anyio

T = TypeVar("T")

END_SECONDS = 5.0
"""How long cancelled work may take to end, before it is left alone."""


async def as_completed(work: Sequence[Callable[[], Awaitable[T]]], limit: int) -> AsyncGenerator[T, None]:
    """The results in the order in which they come, at most `limit` at work at once.

    No task group is open while it yields: whoever iterates may be in another scope by then. However it ends, no task
    is left behind. A single piece of work runs in the task that asks for it.
    """
    if len(work) == 1:
        yield await work[0]()
        return
    waiting = list(reversed(work))
    running: list[asyncio.Future[T]] = []
    try:
        while waiting or running:
            while waiting and len(running) < limit:
                running.append(asyncio.ensure_future(waiting.pop()()))
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            done = [item for item in running if item.done()]
            running = [item for item in running if item not in done]
            results = [item.result() for item in done]
            for result in results:
                yield result
    finally:
        await _end(running)


async def _end(running: Sequence[asyncio.Future[Any]]) -> None:
    for task in running:
        task.cancel()
    if running:
        with anyio.move_on_after(END_SECONDS, shield=True):
            await asyncio.wait(running)
        for task in running:
            if task.done() and not task.cancelled():
                task.exception()  # it is known, though nobody waits for it
