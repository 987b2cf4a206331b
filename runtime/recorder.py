"""Recording a stream: each chunk goes through unchanged and at once, and is aggregated beside."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from diarist.runtime.aggregates import Aggregate
from diarist.runtime.interruptible import Interruptible
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
            await turn.recorded(self)
            raise
        except Exception as error:
            if turn.interruption.error is None:
                self._error = error
                self.exhausted = True
            raise
        self._aggregate.add(chunk)
        return chunk

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
        return message if _says_something(message) else None


def _says_something(message: AssistantMessage) -> bool:
    return bool(message.text or message.tool_calls or message.reasoning or message.refusal or message.parts)


async def close_stream(iterator: Any, stream: Any) -> None:
    """Close an upstream, whatever it calls that."""
    for owner in (iterator, stream):
        close = getattr(owner, "aclose", None) or getattr(owner, "close", None)
        if close is not None:
            result = close()
            if hasattr(result, "__await__"):
                await result
            return
