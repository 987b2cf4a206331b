"""Deadlines of operations without a timer for each: they share buckets of a sixteenth of a second."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from diarist.runtime.clock import Clock, TimerHandle
from diarist.runtime.operations import Operation, Status

PER_SECOND: Final = 16
"""Buckets per second: a deadline fires up to a sixteenth of a second late, never early."""


class Deadlines:
    """Calls `expired` for each operation whose time is up. One timer in all, armed while there are operations."""

    def __init__(self, clock: Clock, expired: Callable[[Operation[Any]], None]) -> None:
        self._clock = clock
        self._expired = expired
        self._buckets: dict[int, set[Operation[Any]]] = {}
        self._timer: TimerHandle | None = None
        self._armed = 0

    def bucket(self, timeout: float) -> int | None:
        """Where a deadline in `timeout` seconds belongs; None if that is infinity. `ValueError`: not a number."""
        if timeout == math.inf:
            return None
        if not timeout >= 0:
            if math.isnan(timeout):
                raise ValueError("timeout: not a number")
            timeout = 0.0
        return math.ceil((self._clock.monotonic() + timeout) * PER_SECOND) + 1

    def add(self, operation: Operation[Any], bucket: int | None) -> None:
        """Watch an operation until the time of a bucket."""
        if bucket is None or operation.status is Status.DONE:
            return
        operation.bucket = bucket
        found = self._buckets.get(bucket)
        if found is None:
            self._buckets[bucket] = {operation}
            if self._timer is None or bucket < self._armed:
                self._arm(bucket)
        else:
            found.add(operation)

    def discard(self, operation: Operation[Any]) -> None:
        """Stop watching an operation that is finished."""
        found = self._buckets.get(operation.bucket)
        if found is not None:
            found.discard(operation)
            if not found:
                # An emptied set keeps its table: under load some 64 kB in each of the 480 buckets of 30 s.
                found.clear()

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._buckets.clear()

    def _arm(self, bucket: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed = bucket
        delay = bucket / PER_SECOND - self._clock.monotonic()
        self._timer = self._clock.call_later(max(delay, 0.0), self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._clock.monotonic() * PER_SECOND
        for bucket in sorted(bucket for bucket in self._buckets if bucket <= now):
            for operation in self._buckets.pop(bucket):
                self._expired(operation)
        for bucket in [bucket for bucket, found in self._buckets.items() if not found]:
            del self._buckets[bucket]
        if self._buckets and self._timer is None:
            self._arm(min(self._buckets))
