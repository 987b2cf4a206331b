"""Recording a stream: each chunk goes through unchanged and at once, and is aggregated beside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from diarist.runtime.aggregates import Aggregate
from diarist.runtime.decoding import DecodedAggregate
from diarist.runtime.interruptible import Interruptible, cancellations
from diarist.runtime.messages import AssistantMessage

if TYPE_CHECKING:
    from diarist.runtime.turn import Turn

C = TypeVar("C")


class Recorder(Generic[C]):
    """`async for chunk in recorder`. An object, not a generator: the turn owns the aggregate, and decides at its
    end what is stored, also when the loop was left early or this object is forgotten."""

    def __init__(self, turn: Turn, stream: AsyncIterable[C], aggregate: Aggregate) -> None:
        self._turn = turn
        self._stream = stream
        self._iterator: AsyncIterator[C] = stream.__aiter__()
        self._aggregate = aggregate
        self._error: BaseException | None = None
        self.exhausted = False
        """Whether the stream has ended by itself, or with an error of its own."""
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> C:
        turn = self._turn
        turn.check_running()
        if self.exhausted or self._closed:
            raise StopAsyncIteration
        try:
            chunk = await Interruptible(self._iterator.__anext__(), turn.interruption)
        except StopAsyncIteration:
            self.exhausted = True
            if isinstance(self._aggregate, DecodedAggregate):
                self._aggregate.close()
            await turn.recorded(self)
            raise
        except Exception as error:
            if turn.interruption.error is None:
                self.fail(error)
                self.exhausted = True
            raise
        self._aggregate.add(chunk)
        return chunk

    def fail(self, error: BaseException) -> None:
        """The answer ends with an error: the stream's own, or one of the body that reads it."""
        self._error = error

    async def aclose(self) -> None:
        """Stop early: closes the stream; what came so far is the turn's, as a cancelled answer."""
        if not self._closed:
            self._closed = True
            await close_stream(self._iterator, self._stream)

    def message(self) -> AssistantMessage | None:
        """What came so far as a message; None if that is nothing."""
        if self._error is not None:
            message = self._aggregate.message(error=self._error)
        else:
            message = self._aggregate.message(cancelled=not self.exhausted)
        return message if says_something(message) else None


class Silent:
    """The aggregate of a stream that is no answer by itself: a generator that calls the turn's `record` and `add`."""

    seen = skipped = 0

    def add(self, chunk: object) -> None:
        """Take no notice."""

    def message(
        self, *, cancelled: bool = False, error: BaseException | Mapping[str, Any] | None = None
    ) -> AssistantMessage:
        """Nothing."""
        return AssistantMessage("")

    def messages(
        self, *, cancelled: bool = False, error: BaseException | Mapping[str, Any] | None = None
    ) -> tuple[AssistantMessage, ...]:
        """Nothing."""
        return (self.message(),)


class Upstreams:
    """The streams of a turn that are not closed yet. `note` gets what one raises when it is closed: that has no
    other effect."""

    def __init__(self, note: Callable[[str, BaseException], None]) -> None:
        self._note = note
        self._recorders: list[Recorder[Any]] = []

    def add(self, recorder: Recorder[Any]) -> None:
        self._recorders.append(recorder)

    async def aclose(self) -> None:
        """Close all. A cancellation of the task comes through, and a later call goes on with the rest."""
        before = cancellations()
        while self._recorders:
            try:
                await self._recorders.pop().aclose()
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and cancellations() > before:
                    raise
                self._note("a model's stream could not be closed", error)


def says_something(message: AssistantMessage) -> bool:
    """Whether there is anything to keep of an answer."""
    return bool(message.text or message.tool_calls or message.reasoning or message.refusal or message.parts)


async def close_stream(iterator: Any, stream: Any) -> None:
    """Close an upstream, whatever it calls that.

    Both are closed: the SDKs' streams hand out a generator as their iterator, and closing that leaves the
    response open.
    """
    try:
        await _close(iterator)
    finally:
        if stream is not iterator:
            await _close(stream)


async def _close(owner: Any) -> None:
    close = getattr(owner, "aclose", None) or getattr(owner, "close", None)
    if close is not None:
        result = close()
        if hasattr(result, "__await__"):
            await result
