"""A clock that stands still until a test moves it."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable

from diarist import Environment

START = 1_700_000_000.0
"""Wall time at which tests begin, in seconds since the epoch."""


class FakeTimer:
    """A pending call; `cancel` makes it none."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock:
    """Time passes only in `advance`, which runs the timers that become due, in their order."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._count = itertools.count()
        self._timers: list[tuple[float, int, FakeTimer]] = []

    def time(self) -> float:
        return START + self.now

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(callback)
        heapq.heappush(self._timers, (self.now + delay, next(self._count), timer))
        return timer

    @property
    def timers(self) -> int:
        """How many timers are armed."""
        return sum(timer.callback is not None for _, _, timer in self._timers)

    def advance(self, seconds: float) -> None:
        """Let time pass. Each due timer sees the time it asked for."""
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, when)
            if timer.callback is not None:
                timer.callback()
        self.now = end


def fake_environment(seed: int = 0) -> tuple[FakeClock, Environment]:
    """A fake clock, and an environment of it with seeded randomness."""
    clock = FakeClock()
    return clock, Environment(clock, random.Random(seed))
