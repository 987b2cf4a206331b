"""Purging: text that no view needs any more leaves the log, and numbers and callers' keys stay.

A purge has two steps. First it declares, in the head and by compare-and-set, up to which record all that is not in
view is gone (`Purged`). From then on nobody can bring that back into view: who tries finds the declaration. Only then
it erases, in small pieces, without a lock; so any process can do it, again, or finish what another began.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from diarist.runtime.errors import BackendError, DiaristError, NotFoundError
from diarist.runtime.guards import Life
from diarist.runtime.ids import Key
from diarist.runtime.log import Record, decode_record, erased_payload
from diarist.runtime.operations import Operation, Read
from diarist.runtime.repository import Listed
from diarist.runtime.retention import Retention
from diarist.runtime.state import State, decode_head
from diarist.runtime.upkeep import Purged, Span, outside, united
from diarist.runtime.views import RecordIndex, Run, ViewState

if TYPE_CHECKING:
    from diarist.runtime.draft import Draft
    from diarist.runtime.engine import Engine

logger = logging.getLogger("diarist.runtime")

PURGE_SECONDS: Final = 600.0
"""Between two rounds over all conversations."""
PAGE: Final = 64
"""Records in one read."""
STEP: Final = 256
"""Versions in one erasure."""
KNOWN: Final = 50_000
"""Conversations of which a process remembers that they need nothing."""


class MarkPurged(Operation[Purged | None]):
    """Declare gone what is not in view up to the record `upto`. None: the conversation is another one now.

    `finished`: the declaration of which nothing is left to erase.
    """

    __slots__ = ("finished", "life", "upto")
    upkeep = True

    def __init__(
        self, future: asyncio.Future[Purged | None], life: str | None, upto: int, finished: Purged | None
    ) -> None:
        super().__init__(future)
        self.life = life
        self.upto = upto
        self.finished = finished
        self.alone = True  # so that the index knows all that is in view

    def apply(self, draft: Draft) -> Purged | None:
        state = draft.state
        if state.life is None or state.life != self.life:
            return None
        before = state.facts.purged or Purged(state.facts.born - 1, state.facts.born - 1)
        upto = max(self.upto, before.upto)
        kept = _in_view(state.view, draft.index, upto)
        if (upto, kept) != (before.upto, before.kept):
            erased = before.upto if state.facts.purged in (None, self.finished) else before.erased
            dropped = outside(before.kept, kept)
            erased = min(erased, dropped[0][0] - 1) if dropped else erased
            draft.keep(self, "purge", purged=Purged(upto, erased, kept))
        return state.facts.purged


def _in_view(view: ViewState, index: RecordIndex, upto: int) -> tuple[Span, ...]:
    """The records up to `upto` of which anything is in view: they stay whole."""
    return united((part.first, min(part.last, upto)) for part in index.ranges(view.runs) if part.first <= upto)


def check_not_purged(state: State, index: RecordIndex, view: ViewState) -> None:
    """`NotFoundError` if a view needs a record that was declared gone, erased already or not."""
    purged = state.facts.purged
    if purged is None:
        return
    for low, high in outside(_in_view(view, index, purged.upto), purged.kept):
        if bisect_left(index.firsts, low) < bisect_right(index.firsts, high):
            raise NotFoundError("messages of that version were purged")


class _Idle(NamedTuple):
    """Nothing is to be done at this point, before that time (in seconds since the epoch)."""

    life: str
    version: int
    until: float


class Purger:
    """Purges one memory's conversations: in rounds by its own retention, and by hand."""

    def __init__(self, engine: Engine, retention: Retention) -> None:
        self._engine = engine
        self.retention = retention
        self._idle: OrderedDict[Key, _Idle] = OrderedDict()
        self._due: float | None = None
        self._running = False

    # Rounds

    def tick(self, now: float) -> None:
        """Start a round when it is time; `now` in monotonic seconds."""
        if self.retention.keeps_all or self._running:
            return
        if self._due is None:
            # Processes that start together don't purge together.
            self._due = now + PURGE_SECONDS * self._engine.environment.random.random()
        if now >= self._due:
            self._due = now + PURGE_SECONDS
            self._running = True
            self._engine.start(self._round())

    async def _round(self) -> None:
        try:
            await self.purge_all(None, self.retention)
        except DiaristError as error:
            if self._engine.guard.life is Life.OPEN:
                logger.warning("purging was cut short, the next round goes on: %s", error)
        finally:
            self._running = False

    async def purge_all(self, namespace: str | None, retention: Retention) -> int:
        """Purge all conversations, one after the other; returns how many records were emptied.

        One that fails does not keep the others from their turn; the first such error is raised at the end.
        """
        count, failed, cursor = 0, list[BackendError](), None
        while True:
            page = await self._engine.repository.conversations(namespace=namespace, after=cursor, limit=100)
            for item in page.items:
                if not self._is_idle(item, retention):
                    self._engine.guard.check()
                    try:
                        count += await self.purge(item.key, retention)
                    except BackendError as error:
                        failed.append(error)
            cursor = page.next
            if cursor is None:
                break
        if failed:
            raise failed[0]
        return count

    def _is_idle(self, item: Listed, retention: Retention) -> bool:
        """Whether the head alone tells that there is nothing to do."""
        now, state = self._engine.clock.time(), decode_head(item.head)
        if state.facts.purged is None and not retention.is_old(state.created, now):
            keep = retention.keep_out_of_view
            if keep is None or state.position <= keep:
                return True
        known = self._idle.get(item.key) if retention is self.retention else None
        return known is not None and known[:2] == item.head.point and now < known.until

    def _note_idle(self, key: Key, state: State, until: float) -> None:
        self._idle[key] = _Idle(state.life or "", state.version, until)
        self._idle.move_to_end(key)
        if len(self._idle) > KNOWN:
            self._idle.popitem(last=False)

    # One conversation

    async def purge(self, key: Key, retention: Retention) -> int:
        """Purge one conversation; returns how many records were emptied."""
        state = await self._post(Read(self._engine.future(), fresh=True), key)
        if not state.exists:
            return 0
        count = await self._erase(key, state.life, state.facts.purged)
        upto, until = await self._find(key, state, retention)
        marked = await self._post(MarkPurged(self._engine.future(), state.life, upto, state.facts.purged), key)
        if marked is not None and marked != state.facts.purged:
            count += await self._erase(key, state.life, marked)
            state = replace(state, version=state.version + 1)
        if retention is self.retention:
            self._note_idle(key, state, until)
        return count

    async def _post(self, operation: Operation[Any], key: Key) -> Any:
        self._engine.post(operation, key)
        return await self._engine.result(operation)

    async def _erase(self, key: Key, life: str | None, purged: Purged | None) -> int:
        """Empty what was declared gone, in small pieces."""
        repository, count = self._engine.repository, 0
        for low, high in purged.gone() if purged is not None else ():
            for start in range(low, high + 1, STEP):
                self._engine.guard.check()
                # After a pause of days these versions could be those of another life.
                point = (await repository.versions([key])).get(key)
                if point is None or point[0] != life:
                    return count
                count += await repository.erase(key, start, min(start + STEP - 1, high))
        return count

    async def _find(self, key: Key, state: State, retention: Retention) -> tuple[int, float]:
        """The last record that may go, and when to look again if nothing is written meanwhile."""
        now = self._engine.clock.time()
        end = retention.end(state.view.runs, state.position)
        upto = state.facts.purged.upto if state.facts.purged is not None else 0
        runs = sorted(state.view.runs)
        low = max(upto + 1, state.facts.born)
        while page := await self._page(key, low, state.version):
            for record in page:
                if record.position + record.count > end and not retention.is_old(record.at, now):
                    return upto, record.at + retention.max_age if retention.max_age is not None else float("inf")
                if record.count and not _shows(runs, record):
                    upto = record.first
            low = page[-1].first + 1
        return upto, float("inf")

    async def _page(self, key: Key, low: int, high: int) -> list[Record]:
        """Some records, without their messages."""
        if low > high:
            return []
        found = await self._engine.repository.read(key, low, high, limit=PAGE)
        return [decode_record(item.first, erased_payload(item.payload), item.at) for item in found]


def _shows(runs: list[Run], record: Record) -> bool:
    """Whether any message of the record is at one of the (ascending) runs."""
    low, high = record.position, record.position + record.count
    return any(start < high and low < end for start, end in runs)
