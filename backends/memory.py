"""The in-memory store: public, real, and the first to pass the conformance suite. Lost with the process."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from diarist.backends.cursors import decode_cursor, encode_cursor
from diarist.runtime.errors import BackendError, InvalidMessageError
from diarist.runtime.ids import Key
from diarist.runtime.log import erased_payload
from diarist.runtime.repository import (
    COMMITTED,
    Capabilities,
    Commit,
    CommitOutcome,
    Conflict,
    Done,
    Head,
    Listed,
    ListPage,
    Point,
    Rejected,
    Settle,
    Snapshot,
    StoredRecord,
)
from diarist.runtime.state import view_ranges

_MAX_RECORD_BYTES = 64 << 20


@dataclass(slots=True)
class _Conversation:
    head: Head
    firsts: list[int] = field(default_factory=list[int])
    records: list[StoredRecord] = field(default_factory=list[StoredRecord])
    keys: dict[str, Done] = field(default_factory=dict[str, Done])
    erase_to: int = 0
    """Versions up to here were deleted; the sweeper sees to it that their text goes. 0: nothing to do."""

    def between(self, low: int, high: int) -> range:
        return range(bisect_left(self.firsts, low), bisect_right(self.firsts, high))


class MemoryRepository:
    """Conversations in a dict. Several memories of one process may share one repository."""

    def __init__(self) -> None:
        self._conversations: dict[Key, _Conversation] = {}

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            name="memory",
            max_record_bytes=_MAX_RECORD_BYTES,
            max_batch=1024,
            batches=1,
            durable=False,
        )

    @classmethod
    def open(cls, url: str = "memory://") -> Self:
        if not url.startswith("memory:"):
            raise BackendError(f"{url!r} is no memory URL", outcome="not_executed")
        return cls()

    async def prepare(self) -> None:
        """Nothing to connect."""

    async def close(self) -> None:
        """Nothing to close: the conversations stay for whoever holds this object."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def load(self, key: Key) -> Snapshot | None:
        found = self._conversations.get(key)
        if found is None:
            return None
        places = {place for part in view_ranges(found.head.state) for place in found.between(part.first, part.last)}
        return Snapshot(found.head, [found.records[place] for place in sorted(places)])

    async def commit(self, commits: Sequence[Commit], settle: Settle) -> None:
        for index, commit in enumerate(commits):
            settle(index, self._commit(commit))

    def _commit(self, commit: Commit) -> CommitOutcome:
        size = len(commit.record.payload)
        if size > _MAX_RECORD_BYTES:
            text = f"the record has {size} bytes; this store takes {_MAX_RECORD_BYTES} in one record"
            return Rejected(InvalidMessageError(text))
        found = self._conversations.get(commit.key)
        actual = found.head.point if found else None
        if actual != commit.expected:
            return Conflict(actual)
        if found is None:
            found = self._conversations[commit.key] = _Conversation(commit.head)
        found.head = commit.head
        found.firsts.append(commit.record.first)
        found.records.append(commit.record)
        found.keys.update(commit.keys)
        if commit.head.deleted:
            found.erase_to = commit.head.version
        return COMMITTED

    async def versions(self, keys: Collection[Key]) -> Mapping[Key, Point]:
        return {key: found.head.point for key in keys if (found := self._conversations.get(key))}

    async def operations(self, key: Key, ids: Collection[str]) -> Mapping[str, Done]:
        found = self._conversations.get(key)
        return {name: found.keys[name] for name in ids if name in found.keys} if found else {}

    async def read(
        self, key: Key, low: int, high: int, *, limit: int, backwards: bool = False
    ) -> Sequence[StoredRecord]:
        found = self._conversations.get(key)
        if found is None:
            return ()
        places = found.between(low, high)
        chosen = places[::-1][:limit] if backwards else places[:limit]
        return [found.records[place] for place in chosen]

    async def conversations(
        self, *, namespace: str | None = None, after: str | None = None, limit: int = 100
    ) -> ListPage:
        start = decode_cursor(after)
        keys = sorted(
            key
            for key, found in self._conversations.items()
            if not found.head.deleted
            and (namespace is None or key.namespace == namespace)
            and (start is None or key > start)
        )
        page = [Listed(key, self._conversations[key].head) for key in keys[:limit]]
        return ListPage(page, encode_cursor(page[-1].key) if len(keys) > limit else None)

    async def erase(self, key: Key, low: int, high: int) -> int:
        found = self._conversations.get(key)
        count = 0
        for place in found.between(low, high) if found else ():
            assert found is not None
            record = found.records[place]
            bare = erased_payload(record.payload)
            count += len(bare) < len(record.payload)
            found.records[place] = replace(record, payload=bare)
        return count

    async def sweep(self, now: float, *, limit: int = 100) -> int:
        touched = 0
        for key, found in list(self._conversations.items()):
            if touched >= limit:
                break
            if found.head.deleted and found.head.expires is not None and found.head.expires <= now:
                del self._conversations[key]
                touched += 1
            elif found.erase_to and await self.erase(key, 1, found.erase_to):
                touched += 1
            found.erase_to = 0
        return touched
