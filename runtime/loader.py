"""Reading for slots: their state when cold, the versions they stand at, and callers' keys."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from diarist.runtime.errors import BackendError, DiaristError
from diarist.runtime.ids import parse_retry_key
from diarist.runtime.operations import UNRESOLVED, Operation, Status
from diarist.runtime.reader import LogReader
from diarist.runtime.repository import Done
from diarist.runtime.slot import Slot
from diarist.runtime.state import restore, weight_of
from diarist.runtime.views import RecordIndex

if TYPE_CHECKING:
    from diarist.runtime.engine import Engine

KEYS_AT_ONCE = 500
"""Conversations in one `versions` call."""


OTHER = "other"
"""The digest of an entry that is not what a made-up key is given for: equal to none."""


class Loader:
    """Each method takes a slot that is `BUSY` and wakes it when it can go on."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._permits = asyncio.Semaphore(engine.limits.loads)
        self._unconfirmed: list[Slot] = []
        self.loads = 0

    def load(self, slot: Slot) -> None:
        """Read a cold slot's state."""
        self._engine.start(self._load(slot))

    async def _load(self, slot: Slot) -> None:
        engine = self._engine
        async with self._permits:
            self.loads += 1
            # The coarse time, somewhat early, is one object for all slots: a clock's own would add 24 bytes to each.
            sequence, now = engine.sequence, engine.registry.now
            try:
                snapshot = await engine.repository.load(slot.key)
                state, index = restore(snapshot)
            except Exception as error:
                self._failed(slot, error)
                return
        if slot.state is None or state.point != slot.state.point:
            slot.view = None
        if state.point is None:
            slot.keys = None
        slot.state, slot.index = state, index if index.positions else None
        slot.checked, slot.checked_at = sequence, now
        engine.registry.weigh(slot, weight_of(snapshot))
        engine.scheduler.wake(slot)

    def reload(self, slot: Slot) -> None:
        """Read the state again after a conflict; from the second one on after a random pause."""
        pause = 0.0
        if slot.attempts > 1:
            pause = self._engine.environment.random.random() * min(0.25, 0.001 * 2.0 ** min(slot.attempts, 10))
        if pause:
            self._engine.clock.call_later(pause, lambda: self.load(slot))
        else:
            self.load(slot)

    def confirm(self, slot: Slot) -> None:
        """Compare a slot's version with the store. All that ask in one tick go in one call."""
        self._unconfirmed.append(slot)
        if len(self._unconfirmed) == 1:
            self._engine.loop.call_soon(self._confirm_all)

    def _confirm_all(self) -> None:
        slots, self._unconfirmed = self._unconfirmed, []
        for start in range(0, len(slots), KEYS_AT_ONCE):
            self._engine.start(self._confirm(slots[start : start + KEYS_AT_ONCE]))

    async def _confirm(self, slots: Sequence[Slot]) -> None:
        engine = self._engine
        sequence, now = engine.sequence, engine.clock.monotonic()
        try:
            points = await engine.repository.versions([slot.key for slot in slots])
        except Exception as error:
            for slot in slots:
                self._failed(slot, error)
            return
        for slot in slots:
            if slot.state is not None and slot.state.point == points.get(slot.key):
                slot.checked, slot.checked_at = sequence, now
            else:
                slot.forget()
            engine.scheduler.wake(slot)

    def look_up(self, slot: Slot) -> None:
        """Ask the store for all unknown keys in the mailbox, and for what its first operation needs."""
        self._engine.start(self._look_up(slot))

    async def _look_up(self, slot: Slot) -> None:
        mail = slot.mail or ()
        first = mail[0] if mail else None
        keyed = [op for op in mail if op.found is UNRESOLVED and op.status is not Status.DONE]
        try:
            if keyed:
                await self._find_keys(slot, keyed)
            # In the same round: keys that keep coming must not hold up the head of the mailbox.
            if first is not None and first.found is None and first.lookup is not None:
                await self._prepare(slot, first)
        except Exception as error:
            self._failed(slot, error)
            return
        self._engine.scheduler.wake(slot)

    async def _find_keys(self, slot: Slot, keyed: Sequence[Operation[Any]]) -> None:
        keys = {op.key for op in keyed if op.key is not None}
        done = dict(await self._engine.repository.operations(slot.key, keys))
        for op in keyed:
            found = done.get(op.key or "")
            op.found = found if found is not None else await self._find_tried(slot, op)
        slot.remember(done)

    async def _find_tried(self, slot: Slot, asked: Operation[Any]) -> Done | None:
        """A key that Diarist made up names the version where its record was tried: look there."""
        parsed = parse_retry_key(asked.key or "")
        if parsed is None:
            return None
        operation, version = parsed
        record = await LogReader(self._engine.repository, slot.key, RecordIndex()).record_at(version)
        if record is None:
            return None
        position, place = record.position, 0
        for offset, entry in enumerate(record.entries):
            if entry.operation == operation:
                stored = None if record.erased else record.messages[place : place + entry.count]
                digest = asked.digest if asked.repeats(entry.kind, stored) else OTHER
                return Done(record.first + offset, position + place, entry.count, digest or "")
            place += entry.count
        return None

    async def _prepare(self, slot: Slot, operation: Operation[Any]) -> None:
        """Let an operation read from the log; what it misses there is its own failure."""
        assert slot.state is not None
        lookup = operation.lookup
        assert lookup is not None
        if slot.index is None:
            slot.index = RecordIndex()
        try:
            await lookup(slot.state, LogReader(self._engine.repository, slot.key, slot.index, slot.state.facts.born))
        except DiaristError as error:
            if operation.status is not Status.DONE:
                assert slot.mail is not None
                slot.mail.remove(operation)
                known = read_error(error, operation) if isinstance(error, BackendError) else error
                self._engine.finish(operation, None, known)

    def _failed(self, slot: Slot, error: Exception) -> None:
        """The store can't be read: nothing in the mailbox was executed."""
        engine = self._engine
        mail, slot.mail = slot.mail, None
        slot.forget()
        for operation in mail or ():
            if operation.status is not Status.DONE:
                engine.finish(operation, None, read_error(error, operation))
        engine.scheduler.wake(slot)
        engine.registry.drop(slot)


def read_error(error: Exception, operation: Operation[Any]) -> BackendError:
    """The error of one operation that did not run because the store could not be read."""
    kind = type(error) if isinstance(error, BackendError) else BackendError
    copy = kind(f"the store could not be read: {error}", outcome="not_executed", idempotency_key=operation.key)
    copy.__cause__ = error.__cause__ or error
    return copy
