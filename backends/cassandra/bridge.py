"""From the driver's thread to the event loop, without a thread per request."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

Row = dict[str, Any]
Rows = Sequence[Row]
Answer = asyncio.Future[Rows]

_TURN_SECONDS: Final = 0.005
"""How long to go on sending in one turn of the loop, which has other work too. A request takes some 0.1 ms, but also
5 ms where it meets the driver's thread at a lock and has to win the interpreter back."""


_LARGE: Final = 1 << 17
"""Bytes from which on a statement is encoded and sent in a worker thread: 4 MiB take some 50 ms."""


class Bridge:
    """Sends statements with `execute_async` and delivers what comes back.

    The driver calls back in its own thread. There, an answer only joins a queue; the first one of a queue wakes the
    loop, and one wake-up delivers all. Callers may be cancelled: their answers are dropped when they come.
    """

    def __init__(self, session: Any, timeout: float, max_in_flight: int, profile: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._session = session
        self._options: dict[str, Any] = {"timeout": timeout} | ({"execution_profile": profile} if profile else {})
        self._max = max_in_flight
        self._waiting: deque[tuple[Callable[[], Any], int, Answer]] = deque()
        self._answers: deque[tuple[Answer, Any, BaseException | None]] = deque()
        self._awake = False
        self._pumping = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.in_flight = 0

    def request(self, statement: Callable[[], Any], size: int = 0) -> Answer:
        """The answer to a statement, which is made (bound to its values) when its turn to be sent has come. `size`:
        about how many bytes it has, where that may be many."""
        answer: Answer = self._loop.create_future()
        self._waiting.append((statement, size, answer))
        self._pump_soon()
        return answer

    async def idle(self) -> None:
        """Returns when nothing is in flight or waiting: within the time-out of a request."""
        while self.in_flight or self._waiting:
            await self._idle.wait()

    def _pump_soon(self) -> None:
        if self._waiting and not self._pumping:
            self._pumping = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        until = time.perf_counter() + _TURN_SECONDS
        while self._waiting and self.in_flight < self._max:
            statement, size, answer = self._waiting.popleft()
            if answer.done():
                continue
            self.in_flight += 1
            self._idle.clear()
            if size < _LARGE:
                self._send(statement, answer)
            else:
                self._loop.run_in_executor(None, self._send, statement, answer)
            if time.perf_counter() > until:
                self._pump_soon()
                return

    def _send(self, statement: Callable[[], Any], answer: Answer) -> None:
        try:
            response = self._session.execute_async(statement(), **self._options)
        except Exception as error:
            self._failed(error, answer)
            return
        response.add_callbacks(self._answered, self._failed, callback_args=(answer,), errback_args=(answer,))

    def _answered(self, rows: Any, answer: Answer) -> None:
        """In the driver's thread."""
        self._answers.append((answer, rows, None))
        self._wake()

    def _failed(self, error: BaseException, answer: Answer) -> None:
        """In the driver's thread, or where nothing could be sent."""
        self._answers.append((answer, None, error))
        self._wake()

    def _wake(self) -> None:
        if self._awake:
            return
        self._awake = True
        try:
            self._loop.call_soon_threadsafe(self._drain)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            self._answers.clear()

    def _drain(self) -> None:
        # Before looking: what joins the queue after the last look finds the flag down and wakes us again.
        self._awake = False
        while self._answers:
            self._deliver(*self._answers.popleft())
        self._pump_soon()

    def _deliver(self, answer: Answer, rows: Any, error: BaseException | None) -> None:
        self.in_flight -= 1
        if not self.in_flight:
            self._idle.set()
        if answer.done():
            return
        if error is None:
            answer.set_result(_dicts(rows))
        else:
            answer.set_exception(error)


def _dicts(rows: Any) -> Rows:
    """Rows by column name. A user's session without execution profiles may give named tuples."""
    if not rows or isinstance(rows[0], dict):
        return rows or ()
    return [row._asdict() for row in rows]


def applied(row: Row) -> bool:
    """Whether a conditional statement was executed, out of its answer's first row."""
    return bool(row["[applied]"] if "[applied]" in row else row["applied"])
