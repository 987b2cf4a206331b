"""Whether something holds up the event loop."""

from __future__ import annotations

import asyncio
import time
from asyncio.events import Handle
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest


@dataclass
class Longest:
    """The longest single callback, in seconds, and what it was."""

    seconds: float = 0.0
    what: str = ""


@contextmanager
def watched() -> Generator[Longest]:
    """Time every callback of every loop in this block."""
    longest = Longest()
    run: Callable[[Handle], None] = Handle._run

    def timed(handle: Handle) -> None:
        what = repr(handle)
        started = time.perf_counter()
        run(handle)
        seconds = time.perf_counter() - started
        if seconds > longest.seconds:
            longest.seconds, longest.what = seconds, what

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Handle, "_run", timed)
        yield longest


async def shortest_hold_up(work: Callable[[], Awaitable[object]], enough: float, tries: int = 8) -> Longest:
    """The hold-up that every try has: what a busy machine adds is not in all. One try below `enough` ends it."""
    best = Longest(float("inf"))
    while tries and best.seconds >= enough:
        tries -= 1
        with watched() as longest:
            await asyncio.ensure_future(_run(work))
        best = min(best, longest, key=lambda found: found.seconds)
    return best


async def _run(work: Callable[[], Awaitable[object]]) -> None:
    await work()
