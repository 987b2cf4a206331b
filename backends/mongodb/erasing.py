"""Taking text out of records. Their numbers, operation ids and callers' keys stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pymongo import UpdateMany, UpdateOne

from diarist.backends.mongodb.documents import POINT, between, record_id, whole
from diarist.backends.mongodb.driver import Store
from diarist.backends.mongodb.finding import Finder
from diarist.runtime.ids import Key

_TEXT: Final = {"$unset": {"text": ""}, "$set": {"erased": True}}
_TEXT_AND_HEAD: Final = {"$unset": {"text": "", "state": "", "owner": ""}, "$set": {"erased": True}}
_HEAD: Final = {"$unset": {"state": "", "owner": ""}}
"""Every record has a copy of the head, title and metadata included; only the last one's counts."""

GRAVE_DUE: Final = 1.0
"""`due` of what is to be removed at once. 0 is an erasure that is not finished; neither is a time."""


class Eraser:
    """Erases on the server: no text travels, and no transaction is needed, for every step can be repeated."""

    def __init__(self, store: Store, finder: Finder) -> None:
        self._store = store
        self._finder = finder

    async def erase(self, key: Key, low: int, high: int) -> int:
        """`Repository.erase`."""
        last = await self._finder.last(key, POINT)
        if last is None or low > high:
            return 0
        before = between(key, low, min(high, last["first"] - 1))
        updates: list[Any] = [UpdateMany({"_id": before, "text": {"$exists": True}}, _TEXT_AND_HEAD)]
        if low <= last["first"] <= high:
            updates.append(UpdateOne({"_id": record_id(key, last["first"]), "text": {"$exists": True}}, _TEXT))
        count = await self._update(updates)
        await self._update([UpdateMany({"_id": before, "state": {"$exists": True}}, _HEAD)])
        await self._finished(key, low, high)
        return count

    async def _update(self, updates: list[Any]) -> int:
        result = await self._store.call(lambda: self._store.log.bulk_write(updates, ordered=True), "unknown")
        return int(result.modified_count)

    async def _finished(self, key: Key, low: int, high: int) -> None:
        """Tombstones before which no text is left now are due when they expire."""
        filter = {"_id": whole(key), "due": 0.0}
        for tombstone in await self._store.find(filter, {"first": True, "expires": True}):
            if low <= 1 and tombstone["first"] - 1 <= high:
                expires = tombstone.get("expires")
                await self.set_due(tombstone["_id"], 0.0, None if expires is None else max(expires, GRAVE_DUE))

    async def set_due(self, id: str, before: float, due: float | None) -> None:
        """When the sweeper has to look at a tombstone again; None: never."""
        change: Mapping[str, Any] = {"$unset": {"due": ""}} if due is None else {"$set": {"due": due}}
        await self._store.call(lambda: self._store.log.update_one({"_id": id, "due": before}, change), "unknown")
