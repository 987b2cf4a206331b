"""The rounds of a stream of chunks: one message per answer of the model, with the results of tools between."""

from __future__ import annotations

from diarist.adapters.chat import ChatChunk
from diarist.adapters.streaming import aggregator
from diarist.runtime.aggregates import Aggregate
from diarist.runtime.messages import AssistantMessage, Message


class Rounds:
    """Aggregates each round on its own, so that calls and texts of different rounds never run together."""

    def __init__(self) -> None:
        self._done: list[Message] = []
        self._current: Aggregate | None = None
        self._ended = False
        self._error: BaseException | None = None

    def add(self, chunk: ChatChunk) -> None:
        """A chunk with a message ends the round before it."""
        if chunk.message is not None or chunk.ends_round:
            self._close()
        if chunk.message is not None:
            self._done.append(chunk.message)
        elif not chunk.is_blank:
            if self._current is None:
                self._current = aggregator()
            self._current.add(chunk)

    def end(self, error: BaseException | None = None) -> None:
        """No more chunks will come."""
        self._ended, self._error = True, error

    def messages(self) -> tuple[*tuple[Message, ...], AssistantMessage]:
        """What came so far; the last one is the answer, empty if there is none yet."""
        current = self._current or aggregator("text")
        last = current.message(cancelled=not self._ended, error=self._error)
        return (*self._done, last)

    def _close(self) -> None:
        if self._current is not None:
            self._done.append(self._current.message())
            self._current = None
