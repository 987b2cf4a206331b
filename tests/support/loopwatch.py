"""Whether something holds up the event loop."""

from __future__ import annotations

import asyncio
import resource
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


class _Watch:
    """Time by the clock; of the processor, where the system took that away meanwhile: others' work is not ours."""

    def __init__(self) -> None:
        self._taken = _taken()
        self._wall, self._cpu = time.perf_counter(), time.thread_time()

    def seconds(self) -> float:
        wall, cpu = time.perf_counter() - self._wall, time.thread_time() - self._cpu
        return wall if _taken() == self._taken else cpu


def _taken() -> int:
    """How often this thread was interrupted for another one; 0 where nobody counts that (outside Linux)."""
    who = getattr(resource, "RUSAGE_THREAD", None)
    return 0 if who is None else resource.getrusage(who).ru_nivcsw


@contextmanager
def watched() -> Generator[Longest]:
    """Time every callback of every loop in this block."""
    longest = Longest()
    run: Callable[[Handle], None] = Handle._run

    def timed(handle: Handle) -> None:
        what, watch = repr(handle), _Watch()
        run(handle)
        seconds = watch.seconds()
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
