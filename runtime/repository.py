"""The port: what a store must do for the runtime.

A repository keeps, per conversation, a head and a log of records. It knows nothing of messages: payload and
state are bytes to it. Every method may be called from one event loop only, and concurrently.

What passes through the port is never changed by either side. `Head`, `StoredRecord` and `Commit` are made for
every commit, and are not frozen because a frozen dataclass takes three times as long to make.

Errors: `BackendError` for what the driver reports (its error as the cause), with the outcome that is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from diarist.runtime.errors import DiaristError
from diarist.runtime.ids import Key

Point = tuple[str, int]
"""(life, version): where a conversation stands. Both are compared together."""


@dataclass(slots=True)
class Head:
    """The plain columns of a conversation, and the runtime's opaque state.

    Times are seconds since the epoch. `deleted` marks a tombstone: it is not listed, and goes at `expires`.
    """

    life: str
    version: int
    owner: str | None
    created: float
    updated: float
    expires: float | None
    deleted: bool
    state: bytes

    @property
    def point(self) -> Point:
        return (self.life, self.version)


@dataclass(slots=True)
class StoredRecord:
    """One record as it is stored, under the version of its first entry. An erased one has only its header."""

    first: int
    last: int
    payload: bytes
    at: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A head and, ascending by first version, the records that its view names (`state.view_ranges`)."""

    head: Head
    records: Sequence[StoredRecord]


@dataclass(frozen=True, slots=True)
class Done:
    """What a caller's key stands for: the receipt of its operation, and a digest of what was asked."""

    version: int
    first: int
    count: int
    digest: str


@dataclass(slots=True)
class Commit:
    """One record to append and the head that results, if the conversation still stands at `expected`.

    `expected` None: there must be no head (a tombstone is one). `keys` are callers' keys that become done.
    `operations` are the ids of all entries, also found in the record's header.
    """

    key: Key
    expected: Point | None
    record: StoredRecord
    head: Head
    keys: Mapping[str, Done]
    operations: Sequence[str]


@dataclass(frozen=True, slots=True)
class Committed:
    """Durable, as durable as the store was told to be."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Not executed: the conversation stands at `actual` (None: there is none, or the store doesn't say)."""

    actual: Point | None


@dataclass(frozen=True, slots=True)
class Rejected:
    """Not executed, and this record is the reason; others of the batch were not touched by it."""

    error: DiaristError


@dataclass(frozen=True, slots=True)
class Failed:
    """Not executed, and the store is the reason (locked, full, unreachable before the write)."""

    error: DiaristError


@dataclass(frozen=True, slots=True)
class Unknown:
    """The write may have happened or may still happen. Nobody knows until a record stands at its version."""

    error: BaseException


CommitOutcome = Committed | Conflict | Rejected | Failed | Unknown
COMMITTED = Committed()


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can do, as data. The conformance suite tests each in both directions.

    `max_record_bytes`: of a payload, in bytes. `max_batch`: commits in one call. `batches`: calls of `commit` in
    flight at once. `durable`: what was committed survives the process, and every repository on the same store sees
    it; without, each repository has a store of its own.
    """

    name: str
    max_record_bytes: int
    max_batch: int
    batches: int
    durable: bool


@dataclass(frozen=True, slots=True)
class Listed:
    """A conversation in a listing."""

    key: Key
    head: Head


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of a listing, and the cursor that continues behind it (None: there is no more)."""

    items: Sequence[Listed]
    next: str | None


Settle = Callable[[int, CommitOutcome], None]
"""Called once per commit, with its index in the batch, as soon as its outcome is known."""


@runtime_checkable
class Repository(Protocol):
    """A store. See the module's docstring for what holds for all methods."""

    @property
    def capabilities(self) -> Capabilities: ...

    @classmethod
    def open(cls, url: str) -> Self:
        """A repository for a URL, which owns its connections. Nothing is connected yet. A URL that is not for this
        kind of store, or that it can't read, is a `BackendError`, not executed."""
        ...

    async def prepare(self) -> None:
        """Connect, and make or check the schema (`SchemaError`). A second call does nothing."""
        ...

    async def close(self) -> None:
        """Finish the commits that run, then let go of what this repository opened; not of a client that was lent to
        it. Can be repeated. Afterwards all calls but `close` fail as not executed (a store in memory may go on)."""
        ...

    async def load(self, key: Key) -> Snapshot | None:
        """The head, and the records in its view, as one state (never of two versions). None: no head."""
        ...

    async def commit(self, commits: Sequence[Commit], settle: Settle) -> None:
        """Append records of different conversations. Each is atomic on its own: its record, its head and its
        keys, or nothing. What was not settled on return, or when this raises, counts as unknown.

        A payload over `max_record_bytes` is `Rejected`. A key that is done already takes the new `Done`. When the
        caller is cancelled, `settle` is not called any more, but what began is still executed."""
        ...

    async def versions(self, keys: Collection[Key]) -> Mapping[Key, Point]:
        """Where the conversations stand: sees every commit that was acknowledged, by anyone, before the call."""
        ...

    async def operations(self, key: Key, ids: Collection[str]) -> Mapping[str, Done]:
        """Which of these callers' keys are done in this conversation. Survives clear, purge and a tombstone."""
        ...

    async def read(
        self, key: Key, low: int, high: int, *, limit: int, backwards: bool = False
    ) -> Sequence[StoredRecord]:
        """At most `limit` records with `low` <= first version <= `high`: ascending, or `backwards` from the end."""
        ...

    async def conversations(
        self, *, namespace: str | None = None, after: str | None = None, limit: int = 100
    ) -> ListPage:
        """Conversations that are not deleted, each once however many are written meanwhile."""
        ...

    async def erase(self, key: Key, low: int, high: int) -> int:
        """Take the text out of all records with `low` <= first version <= `high`; numbers, operation ids and
        callers' keys stay. Returns how many were erased now. Erasing twice is erasing once."""
        ...

    async def sweep(self, now: float, *, limit: int = 100) -> int:
        """Remove up to `limit` tombstones that expired before `now` (s), with all that belongs to them, and finish
        erasures that a crash cut short: all text up to a tombstone goes, also where the conversation was made anew
        over it meanwhile. Returns how many conversations it touched; 0: nothing left to do."""
        ...


__all__ = [
    "COMMITTED",
    "Capabilities",
    "Commit",
    "CommitOutcome",
    "Committed",
    "Conflict",
    "Done",
    "Failed",
    "Head",
    "ListPage",
    "Listed",
    "Point",
    "Rejected",
    "Repository",
    "Settle",
    "Snapshot",
    "StoredRecord",
    "Unknown",
]
