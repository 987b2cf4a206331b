"""Removing conversations whose tombstone expired, so that nobody can write into what goes.

An insert fences only while the numbers are there, and a server without transactions removes them one by one. So a
*grave* is dug first: an insert at the number behind the tombstone, where a new life would begin. Whoever is first
wins. Under a grave the conversation does not exist for readers, its next number is taken, and number 1 is taken by
its old first record, which becomes a grave itself; then everything between goes, the tombstone last, then the first
grave, then number 1. Only now can the conversation begin anew. Every step can be repeated, by several sweepers at
once: what is removed is named by `_id` and life, from a list that was read while the grave stood, when there was no
new life yet. A grave without its tombstone, dug by a sweeper that came too late, is no grave (`Finder.stands`).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from pymongo.errors import DuplicateKeyError

from diarist.backends.mongodb.documents import POINT, Document, key_of, record_id, whole
from diarist.backends.mongodb.driver import PAGE, Store
from diarist.backends.mongodb.erasing import GRAVE_DUE, Eraser
from diarist.backends.mongodb.finding import Finder
from diarist.runtime.errors import BackendError
from diarist.runtime.ids import Key


class Undertaker:
    """Sweeps: finishes erasures, and removes what expired."""

    def __init__(self, store: Store, finder: Finder, eraser: Eraser) -> None:
        self._store = store
        self._finder = finder
        self._eraser = eraser

    async def sweep(self, now: float, limit: int) -> int:
        """`Repository.sweep`."""
        fields = {**POINT, "due": True}
        found = await self._store.find({"due": {"$lte": now}}, fields, sort=[("due", 1)], limit=limit)
        for item in found:
            key = key_of(item["_id"])
            if "grave" in item:
                await self.finish(key)
            elif await self._store.get(item["_id"], fields) != item:
                continue  # another sweeper was faster
            elif item["due"] == 0:
                await self._eraser.erase(key, 1, item["first"] - 1)
            else:
                await self._bury(key, item)
        return len(found)

    async def _bury(self, key: Key, tombstone: Document) -> None:
        """Dig a grave behind a tombstone, unless the conversation went on."""
        number = tombstone["last"] + 1
        grave = {
            "_id": record_id(key, number),
            "life": tombstone["life"],
            "first": number,
            "last": number,
            "grave": secrets.token_hex(8),
            "due": GRAVE_DUE,
        }
        try:
            await self._store.call(lambda: self._store.log.insert_one(grave), "unknown")
        except BackendError as error:
            if not isinstance(error.__cause__, DuplicateKeyError):
                raise
            if await self._finder.grave(key) is None:
                await self._eraser.set_due(tombstone["_id"], tombstone["due"], None)
                return
        await self.finish(key)

    async def finish(self, key: Key) -> None:
        """Remove a conversation that ends in a grave. Nothing happens if it doesn't."""
        grave = await self._finder.grave(key)
        if grave is None:
            return
        found = await self._store.find({"_id": whole(key)}, POINT, sort=[("_id", 1)])
        if await self._finder.grave(key) != grave:
            return  # somebody else was faster, and the list may be of the next conversation
        first = record_id(key, 1)
        beginning = [item for item in found if item["_id"] == first]
        between = [item for item in found if item["_id"] not in (first, grave["_id"])]
        for item in beginning:
            await self._mark(item)
        for part in (between[:-1], between[-1:], [grave], beginning):
            await self._remove(part)

    async def _mark(self, item: Document) -> None:
        """Make a grave of a conversation's first record."""
        filter = {"_id": item["_id"], "life": item["life"], "grave": {"$exists": False}}
        change = {"$set": {"grave": secrets.token_hex(8), "due": GRAVE_DUE}}
        await self._store.call(lambda: self._store.log.update_one(filter, change), "unknown")

    async def _remove(self, items: Sequence[Document]) -> None:
        for start in range(0, len(items), PAGE):
            await self._remove_page(items[start : start + PAGE])

    async def _remove_page(self, items: Sequence[Document]) -> None:
        filter: dict[str, Any] = {
            "_id": {"$in": [item["_id"] for item in items]},
            "life": {"$in": sorted({item["life"] for item in items})},
        }
        await self._store.call(lambda: self._store.log.delete_many(filter), "unknown")
