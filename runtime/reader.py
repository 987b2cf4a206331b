"""Reading the log of one conversation beyond its view."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Self

from diarist.runtime.errors import NotFoundError
from diarist.runtime.ids import Key
from diarist.runtime.log import Record, decode_record
from diarist.runtime.messages import AssistantMessage
from diarist.runtime.repository import Done, Repository, StoredRecord
from diarist.runtime.state import view_of
from diarist.runtime.views import EMPTY_VIEW, Range, RecordIndex, Run, ViewState

PAGE = 256
"""Records in one read."""
LAST = 2**62
"""Above every version."""


class Records:
    """`async for record in records`. No generator, so that a loop that is left early leaves nothing to close."""

    def __init__(self, repository: Repository, key: Key, low: int, high: int, backwards: bool) -> None:
        self._repository = repository
        self._key = key
        self._low = low
        self._high = high
        self._backwards = backwards
        self._page: deque[StoredRecord] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        if not self._page:
            await self._read()
        if not self._page:
            raise StopAsyncIteration
        item = self._page.popleft()
        return decode_record(item.first, item.payload, item.at)

    async def _read(self) -> None:
        if self._low > self._high:
            return
        page = await self._repository.read(self._key, self._low, self._high, limit=PAGE, backwards=self._backwards)
        self._page.extend(page)
        if len(page) < PAGE:
            self._high = self._low - 1  # there is no more
        elif self._backwards:
            self._high = page[-1].first - 1
        else:
            self._low = page[-1].first + 1


class LogReader:
    """Decoded records of one conversation. What it reads for a view is noted in `index`."""

    def __init__(self, repository: Repository, key: Key, index: RecordIndex, born: int = 1) -> None:
        self._repository = repository
        self._key = key
        self._index = index
        self.born = born

    async def record_at(self, version: int) -> Record | None:
        """The record that holds the entry of that version."""
        found = await self._repository.read(self._key, self.born, version, limit=1, backwards=True)
        for item in found:
            if item.last >= version:
                return decode_record(item.first, item.payload, item.at)
        return None

    def records(self, low: int, high: int, *, backwards: bool = False) -> Records:
        """Records with `low` <= first version <= `high`, read page by page."""
        return Records(self._repository, self._key, low, high, backwards)

    async def done(self, keys: Sequence[str]) -> dict[str, Done]:
        """Which callers' keys are done."""
        return dict(await self._repository.operations(self._key, keys))

    async def view_at(self, version: int) -> ViewState:
        """The view that the entry of that version left; `NotFoundError` if it, or a message of it, is gone."""
        if version == 0:
            return EMPTY_VIEW
        record = await self.record_at(version) if version >= self.born else None
        if record is None:
            raise NotFoundError(f"the conversation has no version {version}")
        return await self._show(record.entries[version - record.first].view, version)

    async def _show(self, ranges: Sequence[Range], version: int) -> ViewState:
        found: dict[int, Record] = {}
        for part in ranges:
            async for record in self.records(part.first, part.last):
                if record.erased:
                    raise NotFoundError(f"messages of version {version} were erased")
                found[record.first] = record
        for record in found.values():
            self._index.add(record.first, record.position, record.count)
        return view_of(ranges, [found[first] for first in sorted(found)])

    async def last_answer(self, version: int, runs: Sequence[Run]) -> AssistantMessage | None:
        """The last assistant message at these positions, up to a version; None if there is none, or it was erased."""
        lowest = min(low for low, _ in runs)
        async for record in self.records(self.born, version, backwards=True):
            for place in range(len(record.messages) - 1, -1, -1):
                message, position = record.messages[place], record.position + place
                if isinstance(message, AssistantMessage) and any(low <= position < high for low, high in runs):
                    return message
            if record.position <= lowest:
                break
        return None

    async def find(self, message_id: str) -> int | None:
        """The version that brought the message of that id: the latest such, searched from the end."""
        async for record in self.records(self.born, LAST, backwards=True):
            places = [place for place, message in enumerate(record.messages) if message.id == message_id]
            if places:
                return version_of(record, places[-1])
        return None


def version_of(record: Record, place: int) -> int:
    """The version of the entry that brought message number `place` of the record."""
    end = 0
    for offset, entry in enumerate(record.entries):
        end += entry.count
        if place < end:
            return record.first + offset
    raise IndexError(place)
