"""Pages of the log, by position."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from diarist.runtime.log import Record
from diarist.runtime.reader import LAST, LogReader
from diarist.runtime.results import HistoryItem, HistoryPage
from diarist.runtime.state import State


async def page_after(reader: LogReader, state: State, after: int, limit: int) -> HistoryPage:
    """Up to `limit` items at positions above `after` (-1: from the beginning)."""
    shown = _Shown(state)
    items: list[HistoryItem] = []
    start = await _record_with(reader, state, after + 1)
    async for record in reader.records(start, LAST):
        for item in _items(record, shown):
            if item.position > after:
                if len(items) == limit:
                    return HistoryPage(items, items[-1].position)
                items.append(item)
    return HistoryPage(items, None)


async def page_before(reader: LogReader, state: State, before: int, limit: int) -> HistoryPage:
    """The last `limit` items at positions below `before`, ascending."""
    shown = _Shown(state)
    items: list[HistoryItem] = []
    start = await _record_with(reader, state, min(before, state.position) - 1)
    async for record in reader.records(reader.born, start, backwards=True):
        for item in reversed(list(_items(record, shown))):
            if item.position < before:
                if len(items) == limit:
                    return HistoryPage(reversed(items), items[-1].position)
                items.append(item)
    return HistoryPage(reversed(items), None)


class _Shown:
    """Which positions are in view."""

    def __init__(self, state: State) -> None:
        self._runs = sorted(state.view.runs)
        self._starts = [low for low, _ in self._runs]

    def __contains__(self, position: int) -> bool:
        place = bisect_right(self._starts, position) - 1
        return place >= 0 and any(low <= position < high for low, high in self._runs[: place + 1])


def _items(record: Record, shown: _Shown) -> Iterable[HistoryItem]:
    if record.erased:
        return
    position, version = record.position, record.first
    place = 0
    for offset, entry in enumerate(record.entries):
        for message in record.messages[place : place + entry.count]:
            yield HistoryItem(version + offset, position, message, position in shown)
            position += 1
        place += entry.count


async def _record_with(reader: LogReader, state: State, position: int) -> int:
    """The first version of the record that holds `position`: versions and positions rise together, so halve."""
    low, high = reader.born, state.version
    if position < 0:
        return low
    while low < high:
        middle = (low + high + 1) // 2
        record = await reader.record_at(middle)
        if record is None or record.position > position:
            high = middle - 1
        else:
            low = record.first
            if position < record.position + record.count or record.last >= high:
                return low
            low = min(record.last + 1, high)
            following = await reader.record_at(low)
            if following is None or following.position > position:
                return record.first
    return low
