"""Finding records: the last one of a conversation, a range, where many conversations stand."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from diarist.backends.mongodb.documents import HEAD, KEYED, POINT, RECORD, Document, between, key_of, record_id, whole
from diarist.backends.mongodb.driver import Store
from diarist.backends.mongodb.points import Points
from diarist.runtime.ids import Key
from diarist.runtime.repository import Point

T = TypeVar("T")

Span = tuple[int, int]
"""Lowest and highest first version, both inclusive."""

AT_ONCE: Final = 16
"""Calls in flight where each conversation needs one of its own."""


class Finder:
    """By ranges of `_id`: each question is one call, and its cost does not depend on the log's length."""

    def __init__(self, store: Store, points: Points) -> None:
        self._store = store
        self._points = points

    async def last(self, key: Key, projection: Mapping[str, bool] = HEAD) -> Document | None:
        """The last record of a conversation: its head. None: there is none, or it is being removed."""
        at = self._points.now()
        found = await self._standing(key, projection)
        return self._noted(key, found, at)

    async def _standing(self, key: Key, projection: Mapping[str, bool]) -> Document | None:
        """The last document of a conversation, graves included. One that stands on nothing is cleared away."""
        while True:
            found = await self._last(key, projection)
            if found is None or not ("over" in found or "grave" in found) or await self.stands(key, found):
                return found

    async def _last(self, key: Key, projection: Mapping[str, bool]) -> Document | None:
        found = await self._store.find({"_id": whole(key)}, projection, sort=[("_id", -1)], limit=1)
        return found[0] if found else None

    async def stands(self, key: Key, found: Document) -> bool:
        """Whether a new life, or a grave, has its tombstone before it; if not, it is taken out.

        The insert alone can't tell: when a tombstone and all before it were removed, the number behind it is free.
        But a tombstone that is there after the insert stays, because the number of its grave is taken. Under a grave
        it goes in the end; then the first record is a grave, and goes last.
        """
        first = found["first"]
        if first == 1:
            return True
        before = await self.records(key, 0, first - 1, 1, True)
        if before and before[0]["last"] == first - 1 and before[0]["life"] == found.get("over", found["life"]):
            return True
        if "grave" in found:
            beginning = await self._store.get(record_id(key, 1), POINT)
            if beginning is not None and "grave" in beginning:
                return True
        itself: dict[str, Any] = {name: found[name] for name in ("_id", "life", "grave") if name in found}
        await self._store.call(lambda: self._store.log.delete_many(itself), "unknown")
        return False

    def _noted(self, key: Key, found: Document | None, at: float) -> Document | None:
        if found is None or "grave" in found:
            self._points.forget(key)
            return None
        self._points.note(key, found["life"], found["last"], found["first"], at)
        return found

    async def grave(self, key: Key) -> Document | None:
        """The grave that ends a conversation, if there is one."""
        found = await self._standing(key, POINT)
        return found if found is not None and "grave" in found else None

    async def records(self, key: Key, low: int, high: int, limit: int = 0, backwards: bool = False) -> list[Document]:
        """Records of the log by first version, at most `limit` (0: all)."""
        order = [("_id", -1 if backwards else 1)]
        return await self._store.find({"_id": between(key, low, high)}, RECORD, sort=order, limit=limit)

    async def spans(self, key: Key, spans: Sequence[Span]) -> list[Document]:
        """All records in any of these spans, which ascend and don't overlap."""
        if len(spans) < 2:
            return await self.records(key, *spans[0]) if spans else []
        filter = {"$or": [{"_id": between(key, low, high)} for low, high in spans]}
        return await self._store.find(filter, RECORD, sort=[("_id", 1)])

    async def keyed(self, key: Key, ids: Sequence[str]) -> list[Document]:
        """Records that made at least one of these callers' keys (`keys.id`) done, ascending; maybe others too."""
        return await self._store.find({"keys.id": {"$in": ids}}, KEYED, sort=[("_id", 1)])

    async def points(self, keys: Collection[Key]) -> Mapping[Key, Point]:
        """Where conversations stand.

        One question for all: is the record still there that was the last one, is there one behind it, and do those
        that are not known begin at all? Only what moved, or is not known, is then asked for by itself.
        """
        at = self._points.now()
        wanted = dict.fromkeys(keys)
        seen = {key: point for key in wanted if (point := self._points.get(key))}
        ids = [record_id(key, point.first) for key, point in seen.items()]
        ids += [record_id(key, point.version + 1) for key, point in seen.items() if point.version < 2**63 - 1]
        ids += [record_id(key, 1) for key in wanted if key not in seen]
        there = await self._which(ids)
        found: dict[Key, Point] = {}
        moved: list[Key] = []
        for key, point in seen.items():
            if record_id(key, point.first) in there and record_id(key, point.version + 1) not in there:
                self._points.note(key, point.life, point.version, point.first, at)
                found[key] = (point.life, point.version)
            else:
                moved.append(key)
        moved += {key_of(id) for id in there} - seen.keys()
        return found | await self._each(moved)

    async def _which(self, ids: Sequence[str]) -> set[str]:
        """Which of these records there are. The index of `_id` alone answers it."""
        found = [
            await self._store.find({"_id": {"$in": ids[start : start + 2000]}}, {"_id": True})
            for start in range(0, len(ids), 2000)
        ]
        return {item["_id"] for items in found for item in items}

    async def _each(self, keys: Iterable[Key]) -> dict[Key, Point]:
        wanted = list(keys)
        found = await gathered([self.last(key, POINT) for key in wanted])
        return {
            key: (head["life"], head["last"]) for key, head in zip(wanted, found, strict=True) if head is not None
        }


async def gathered(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All results in order, a bounded number of calls in flight; the first failure ends it."""
    permits = asyncio.Semaphore(AT_ONCE)

    async def one(item: Coroutine[Any, Any, T]) -> T:
        async with permits:
            return await item

    tasks = [asyncio.ensure_future(one(item)) for item in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
