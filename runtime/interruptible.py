"""Awaiting something that can be interrupted from outside, without cancelling the task that awaits it.

A turn that is interrupted must end its recorder's pending step. That step runs in a foreign task (a request
handler), which must not be cancelled, and it must stay in that task: the streams of HTTP clients live in cancel
scopes that may not change tasks. So the awaitable is driven by hand, and an interruption does to it what
`Task.cancel` would do: it cancels the future that is waited for, or else throws at the next chance. The task
itself never learns of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Interruption:
    """Says whether a turn was interrupted, and reaches whatever waits in one of its `Interruptible`s."""

    __slots__ = ("error", "waiting")

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.waiting: set[Interruptible[Any]] = set()

    def fire(self, error: BaseException) -> None:
        """Interrupt: the pending step, and each later one, raises `error`."""
        self.error = error
        for step in self.waiting:
            step.cancel_waited()


class Interruptible(Generic[T]):
    """`await Interruptible(awaitable, interruption)` is `await awaitable`, until the interruption fires.

    Then the awaitable is cancelled, once, as if its task had been; when it has ended, the interruption's error is
    raised. A cancellation of the task itself comes through in any case.
    """

    __slots__ = ("_awaitable", "_interruption", "_told", "_waited")

    def __init__(self, awaitable: Awaitable[T], interruption: Interruption) -> None:
        self._awaitable = awaitable
        self._interruption = interruption
        self._waited: asyncio.Future[Any] | None = None
        self._told = False
        """Whether the awaitable got its cancellation."""

    def __await__(self) -> Generator[Any, Any, T]:
        interruption = self._interruption
        before = cancellations()
        interruption.waiting.add(self)
        try:
            result = yield from self._drive()
        except (Exception, asyncio.CancelledError) as error:
            foreign = isinstance(error, asyncio.CancelledError) and cancellations() > before
            if foreign or interruption.error is None:
                raise
            raise interruption.error from None
        finally:
            interruption.waiting.discard(self)
        if interruption.error is not None:
            raise interruption.error
        return result

    def cancel_waited(self) -> None:
        """Cancel what is waited for, if that can be: else the cancellation stays due."""
        if self._waited is not None and self._is_due():
            # One step may run inside another, and both wait for the same future: it is cancelled once.
            self._told = self._waited.cancel() or self._waited.cancelled()

    def _drive(self) -> Generator[Any, Any, T]:
        steps = self._awaitable.__await__()
        thrown: BaseException | None = None
        while True:
            try:
                waited = next(steps) if thrown is None else steps.throw(thrown)
            except StopIteration as stop:
                result: T = stop.value
                return result
            thrown = yield from self._wait(waited)

    def _wait(self, waited: Any) -> Generator[Any, Any, BaseException | None]:
        """Wait for what the awaitable yielded (None: only for the next round of the loop). Returns what to throw."""
        self._waited = waited
        self.cancel_waited()
        thrown: BaseException | None = None
        try:
            yield waited
        except BaseException as error:
            thrown = error
        self._waited = None
        if self._is_due() and (thrown is None or isinstance(thrown, Exception)):
            self._told = True
            return asyncio.CancelledError()
        return thrown

    def _is_due(self) -> bool:
        return self._interruption.error is not None and not self._told


def cancellations() -> int:
    """How often the running task was asked to end, and did not take it back yet."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0
