"""Finding records on FerretDB 1, which reads the whole collection for anything but `_id = …`.

There the last record is found by following the log: behind a record with last version n stands the one that begins
with n + 1. Where to start is remembered by this process, or else by a *tip*, a document that whoever walked far
leaves for the next one. A tip is only a hint: it names a record that was there once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pymongo.errors import PyMongoError

from diarist.backends.mongodb.documents import RECORD, Document, record_id, scope
from diarist.backends.mongodb.finding import Finder, Span, gathered
from diarist.runtime.ids import Key
from diarist.runtime.repository import Point

FAR: Final = 16
"""Steps after which a tip is left."""

TOO_FAR: Final = 256
"""Steps after which reading the whole collection is tried instead."""

FEW: Final = 64
"""Conversations that are looked up one by one."""


def is_needed(server: Mapping[str, Any]) -> bool:
    """Whether this server (`buildInfo`) finds only by `_id`."""
    return str(server.get("ferretdbVersion", "")).startswith("v1.")


class WalkingFinder(Finder):
    """By `_id` alone, one record after the other, wherever that can be done."""

    async def _last(self, key: Key, projection: Mapping[str, bool]) -> Document | None:
        seen = self._points.get(key)
        start = seen.first if seen is not None else await self._tip(key)
        found = await self._get(key, start, projection)
        if found is None and start > 1:
            found = await self._get(key, 1, projection)
        steps = 0
        while found is not None:
            following = await self._get(key, found["last"] + 1, projection)
            if following is None:
                break
            found, steps = following, steps + 1
            if steps == TOO_FAR:
                found = await super()._last(key, projection)
                break
        if found is not None and steps >= FAR:
            await self._leave_tip(key, found["first"])
        return found

    async def _get(self, key: Key, first: int, projection: Mapping[str, bool]) -> Document | None:
        return await self._store.get(record_id(key, first), projection)

    async def _tip(self, key: Key) -> int:
        tips = self._store.tips
        found = await self._store.call(lambda: tips.find_one({"_id": scope(key)}))
        return int(found["first"]) if found is not None else 1

    async def _leave_tip(self, key: Key, first: int) -> None:
        tips = self._store.tips
        change: Any = {"$set": {"first": first}}
        try:
            await self._store.raw(lambda: tips.update_one({"_id": scope(key)}, change, upsert=True))
        except PyMongoError:
            return  # it saves time, no more

    async def records(self, key: Key, low: int, high: int, limit: int = 0, backwards: bool = False) -> list[Document]:
        if backwards:
            found = await self._get(key, high, RECORD) if limit == 1 else None
            return [found] if found is not None else await super().records(key, low, high, limit, True)
        walked: list[Document] = []
        at = low
        while at <= high and len(walked) < (limit or TOO_FAR):
            found = await self._get(key, at, RECORD)
            if found is None:
                break
            walked.append(found)
            at = found["last"] + 1
        if at > high or len(walked) == limit:
            return walked
        return walked + await super().records(key, at, high, limit - len(walked) if limit else 0)

    async def spans(self, key: Key, spans: Sequence[Span]) -> list[Document]:
        parts = await gathered([self.records(key, low, high) for low, high in spans])
        return [document for part in parts for document in part]

    async def points(self, keys: Collection[Key]) -> Mapping[Key, Point]:
        wanted = list(dict.fromkeys(keys))
        if len(wanted) > FEW:
            return await super().points(wanted)
        return await self._each(wanted)
