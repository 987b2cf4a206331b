"""An event loop that runs what is ready in a random order, by a seed, and in virtual time.

What a program does on it depends on the seed alone, so that a failure replays. Time passes only when nothing is
ready: then it jumps to the next timer. When there is no timer either, everybody waits for something that never
comes: the loop stops with `Deadlock`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, TypeVar, TypeVarTuple, Unpack

from diarist import Environment
from tests.support.clock import START

T = TypeVar("T")
Args = TypeVarTuple("Args")

AT_ONCE = 64
"""Callbacks that run before the real loop beneath has a look at its sockets."""


_Call = tuple[Callable[..., object], tuple[Any, ...], Context]


class Deadlock(RuntimeError):
    """Nothing is ready, no timer is armed, and the main task is not done."""


class RandomLoop(asyncio.SelectorEventLoop):
    """Keeps callbacks and timers of its own, and lets the loop beneath do nothing but call `_pump`."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.steps = 0
        self.deadlocked = False
        self._now = 0.0
        self._count = itertools.count()
        self._callbacks: list[tuple[asyncio.Handle, _Call]] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle, _Call]] = []
        self._pumping = False
        self._stopped = False

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[Args]], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._callbacks.append((handle, (callback, args, context or copy_context())))
        self._pump_soon()
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Args]], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Args]], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._count), handle, (callback, args, context or copy_context())))
        self._pump_soon()
        return handle

    def run_forever(self) -> None:
        self._stopped = self._pumping = False
        self._pump_soon()
        super().run_forever()

    def stop(self) -> None:
        self._stopped = True
        super().stop()

    def _pump_soon(self) -> None:
        if not self._pumping:
            self._pumping = True
            super().call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        for _ in range(AT_ONCE):
            if not self._callbacks and not self._next_timers():
                self.deadlocked = True
                self.stop()
            if self._stopped:
                return
            self._run_one()
        self._pump_soon()

    def _next_timers(self) -> bool:
        """Jump to the next timer, and make all callbacks of that time ready."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not timers:
            return False
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            _, _, handle, call = heapq.heappop(timers)
            self._callbacks.append((handle, call))
        return True

    def _run_one(self) -> None:
        callbacks = self._callbacks
        place = self.random.randrange(len(callbacks))
        callbacks[place], callbacks[-1] = callbacks[-1], callbacks[place]
        handle, (callback, args, context) = callbacks.pop()
        if handle.cancelled():
            return
        self.steps += 1
        try:
            context.run(callback, *args)
        except Exception as error:
            self.call_exception_handler({"message": f"a callback failed: {callback!r}", "exception": error})


class LoopClock:
    """The runtime's clock on a loop's own time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def time(self) -> float:
        return START + self._loop.time()

    def monotonic(self) -> float:
        return self._loop.time()

    def call_later(self, delay: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay, callback)


def environment_of(loop: RandomLoop) -> Environment:
    """Time and randomness of the loop, for a memory on it."""
    return Environment(LoopClock(loop), random.Random(loop.random.getrandbits(64)))


def run_seeded(seed: int, main: Callable[[RandomLoop], Coroutine[Any, Any, T]]) -> T:
    """Run a program in the order of `seed`. An error in any callback, a task left over and a deadlock are errors."""
    loop = RandomLoop(seed)
    problems: list[str] = []

    def note(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        problems.append(f"{context['message']}: {context.get('exception')!r}")

    loop.set_exception_handler(note)
    asyncio.set_event_loop(None)
    try:
        result = _until_done(loop, loop.create_task(main(loop)))
        left = [task for task in asyncio.all_tasks(loop) if not task.done()]
        assert not left, f"tasks left over: {left}"
        assert not problems, problems
        return result
    finally:
        loop.close()


def _until_done(loop: RandomLoop, task: asyncio.Task[T]) -> T:
    try:
        return loop.run_until_complete(task)
    except RuntimeError as error:
        if loop.deadlocked:
            raise Deadlock(f"still waiting: {asyncio.all_tasks(loop)}") from error
        raise
