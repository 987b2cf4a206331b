"""A repository that misbehaves in every way the port allows, by script or at random.

Wrap any repository. What it says is always true in the sense of the port: `Failed` and `Conflict` were not
executed, and an `Unknown` may have been, or may be at any later time.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Self, TypeVar

from diarist import BackendError
from diarist.runtime.ids import Key
from diarist.runtime.repository import (
    Capabilities,
    Commit,
    CommitOutcome,
    Conflict,
    Done,
    Failed,
    ListPage,
    Point,
    Rejected,
    Repository,
    Settle,
    Snapshot,
    StoredRecord,
    Unknown,
)

T = TypeVar("T")


class Fault(Enum):
    """What happens to one commit."""

    NONE = "executed, and said so"
    FAILED = "not executed, and said so"
    CONFLICT = "not executed: a conflict that was none"
    LOST = "not executed, and nobody knows"
    DONE = "executed, and nobody knows"
    LATE = "executed some calls later, and nobody knows"


class StoreDown(Exception):
    """The driver's own error."""


class Gate:
    """Holds calls up until it is opened, and counts who came."""

    def __init__(self) -> None:
        self.waiting = 0
        self._open = asyncio.Event()
        self._reached = asyncio.Event()

    async def passing(self) -> None:
        self.waiting += 1
        self._reached.set()
        await self._open.wait()

    async def reached(self) -> None:
        """Wait until a call stands before the gate."""
        await self._reached.wait()

    def open(self) -> None:
        self._open.set()


@dataclass
class Chaos:
    """Faults by seed: the probability of each, and of an error of a reading call."""

    random: random.Random
    faults: Mapping[Fault, float] = field(default_factory=dict[Fault, float])
    reads: float = 0.0
    breaks: float = 0.0
    """That a whole call of `commit` raises after some of its commits."""
    most_yields: int = 3
    latest: int = 12
    """Calls after which a late commit lands at last."""

    def fault(self) -> Fault:
        draw = self.random.random()
        for fault, chance in self.faults.items():
            draw -= chance
            if draw < 0:
                return fault
        return Fault.NONE


class FaultyRepository:
    """Passes calls on to `inner`, after what a script, a gate or chaos has in store for them."""

    def __init__(self, inner: Repository, chaos: Chaos | None = None) -> None:
        self.inner = inner
        self.chaos = chaos
        self.calls: Counter[str] = Counter()
        self.commits: list[Commit] = []
        self.script: deque[Fault] = deque()
        """Faults of the next commits, one each; then all is well again."""
        self.errors: dict[str, deque[Exception | None]] = {}
        """By method: what its next calls raise (None: nothing)."""
        self.gates: dict[str, deque[Gate]] = {}
        self.late_after = 1
        """Calls after which a scripted late commit lands."""
        self.closed = False
        self.overrides: dict[str, Any] = {}
        """Capabilities to report instead of the inner ones."""
        self.reject: Callable[[Commit], bool] = lambda _commit: False
        """Which commits the store can't take."""
        self._late: list[tuple[int, Commit]] = []

    @property
    def capabilities(self) -> Capabilities:
        return replace(self.inner.capabilities, **self.overrides)

    @classmethod
    def open(cls, url: str) -> Self:
        raise NotImplementedError("wrap a repository")

    # What a test sets up

    def hold(self, method: str) -> Gate:
        """Hold up the next call of a method that is not held up yet."""
        gate = Gate()
        self.gates.setdefault(method, deque()).append(gate)
        return gate

    def fail(self, method: str, *errors: Exception | None) -> None:
        """Let the next calls of a method raise."""
        self.errors.setdefault(method, deque()).extend(errors)

    @property
    def landing(self) -> int:
        """How many late commits are still on their way."""
        return len(self._late)

    async def land(self) -> list[CommitOutcome]:
        """Let all late commits land now."""
        late, self._late = self._late, []
        return [await self._execute(commit) for _, commit in late]

    # The port

    async def prepare(self) -> None:
        await self._around("prepare", self.inner.prepare)

    async def close(self) -> None:
        self.closed = True
        await self.inner.close()

    async def load(self, key: Key) -> Snapshot | None:
        return await self._around("load", lambda: self.inner.load(key))

    async def versions(self, keys: Collection[Key]) -> Mapping[Key, Point]:
        return await self._around("versions", lambda: self.inner.versions(keys))

    async def operations(self, key: Key, ids: Collection[str]) -> Mapping[str, Done]:
        return await self._around("operations", lambda: self.inner.operations(key, ids))

    async def read(
        self, key: Key, low: int, high: int, *, limit: int, backwards: bool = False
    ) -> Sequence[StoredRecord]:
        return await self._around("read", lambda: self.inner.read(key, low, high, limit=limit, backwards=backwards))

    async def conversations(
        self, *, namespace: str | None = None, after: str | None = None, limit: int = 100
    ) -> ListPage:
        return await self._around(
            "conversations", lambda: self.inner.conversations(namespace=namespace, after=after, limit=limit)
        )

    async def erase(self, key: Key, low: int, high: int) -> int:
        return await self._around("erase", lambda: self.inner.erase(key, low, high))

    async def sweep(self, now: float, *, limit: int = 100) -> int:
        return await self._around("sweep", lambda: self.inner.sweep(now, limit=limit))

    async def commit(self, commits: Sequence[Commit], settle: Settle) -> None:
        await self._arrive("commit")
        for index, commit in enumerate(commits):
            self.commits.append(commit)
            outcome = await self._commit(commit)
            if self.chaos is not None and self.chaos.random.random() < self.chaos.breaks:
                raise StoreDown("the connection broke")
            settle(index, outcome)
            await self._yield()

    # How it misbehaves

    async def _commit(self, commit: Commit) -> CommitOutcome:
        if self.reject(commit):
            return Rejected(BackendError("the store does not take it", outcome="not_executed"))
        fault = self._next_fault()
        if fault is Fault.FAILED:
            return Failed(BackendError("the store is down", outcome="not_executed"))
        if fault is Fault.CONFLICT:
            return Conflict((await self.inner.versions([commit.key])).get(commit.key))
        if fault is Fault.LATE:
            latest = self.chaos.random.randint(1, self.chaos.latest) if self.chaos else self.late_after
            self._late.append((latest, commit))
        if fault in (Fault.LOST, Fault.LATE):
            return Unknown(StoreDown("no answer"))
        outcome = await self._execute(commit)
        return Unknown(StoreDown("no answer")) if fault is Fault.DONE else outcome

    def _next_fault(self) -> Fault:
        if self.script:
            return self.script.popleft()
        return self.chaos.fault() if self.chaos is not None else Fault.NONE

    async def _execute(self, commit: Commit) -> CommitOutcome:
        outcomes: list[CommitOutcome] = []
        await self.inner.commit([commit], lambda _index, outcome: outcomes.append(outcome))
        return outcomes[0]

    async def _around(self, method: str, call: Callable[[], Awaitable[T]]) -> T:
        await self._arrive(method)
        before = self.chaos is not None and self.chaos.random.random() < 0.5
        if before:
            self._maybe_raise(method)
        result = await call()
        await self._yield()
        if not before:
            self._maybe_raise(method)
        return result

    async def _arrive(self, method: str) -> None:
        self.calls[method] += 1
        gates = self.gates.get(method)
        if gates:
            await gates.popleft().passing()
        errors = self.errors.get(method)
        error = errors.popleft() if errors else None
        if error is not None:
            raise error
        await self._land_due()
        await self._yield()

    async def _land_due(self) -> None:
        due = [commit for left, commit in self._late if left <= 1]
        self._late = [(left - 1, commit) for left, commit in self._late if left > 1]
        for commit in due:
            await self._execute(commit)

    async def _yield(self) -> None:
        if self.chaos is not None:
            for _ in range(self.chaos.random.randint(0, self.chaos.most_yields)):
                await asyncio.sleep(0)

    def _maybe_raise(self, method: str) -> None:
        if self.chaos is not None and method != "prepare" and self.chaos.random.random() < self.chaos.reads:
            raise StoreDown(f"{method} failed")
