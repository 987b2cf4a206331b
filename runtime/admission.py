"""Bounds on what is admitted: per conversation, and over the process in operations and bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from diarist.runtime.errors import MailboxFullError
from diarist.runtime.limits import Limits
from diarist.runtime.operations import Operation, Status
from diarist.runtime.slot import Slot


class Admission:
    """Counts admitted operations, and lets the others wait: in order within a conversation, and conversations
    in the order in which they began to wait, so that a hot one does not starve the rest."""

    def __init__(self, limits: Limits, admitted: Callable[[Operation[Any], Slot], None]) -> None:
        self._limits = limits
        self._admitted = admitted
        self._blocked: dict[Slot, None] = {}
        self.operations = 0
        self.bytes = 0
        self.waiting = 0
        self.commit_seconds = 0.05
        """A running mean of what a commit takes: the hint for `retry_after`."""

    def submit(self, operation: Operation[Any], slot: Slot) -> None:
        """Admit the operation now, or let it wait, or refuse it (`overflow="raise"`).

        What a turn has to store is never refused: the model was paid, and the answer would be lost.
        """
        full = slot.pending >= self._limits.mailbox
        if not slot.waiting and not full and not self._blocked and self._has_room(operation):
            self._enter(operation, slot)
            return
        if self._limits.overflow == "raise" and not operation.persistent:
            what = "the conversation's mailbox" if full else "the runtime"
            hint = max(0.01, 2 * self.commit_seconds)
            raise MailboxFullError(f"{what} is full", retry_after=hint, idempotency_key=operation.key)
        if slot.waiting is None:
            slot.waiting = deque()
        operation.status = Status.WAITING
        slot.waiting.append(operation)
        self.waiting += 1
        if not full:
            self._blocked[slot] = None

    def release(self, operation: Operation[Any], slot: Slot) -> None:
        """An admitted operation is finished: its place goes to the next that waits."""
        self.operations -= 1
        self.bytes -= operation.size
        slot.pending -= 1
        if slot.waiting:
            # Behind those that wait already: its own place is not its to keep.
            self._blocked.setdefault(slot)
        while self._blocked and self.operations < self._limits.operations:
            first = next(iter(self._blocked))
            del self._blocked[first]
            self._refill(first)
            if first in self._blocked:
                return

    def withdrawn(self, slot: Slot) -> None:
        """An operation that waited gave up. It is passed over in its queue, and goes when it is the first there."""
        self.waiting -= 1
        waiting = slot.waiting
        while waiting and waiting[0].status is Status.DONE:
            waiting.popleft()

    def _has_room(self, operation: Operation[Any]) -> bool:
        limits = self._limits
        return self.operations < limits.operations and (
            self.bytes + operation.size <= limits.bytes or not self.operations
        )

    def _enter(self, operation: Operation[Any], slot: Slot) -> None:
        self.operations += 1
        self.bytes += operation.size
        slot.pending += 1
        self._admitted(operation, slot)

    def _refill(self, slot: Slot) -> None:
        while slot.waiting and slot.pending < self._limits.mailbox:
            operation = slot.waiting[0]
            if operation.status is not Status.DONE:
                if not self._has_room(operation):
                    self._blocked[slot] = None
                    return
                self.waiting -= 1
                self._enter(operation, slot)
            slot.waiting.popleft()
        if not slot.waiting:
            slot.waiting = None
