"""A detached turn: the runtime reads the stream in a task of its own, and ends the turn when the stream ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from diarist.runtime.errors import ClosedError, TurnInterruptedError
from diarist.runtime.recorder import Recorder

if TYPE_CHECKING:
    from diarist.runtime.engine import Engine
    from diarist.runtime.feeds import Feed
    from diarist.runtime.ids import Key
    from diarist.runtime.turn import Turn


class Detached:
    """Has taken a turn over from its body. The body may follow the feed, or leave."""

    def __init__(self, engine: Engine, key: Key, turn: Turn, recorder: Recorder[Any], owner: str | None) -> None:
        self._engine = engine
        self._key = key
        self._turn = turn
        self._recorder = recorder
        self._error: BaseException | None = None
        self.left = False
        """Whether the body is gone: then nobody hears of an error unless it is logged."""
        task = engine.start(self._run())
        if task is None:
            raise ClosedError("the memory is closed")
        self.task = task
        self.feed: Feed[Any] = engine.feeds.open(key, turn, owner)
        task.add_done_callback(self._ended)

    async def _run(self) -> None:
        try:
            async for chunk in self._recorder:
                self.feed.put(chunk)
                await asyncio.sleep(0)  # a stream that has much at once must not hold up those who send it on
        except BaseException as error:
            self._error = error
        try:
            await self._turn.finish(self._error)
        except Exception as error:
            self._error = error
            if not isinstance(error, TurnInterruptedError):
                self._turn.note_failure("a detached turn could not be stored", error)
        else:
            self._judge()

    def _judge(self) -> None:
        """An error of the stream is told to who follows; without a body that is perhaps nobody."""
        error = self._error
        if error is None or isinstance(error, TurnInterruptedError):
            return
        if not isinstance(error, Exception):
            raise error
        if self.left:
            self._turn.note_failure("the stream of a detached turn failed", error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = self._error
        if task.cancelled() or (error is not None and not isinstance(error, Exception)):
            error = self._turn.interruption.error or TurnInterruptedError("the stream was cancelled")
        self._engine.feeds.end(self._key, self.feed, error)
