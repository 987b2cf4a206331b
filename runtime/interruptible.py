"""Awaiting something that can be interrupted from outside, without cancelling the task that awaits it.

A turn that is interrupted must end its recorder's pending step. That step runs in a foreign task (a request
handler), which must not be cancelled, and it must stay in that task: the streams of HTTP clients live in cancel
scopes that may not change tasks. So the awaitable is driven by hand, and what the task really waits for is a gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Interruption:
    """Says whether a turn was interrupted, and wakes whoever waits in one of its `Interruptible`s."""

    __slots__ = ("error", "gate")

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.gate: _Gate | None = None

    def fire(self, error: BaseException) -> None:
        """Interrupt: the pending step, and each later one, raises `error`."""
        self.error = error
        if self.gate is not None:
            self.gate.open(None)


class _Gate(asyncio.Future[None]):
    """Opens when the inner future is done, or by an interruption. Cancelling it cancels the inner future."""

    def __init__(self, inner: asyncio.Future[Any]) -> None:
        super().__init__(loop=inner.get_loop())
        self._inner = inner

    def open(self, _inner: object) -> None:
        if not self.done():
            self.set_result(None)

    def cancel(self, msg: Any | None = None) -> bool:
        return self._inner.cancel(msg)


class Interruptible(Generic[T]):
    """`await Interruptible(awaitable, interruption)` is `await awaitable`, until the interruption fires.

    Then what the awaitable waits for is cancelled, as if its task had been; when it has ended, the interruption's
    error is raised.
    """

    __slots__ = ("_awaitable", "_interruption")

    def __init__(self, awaitable: Awaitable[T], interruption: Interruption) -> None:
        self._awaitable = awaitable
        self._interruption = interruption

    def __await__(self) -> Generator[Any, Any, T]:
        interruption = self._interruption
        steps = self._awaitable.__await__()
        thrown: BaseException | None = None
        while True:
            try:
                waited = next(steps) if thrown is None else steps.throw(thrown)
            except StopIteration as stop:
                if interruption.error is not None:
                    raise interruption.error from None
                result: T = stop.value
                return result
            except BaseException:
                if interruption.error is not None:
                    raise interruption.error from None
                raise
            thrown = yield from self._wait(waited)

    def _wait(self, waited: Any) -> Generator[Any, Any, BaseException | None]:
        """Wait for what the awaitable yielded; returns what to throw into it, if anything."""
        try:
            if waited is None:
                yield None
            else:
                yield from self._pass_gate(waited)
        except BaseException as error:
            return error
        return None

    def _pass_gate(self, inner: asyncio.Future[Any]) -> Generator[Any, Any, None]:
        interruption = self._interruption
        inner._asyncio_future_blocking = False
        if interruption.error is None:
            interruption.gate = gate = _Gate(inner)
            inner.add_done_callback(gate.open)
            try:
                yield from gate
            finally:
                interruption.gate = None
                inner.remove_done_callback(gate.open)
            if interruption.error is None or inner.done():
                return
            if not inner.cancel():
                return
        last = _Gate(inner)
        inner.add_done_callback(last.open)
        yield from last
