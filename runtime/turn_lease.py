"""How a turn gets its place before the others: in this process that is enough, across processes by a lease.

The lease stands in the conversation's head, so every store has it, and each change of it is a compare-and-set. Time
only decides when to try: what a turn stores without its lease is refused, however late it comes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from diarist.runtime.clock import TimerHandle
from diarist.runtime.errors import DiaristError, NotExecutedError, Outcome, OutcomeName, mark_outcome
from diarist.runtime.ids import Key
from diarist.runtime.lease_entries import Beat, Beaten, Release, Take
from diarist.runtime.operations import Operation, Read
from diarist.runtime.options import Overlap, TurnSettings
from diarist.runtime.results import Receipt
from diarist.runtime.turn_entries import Start, Started, TurnEntry
from diarist.runtime.upkeep import Lease

if TYPE_CHECKING:
    from diarist.runtime.engine import Engine

logger = logging.getLogger("diarist.runtime")

RENEWALS: Final = 3
"""Renewals in the time of a lease: two may fail."""
WATCH_SECONDS: Final = 1.0
"""How often a holder looks whether another turn asks it to end, at least: a look, not a write."""
GRACE: Final = 3
"""Looks of the holder for which a turn that interrupts it waits, before it takes the lease by force."""
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.25
"""Seconds between a waiting turn's looks at the lease: doubled each time, jittered."""

LOST: Final = "the turn's lease ran out, or was taken over by a turn in another process"


class Place(Protocol):
    """A turn's place before the other turns of its conversation."""

    lost: bool

    @property
    def outcome(self) -> OutcomeName | None:
        """Of the error that an interruption ends in; None: the usual."""
        ...

    async def start(self, end: float, **common: Any) -> Started:
        """Read the conversation and take the place, by the monotonic time `end`."""
        ...

    def stamp(self, entry: TurnEntry, last: bool) -> None:
        """Let an entry of the turn be stored only while it has its place; the `last` one gives it back."""
        ...

    def leave(self) -> None:
        """The turn is over. Can be repeated."""
        ...


class Runner(Protocol):
    """What a place needs of its turn."""

    settings: TurnSettings

    def check_running(self) -> None: ...
    def end(self, reason: str) -> bool: ...


def place_of(engine: Engine, key: Key, turn: Runner) -> Place:
    """The place that a turn's `serialize` asks for."""
    kind = LeasedPlace if turn.settings.serialize == "store" else LocalPlace
    return kind(engine, key, turn)


class LocalPlace:
    """`serialize="process"`: the turns of this process wait for each other, and that is all."""

    def __init__(self, engine: Engine, key: Key, turn: Runner) -> None:
        self._engine = engine
        self._key = key
        self._turn_key = turn.settings.idempotency_key
        self.lost = False

    outcome: OutcomeName | None = None

    async def start(self, end: float, **common: Any) -> Started:
        engine = self._engine
        start = Start(engine.future(), self._turn_key, **common)
        engine.post(start, self._key, max(end - engine.clock.monotonic(), 0.0))
        return await engine.result(start)

    def stamp(self, entry: TurnEntry, last: bool) -> None:
        pass

    def leave(self) -> None:
        pass


class LeasedPlace:
    """`serialize="store"`: a lease, renewed until the turn is over."""

    def __init__(self, engine: Engine, key: Key, turn: Runner) -> None:
        self._engine = engine
        self._key = key
        self._turn = turn
        self.holder = engine.new_id()
        self.seconds = engine.limits.lease_seconds
        self.lost = False
        """It is another's now: nothing of the turn can be stored any more."""
        self._in_state = False
        """The head may name this turn: as the holder, or as the next."""
        self._asked: tuple[str, float] | None = None
        """The holder whom this turn asked to end, and when."""
        self._renewed = 0.0
        self._timer: TimerHandle | None = None
        self._last: TurnEntry | None = None
        self._left = False

    @property
    def overlap(self) -> Overlap:
        return self._turn.settings.overlap

    @property
    def outcome(self) -> OutcomeName | None:
        return "not_executed" if self.lost else None

    # Taking

    async def start(self, end: float, **common: Any) -> Started:
        engine = self._engine
        while True:
            self._renewed = engine.clock.monotonic()
            started = await self._try(end, common)
            if started.held is None:
                break
            await self._wait(started.held, end)
        engine.sightings.forget(self._key)
        if started.done is None and not self._left:
            self._arm()
        return started

    async def _try(self, end: float, common: dict[str, Any]) -> Started:
        engine, turn_key = self._engine, self._turn.settings.idempotency_key
        self._turn.check_running()
        take = Take(engine.future(), turn_key, self, **common)
        engine.post(take, self._key, max(end - self._renewed, 0.0))
        before, self._in_state = self._in_state, True
        try:
            started = await engine.result(take)
        except asyncio.CancelledError as error:
            mark_outcome(error, Outcome("not_executed", turn_key))
            raise
        except DiaristError as error:
            self._in_state = before or isinstance(error, NotExecutedError)
            raise
        held = started.held
        self._in_state = started.done is None and (held is None or self.holder == held.next)
        if held is not None and self.holder == held.next and held.ends and self._asked is None:
            self._asked = (held.holder, engine.clock.monotonic())
        return started

    def may_take(self, lease: Lease) -> bool:
        return self._due(lease) <= 0

    def asks(self, lease: Lease) -> bool:
        return self.overlap == "interrupt" and self._asked is None

    def _due(self, lease: Lease) -> float:
        """Seconds until the lease may be taken over, if nothing happens to it."""
        due = lease.seconds - self._engine.sightings.age(self._key, lease)
        if self._asked is not None and self._asked[0] == lease.holder:
            grace = GRACE * _watch(lease.seconds)
            due = min(due, self._asked[1] + grace - self._engine.clock.monotonic())
        return due

    async def _wait(self, held: Lease, end: float) -> None:
        """Until the lease is free, another's, or due, or nobody is next."""
        engine, pause = self._engine, FIRST_PAUSE
        while True:
            self._turn.check_running()
            left, due = end - engine.clock.monotonic(), self._due(held)
            if left <= 0:
                raise NotExecutedError(
                    "the deadline passed while a turn in another process was running",
                    idempotency_key=self._turn.settings.idempotency_key,
                )
            if due <= 0:
                return
            await engine.pause(min(pause * (0.5 + engine.environment.random.random()), due, left))
            pause = min(2 * pause, LONGEST_PAUSE)
            self._turn.check_running()
            lease = await self._look(end)
            if lease is None or lease.holder != held.holder or lease.next is None:
                return
            held = lease

    async def _look(self, end: float) -> Lease | None:
        engine = self._engine
        read = Read(engine.future(), fresh=True)
        engine.post(read, self._key, max(end - engine.clock.monotonic(), 0.0))
        return (await engine.result(read)).facts.lease

    # Holding

    def _arm(self) -> None:
        self._timer = self._engine.clock.call_later(_watch(self.seconds), self._beat)

    def _beat(self) -> None:
        self._timer = None
        engine, now = self._engine, self._engine.clock.monotonic()
        beat = Beat(engine.future(), self.holder, now - self._renewed >= self.seconds / RENEWALS)
        self._post(beat, partial(self._beaten, beat.renew, now), self.seconds)

    def _beaten(self, renewed: bool, at: float, future: asyncio.Future[Beaten]) -> None:
        failed = future.cancelled() or future.exception() is not None
        if self._left:
            return
        result = None if failed else future.result()
        if result == "lost":
            self.lost = True
            self._turn.end(LOST)
        elif result == "wanted":
            self._turn.end("a turn in another process interrupted this one")
        else:
            if result is not None and renewed:
                self._renewed = at
            self._arm()

    # Giving back

    def stamp(self, entry: TurnEntry, last: bool) -> None:
        entry.holder = self.holder
        if last:
            entry.releases = True
            self._last = entry

    def leave(self) -> None:
        if self._left:
            return
        self._left = True
        if self._timer is not None:
            self._timer.cancel()
        if self.lost or not self._in_state:
            return
        if self._last is not None:
            self._last.future.add_done_callback(self._closed)
        else:
            self._release()

    def _closed(self, future: asyncio.Future[Receipt]) -> None:
        """The turn's last entry should have given it back. If it could not be stored, this is tried alone."""
        assert self._last is not None
        if future.cancelled() or future.exception() is not None or not self._last.released:
            self._release()

    def _release(self) -> None:
        # If that fails too, the lease runs out.
        self._post(Release(self._engine.future(), self.holder), _retrieve, None)

    def _post(
        self, operation: Operation[Any], then: Callable[[asyncio.Future[Any]], None], timeout: float | None
    ) -> None:
        operation.future.add_done_callback(then)
        try:
            self._engine.post(operation, self._key, timeout)
        except DiaristError as error:
            operation.future.set_exception(error)


def _watch(seconds: float) -> float:
    """Between two looks of a holder at its lease."""
    return min(WATCH_SECONDS, seconds / RENEWALS)


def _retrieve(future: asyncio.Future[Any]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        logger.info("a lease was not released, and will run out: %s", error)
