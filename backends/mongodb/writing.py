"""Appending: the commits of one tick as one unordered insert, outcomes by index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from bson.raw_bson import RawBSONDocument
from pymongo.errors import BulkWriteError, PyMongoError

from diarist.backends.mongodb.burying import Undertaker
from diarist.backends.mongodb.documents import encode, record_id
from diarist.backends.mongodb.driver import Store
from diarist.backends.mongodb.errors import DUPLICATE, backend_error, not_executed, refusal
from diarist.backends.mongodb.finding import Finder
from diarist.backends.mongodb.points import Points
from diarist.runtime.errors import BackendError, ClosedError, DiaristError, InvalidMessageError
from diarist.runtime.repository import (
    COMMITTED,
    Commit,
    CommitOutcome,
    Committed,
    Conflict,
    Failed,
    Rejected,
    Settle,
    Unknown,
)

CONFLICT: Final = Conflict(None)


class Item(NamedTuple):
    """A commit with its place in the batch, and its document."""

    place: int
    commit: Commit
    raw: bytes


class Writer:
    """The committing half of a repository."""

    def __init__(
        self, store: Store, finder: Finder, points: Points, undertaker: Undertaker, max_record_bytes: int
    ) -> None:
        self._store = store
        self._finder = finder
        self._points = points
        self._undertaker = undertaker
        self._max = max_record_bytes

    async def commit(self, commits: Sequence[Commit], settle: Settle) -> None:
        """`Repository.commit`. One insert for all whose point was seen lately; for the others a look first."""
        ready: list[Item] = []
        doubtful: list[Item] = []
        for index, commit in enumerate(commits):
            try:
                item = Item(index, commit, self._encode(commit))
            except InvalidMessageError as error:
                settle(index, Rejected(error))
                continue
            (ready if self._points.vouches(commit) else doubtful).append(item)
        await self._insert(ready, settle)
        if doubtful:
            await self._insert(await self._compared(doubtful, settle), settle)

    def _encode(self, commit: Commit) -> bytes:
        size = len(commit.record.payload)
        if size > self._max:
            raise InvalidMessageError(f"the record has {size} bytes; this store takes {self._max} in one record")
        return encode(commit)

    async def _compared(self, items: Sequence[Item], settle: Settle) -> list[Item]:
        """Those whose conversation stands where they expect it."""
        try:
            points = await self._finder.points([item.commit.key for item in items])
        except DiaristError as error:
            for item in items:
                settle(item.place, Failed(error))
            return []
        fit: list[Item] = []
        for item in items:
            actual = points.get(item.commit.key)
            if actual == item.commit.expected:
                fit.append(item)
            else:
                settle(item.place, Conflict(actual))
        return fit

    async def _insert(self, items: Sequence[Item], settle: Settle) -> None:
        if not items:
            return
        at = self._points.now()
        failures: Mapping[int, CommitOutcome] = {}
        every: CommitOutcome = COMMITTED
        documents = [RawBSONDocument(item.raw) for item in items]
        try:
            await self._store.raw(lambda: self._store.log.insert_many(documents, ordered=False))
        except BulkWriteError as error:
            every, failures = self._outcomes(error.details or {})
        except ClosedError as error:
            every = Failed(error)
        except PyMongoError as error:
            every = self._outcome(error)
        for number, item in enumerate(items):
            outcome = failures.get(number, every)
            if isinstance(outcome, Committed | Conflict) and _is_over(item.commit):
                outcome = await self._over(item, outcome)
            if isinstance(outcome, Committed):
                record, head = item.commit.record, item.commit.head
                self._points.note(item.commit.key, head.life, record.last, record.first, at)
            elif isinstance(outcome, Conflict) and item.commit.expected is None:
                await self._make_way(item)
            settle(item.place, outcome)

    async def _over(self, item: Item, outcome: CommitOutcome) -> CommitOutcome:
        """Of a new life over a tombstone: was the tombstone still there, if it is ours that stands behind it?"""
        key, record, head = item.commit.key, item.commit.record, item.commit.head
        assert item.commit.expected is not None
        ours = {"_id": record_id(key, record.first), "first": record.first}
        ours |= {"life": head.life, "over": item.commit.expected[0]}
        try:
            return outcome if await self._finder.stands(key, ours) else CONFLICT
        except DiaristError as error:
            return Unknown(error)

    def _outcome(self, error: PyMongoError) -> CommitOutcome:
        """Of a whole insert that failed."""
        certain = not_executed(error, self._store.retries)
        mapped = backend_error(error, self._store.where, "not_executed" if certain else "unknown")
        return Failed(mapped) if certain else Unknown(mapped)

    def _outcomes(self, details: Mapping[str, Any]) -> tuple[CommitOutcome, Mapping[int, CommitOutcome]]:
        """What became of those that the server does not mention, and of those that it does.

        Where a majority did not confirm in time, neither what was written nor what stood in the way is certain to
        stay. Where it did, it also has the record that stood in the way: the server waits for both.
        """
        lagging = details.get("writeConcernErrors") or ()
        if not lagging:
            return COMMITTED, {item["index"]: self._refused(item) for item in details.get("writeErrors", ())}
        text = f"the store {self._store.where} could not confirm a write: {lagging[0].get('errmsg')}"
        unknown = Unknown(BackendError(text, outcome="unknown"))
        failures = {item["index"]: self._refused(item) for item in details.get("writeErrors", ())}
        return unknown, {place: out for place, out in failures.items() if not isinstance(out, Conflict)}

    def _refused(self, failure: Mapping[str, Any]) -> CommitOutcome:
        if failure.get("code") == DUPLICATE:
            return CONFLICT
        error = refusal(failure, self._store.where)
        if isinstance(error, InvalidMessageError):
            return Rejected(error)
        return Unknown(error) if error.outcome == "unknown" else Failed(error)

    async def _make_way(self, item: Item) -> None:
        """A conversation could not begin: maybe the one before is being removed by a sweeper that died."""
        try:
            await self._undertaker.finish(item.commit.key)
        except BackendError:
            return  # then the sweeper of somebody else, or the next try, does it


def _is_over(commit: Commit) -> bool:
    return commit.expected is not None and commit.expected[0] != commit.head.life
