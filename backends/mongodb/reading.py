"""Loading, looking up and listing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from diarist.backends.cursors import decode_cursor, encode_cursor
from diarist.backends.mongodb.documents import (
    HEAD,
    Document,
    done_of,
    head_of,
    key_ids,
    key_of,
    namespace_range,
    record_of,
    scope,
)
from diarist.backends.mongodb.driver import Store
from diarist.backends.mongodb.finding import Finder, Span, gathered
from diarist.runtime.ids import Key
from diarist.runtime.repository import Done, Listed, ListPage, Point, Snapshot, StoredRecord
from diarist.runtime.state import view_ranges

_WHOLE: Final = {"keys": False}

_KEYS_AT_ONCE: Final = 1000

_TRIES: Final = 5
"""Loads of a conversation that is erased meanwhile, until what is found is given back as it is."""


class Reader:
    """The reading half of a repository."""

    def __init__(self, store: Store, finder: Finder) -> None:
        self._store = store
        self._finder = finder

    async def load(self, key: Key) -> Snapshot | None:
        """`Repository.load`. Records never change but for their text, so a head and the records that it names are
        one state, unless somebody erased between the two calls: then the head has moved, and it is done again."""
        for tries in range(_TRIES):
            last = await self._finder.last(key, _WHOLE)
            if last is None:
                return None
            found = await self._view(key, last)
            if tries + 1 < _TRIES and any("erased" in item for item in found) and await self._moved(key, last):
                continue
            return Snapshot(head_of(last), [record_of(item) for item in found])
        raise AssertionError("the last try returns")

    async def _moved(self, key: Key, last: Document) -> bool:
        points = await self._finder.points([key])
        return points.get(key) != (last["life"], last["last"])

    async def _view(self, key: Key, last: Document) -> list[Document]:
        """The records that the head names. The last record came with it and is not asked for again."""
        spans = [(part.first, part.last) for part in view_ranges(last.get("state", b""))]
        shown = any(low <= last["first"] <= high for low, high in spans)
        rest = [(low, min(high, last["first"] - 1)) for low, high in spans]
        found = await self._finder.spans(key, _merged(rest))
        return [*found, last] if shown else found

    async def operations(self, key: Key, ids: Collection[str]) -> Mapping[str, Done]:
        """`Repository.operations`. Of several records that made one key done, the later one counts."""
        wanted = list(dict.fromkeys(ids))
        found: dict[str, Done] = {}
        for start in range(0, len(wanted), _KEYS_AT_ONCE):
            part = wanted[start : start + _KEYS_AT_ONCE]
            chosen = set(part)
            for document in await self._finder.keyed(key, key_ids(key, part)):
                pairs = (done_of(key, item) for item in document["keys"])
                found.update({name: done for name, done in pairs if name in chosen})
        return found

    async def read(self, key: Key, low: int, high: int, limit: int, backwards: bool) -> Sequence[StoredRecord]:
        """`Repository.read`."""
        if low > high or limit < 1:
            return ()
        return [record_of(item) for item in await self._finder.records(key, low, high, limit, backwards)]

    async def points(self, keys: Collection[Key]) -> Mapping[Key, Point]:
        """`Repository.versions`."""
        return await self._finder.points(keys) if keys else {}

    async def conversations(self, namespace: str | None, after: str | None, limit: int) -> ListPage:
        """`Repository.conversations`: the records that begin one are in an index of their own, written with them.

        The head of each is then looked up in the log; who was deleted does not count for the page.
        """
        low, high = ("", None) if namespace is None else namespace_range(namespace)
        cursor = decode_cursor(after)
        if cursor is not None:
            low = max(low, scope(cursor))
        page: list[Listed] = []
        while len(page) <= limit:
            wanted = limit + 1 - len(page)
            begins: dict[str, Any] = {"$gt": low} if high is None else {"$gt": low, "$lt": high}
            found = await self._store.find({"begins": begins}, {"begins": True}, sort=[("begins", 1)], limit=wanted)
            keys = [key_of(item["begins"]) for item in found]
            heads = await gathered([self._finder.last(key, HEAD) for key in keys])
            for key, head in zip(keys, heads, strict=True):
                if head is not None and not head.get("deleted"):
                    page.append(Listed(key, head_of(head)))
            if len(found) < wanted:
                break
            low = found[-1]["begins"]
        more = len(page) > limit
        return ListPage(page[:limit], encode_cursor(page[limit - 1].key) if more else None)


def _merged(spans: Sequence[Span]) -> list[Span]:
    """The spans in ascending order, those that overlap or touch as one."""
    out: list[Span] = []
    for low, high in sorted(spans):
        if low > high:
            continue
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return out
