"""Whole turns of one conversation, one after the other, in one process."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from diarist.runtime.errors import (
    NotExecutedError,
    Outcome,
    ReentrancyError,
    TurnRejectedError,
    mark_outcome,
)
from diarist.runtime.ids import Key
from diarist.runtime.slot import Slot

if TYPE_CHECKING:
    from diarist.runtime.engine import Engine
    from diarist.runtime.turn import Turn


PATIENCE = 16
"""Rounds of the loop in which a generator that was just abandoned, with a turn in it, can be closed."""


async def acquire(engine: Engine, key: Key, turn: Turn) -> None:
    """Wait until `turn` is the running one of its conversation.

    `ReentrancyError` if this task runs one already. It may only seem so: a generator that the task left with
    `break` is closed by the loop a moment later.
    """
    task = asyncio.current_task()
    for _ in range(PATIENCE):
        queue = _queue(engine, key)
        if queue.current is None or queue.current.task is not task:
            break
        await asyncio.sleep(0)
    else:
        raise ReentrancyError("this task runs a turn in the conversation already, and would wait for itself")
    turn.queue = queue
    await queue.acquire(turn)


def _queue(engine: Engine, key: Key) -> TurnQueue:
    slot = engine.registry.slot(key)
    if slot.turns is None:
        slot.turns = TurnQueue(engine, slot)
    return slot.turns


class TurnQueue:
    """The running turn of a slot, and those that wait. Keeps the slot live."""

    __slots__ = ("_engine", "_slot", "_waiting", "current")

    def __init__(self, engine: Engine, slot: Slot) -> None:
        self._engine = engine
        self._slot = slot
        self._waiting: deque[tuple[asyncio.Future[None], Turn]] = deque()
        self.current: Turn | None = None

    async def acquire(self, turn: Turn) -> None:
        """Wait until `turn` is the running one: by its overlap policy, at most its time-out."""
        running = self.current
        if running is None:
            self._start(turn)
            return
        if turn.settings.overlap == "reject":
            raise TurnRejectedError("another turn is running", idempotency_key=turn.settings.idempotency_key)
        ticket: asyncio.Future[None] = self._engine.future()
        if turn.settings.overlap == "interrupt":
            self._waiting.appendleft((ticket, turn))
            running.end("another turn interrupted this one")
        else:
            self._waiting.append((ticket, turn))
        await self._wait(ticket, turn)

    async def _wait(self, ticket: asyncio.Future[None], turn: Turn) -> None:
        engine, settings = self._engine, turn.settings
        timeout = engine.limits.timeout if settings.timeout is None else settings.timeout

        def expire() -> None:
            if not ticket.done():
                ticket.set_exception(
                    NotExecutedError(
                        "the deadline passed while another turn was running",
                        idempotency_key=settings.idempotency_key,
                    )
                )

        timer = engine.clock.call_later(timeout, expire)
        try:
            await ticket
        except asyncio.CancelledError as error:
            mark_outcome(error, Outcome("not_executed", settings.idempotency_key))
            if ticket.done() and not ticket.cancelled():
                ticket.exception()
            if self.current is turn:
                self.release(turn)
            raise
        finally:
            timer.cancel()
            self._tidy()

    def _start(self, turn: Turn) -> None:
        self.current = turn
        self._engine.turns += 1

    def release(self, turn: Turn) -> None:
        """The turn is over; the next one starts at once, so that nobody can slip in."""
        if self.current is not turn:
            return
        self.current = None
        self._engine.turns -= 1
        while self._waiting:
            ticket, following = self._waiting.popleft()
            if not ticket.done():
                self._start(following)
                ticket.set_result(None)
                break
        self._tidy()
        self._engine.notice()

    def refuse_waiting(self) -> None:
        """At the end of a drain: who still waits will not run."""
        while self._waiting:
            ticket, turn = self._waiting.popleft()
            if not ticket.done():
                ticket.set_exception(
                    NotExecutedError("the memory is closing", idempotency_key=turn.settings.idempotency_key)
                )

    async def interrupt(self) -> bool:
        """End the running turn; True when what its policy keeps of it is stored."""
        running = self.current
        if running is None or not running.end("the turn was interrupted"):
            return False
        await running.settled()
        return True

    def _tidy(self) -> None:
        if self.current is None and not any(not ticket.done() for ticket, _ in self._waiting):
            self._waiting.clear()
            if self._slot.turns is self:
                self._slot.turns = None
