"""What a user without Diarist would write: a lock per conversation around read, append, save.

It uses the runtime's own parts (intake, window, encoding, repository), so that what differs is the lock and one
commit per add.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict

from diarist import Environment, Message
from diarist.runtime.ids import Key, new_id
from diarist.runtime.intake import Intake
from diarist.runtime.log import Entry, encode_record, lazy_message
from diarist.runtime.repository import (
    Commit,
    CommitOutcome,
    Committed,
    Head,
    Repository,
    StoredRecord,
)
from diarist.runtime.state import State, restore
from diarist.runtime.views import RecordIndex, appended, selected
from diarist.runtime.windows import Window


class LockedMemory:
    """Adds under a lock per key. `cached`: the state is kept from one add to the next, else read each time."""

    def __init__(self, repository: Repository, window: Window, *, cached: bool) -> None:
        self._repository = repository
        self._window = window
        self._cached = cached
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._states: dict[str, tuple[State, RecordIndex]] = {}
        self._environment = Environment()
        self._intake = Intake(self._environment, 4 << 20)

    async def add(self, id: str, *messages: Message) -> int:
        """Returns the version."""
        async with self._locks[id]:
            state, index = await self._state(id)
            lines = self._intake.lines(messages)
            new = [lazy_message(line) for line in lines]
            full = appended(state.view, new, state.position)
            view = selected(full, self._window(state.view.messages, new))
            commit = self._commit(id, state, index, lines, view.runs)
            state.view = view
            await self._save(commit)
            state.stored = state.life
            return state.version

    async def _state(self, id: str) -> tuple[State, RecordIndex]:
        if self._cached and id in self._states:
            return self._states[id]
        found = restore(await self._repository.load(Key("", id)))
        if self._cached:
            self._states[id] = found
        return found

    def _commit(
        self, id: str, state: State, index: RecordIndex, lines: list[bytes], runs: tuple[tuple[int, int], ...]
    ) -> Commit:
        expected, now = state.point, time.time()
        state.life = state.life or new_id(self._environment.random)
        state.version += 1
        index.add(state.version, state.position, len(lines))
        ranges = index.ranges(runs)
        operation = new_id(self._environment.random)
        payload = encode_record(state.position, [Entry(operation, "add", len(lines), ranges)], lines)
        state.position += len(lines)
        head = Head(state.life, state.version, None, state.created, now, None, False, state.encode(ranges))
        record = StoredRecord(state.version, state.version, payload, now)
        return Commit(Key("", id), expected, record, head, {}, [operation])

    async def _save(self, commit: Commit) -> None:
        outcomes: list[CommitOutcome] = []
        await self._repository.commit([commit], lambda _index, outcome: outcomes.append(outcome))
        assert isinstance(outcomes[0], Committed)

    async def count(self, id: str) -> int:
        """How many messages were stored."""
        state, _ = restore(await self._repository.load(Key("", id)))
        return state.position
